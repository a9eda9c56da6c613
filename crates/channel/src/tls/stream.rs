//! TLS over any asynchronous byte stream: rustls does the protocol, this file only carries its bytes.
//!
//! Half-close is kept: closing sends `close_notify` and the transport's end, and reading goes on. An end of the
//! transport without `close_notify` is an error (`UnexpectedEof`), never an end of data: that is what a truncation
//! attack looks like.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use smol::future::poll_fn;
use smol::io::{AsyncRead, AsyncWrite};

/// A TLS connection over `S`.
pub struct TlsStream<S> {
    io: S,
    tls: rustls::Connection,
    /// Raw bytes the peer may still send.
    allowance: u64,
    closing: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    /// Carries `tls` over `io`. The peer may send `allowance` raw bytes in all until [`Self::lift_allowance`].
    pub(super) fn new(io: S, tls: rustls::Connection, allowance: u64) -> Self {
        Self { io, tls, allowance, closing: false }
    }

    /// Ends the limit on what the peer may send.
    pub(crate) fn lift_allowance(&mut self) {
        self.allowance = u64::MAX;
    }

    /// The protocol's state.
    pub(super) fn tls(&self) -> &rustls::Connection {
        &self.tls
    }

    /// Runs the TLS handshake to its end.
    pub(super) async fn handshake(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_handshake(cx)).await
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_drain(cx))?;
            if !self.tls.is_handshaking() {
                return Pin::new(&mut self.io).poll_flush(cx);
            }
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Takes in what the transport has, and returns how many bytes that were; 0 is the transport's end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let len = match self.tls.read_tls(&mut Blocking { io: &mut self.io, cx }) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        };
        self.allowance = match self.allowance.checked_sub(len as u64) {
            Some(rest) => rest,
            None => return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, HandshakeTooLongError))),
        };
        if let Err(error) = self.tls.process_new_packets() {
            // The alert that tells the peer why; if it cannot be sent at once, the connection is lost anyway.
            let _ = self.poll_drain(cx);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(len))
    }

    /// Gives the transport all that rustls wants to send.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Blocking { io: &mut self.io, cx }) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            // Ok(0) after close_notify, UnexpectedEof after an end without it.
            match this.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            ready!(this.poll_fill(cx))?;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.closing {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        loop {
            // rustls takes nothing while its buffer (64 KiB) is full.
            let taken = this.tls.writer().write(data)?;
            if taken > 0 || data.is_empty() {
                // What does not go out now goes out with the next write or flush.
                if let Poll::Ready(Err(error)) = this.poll_drain(cx) {
                    return Poll::Ready(Err(error));
                }
                return Poll::Ready(Ok(taken));
            }
            ready!(this.poll_drain(cx))?;
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.closing {
            this.tls.send_close_notify();
            this.closing = true;
        }
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.io).poll_close(cx)
    }
}

impl<S> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("closing", &self.closing).finish_non_exhaustive()
    }
}

/// The peer sent more than a whole handshake can need.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("more bytes than a whole handshake can need")]
pub(crate) struct HandshakeTooLongError;

/// The transport as rustls wants it: what would wait is `WouldBlock`.
struct Blocking<'a, 'cx, S> {
    io: &'a mut S,
    cx: &'a mut Context<'cx>,
}

impl<S: AsyncRead + Unpin> io::Read for Blocking<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        would_block(Pin::new(&mut *self.io).poll_read(self.cx, buffer))
    }
}

impl<S: AsyncWrite + Unpin> io::Write for Blocking<'_, '_, S> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        would_block(Pin::new(&mut *self.io).poll_write(self.cx, data))
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        would_block(Pin::new(&mut *self.io).poll_write_vectored(self.cx, parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        would_block(Pin::new(&mut *self.io).poll_flush(self.cx))
    }
}

fn would_block<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

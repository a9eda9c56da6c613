//! A byte stream as hyper wants it, and back again.

use super::pace::Pace;
use futures_rustls::server::TlsStream;
use hyper::rt::{Read, ReadBufCursor, Write};
use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpStream;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What is read at a time: one TLS record.
const PIECE: usize = 16 * 1024;

/// TCP, with or without TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A stream for hyper. It tells the pace what happens.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    /// hyper's own buffer is memory that was never written; ours is, so that no unsafe code is needed, for one copy.
    buffer: Box<[u8]>,
    pace: Arc<Pace>,
}

impl Wire {
    pub(crate) fn new(stream: Stream, pace: Arc<Pace>) -> Self {
        Self { stream, buffer: vec![0; PIECE].into(), pace }
    }

    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, buffer, pace } = self.get_mut();
        let room = cursor.remaining().min(buffer.len());
        let Some(place) = buffer.get_mut(..room) else { return Poll::Ready(Ok(())) };
        let count = ready!(Pin::new(stream).poll_read(context, place))?;
        let bytes = place.get(..count).unwrap_or_default();
        if !bytes.is_empty() {
            pace.received(bytes);
            cursor.put_slice(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.pace.sent(polled.is_ready());
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.pace.sent(polled.is_ready());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(context)
    }

    fn is_write_vectored(&self) -> bool {
        matches!(self.stream, Stream::Plain(_))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.pace.sent(polled.is_ready());
        polled
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_close(context),
            Self::Tls(stream) => Pin::new(stream).poll_close(context),
        }
    }
}

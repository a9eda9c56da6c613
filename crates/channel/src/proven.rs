//! A byte stream whose peer is proven.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use smol::io::{AsyncRead, AsyncWrite};

use crate::binding::Bindings;
use crate::handshake::Concluded;
use crate::proof::PeerProof;
use crate::purpose::Purpose;
use crate::tls::TlsStream;

/// A stream of application bytes to a peer that both verdicts have admitted. Only a finished handshake makes one.
///
/// Reading ends with `Ok(0)` only after the peer's `close_notify`; any other end is the error `UnexpectedEof`.
#[derive(Debug)]
pub struct Proven<S> {
    stream: TlsStream<S>,
    concluded: Concluded,
}

impl<S> Proven<S> {
    pub(crate) const fn new(stream: TlsStream<S>, concluded: Concluded) -> Self {
        Self { stream, concluded }
    }

    /// What the connection is for.
    pub const fn purpose(&self) -> Purpose {
        self.concluded.purpose()
    }

    /// Who the peer is.
    pub const fn peer(&self) -> &PeerProof {
        self.concluded.peer()
    }

    /// What each side's evidence covered.
    pub const fn bindings(&self) -> Bindings {
        self.concluded.bindings()
    }

    /// The client's binding in hexadecimal. It is the same at both ends and of no use to anyone else: write it into
    /// audit records, so that those of both ends can be joined.
    pub fn audit_id(&self) -> String {
        self.bindings().client.to_string()
    }

    /// The stream and the proof apart, for a server that keeps the proof beside the connection.
    pub fn into_parts(self) -> (TlsStream<S>, Concluded) {
        (self.stream, self.concluded)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Proven<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Proven<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

//! A stream that remembers whether its peer left without a drain: a cut connection, a reset.
//!
//! Only reading tells: what this side writes after the peer's drain may well fail.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use smol::io::{AsyncRead, AsyncWrite};

/// The stream.
pub(super) struct Watched<S> {
    stream: S,
    disturbed: Arc<AtomicBool>,
}

/// Knows of the stream after it is gone.
pub(super) struct Watch(Arc<AtomicBool>);

impl Watch {
    /// True if no read ever failed.
    pub(super) fn undisturbed(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S) -> (Self, Watch) {
        let disturbed = Arc::new(AtomicBool::new(false));
        (Self { stream, disturbed: Arc::clone(&disturbed) }, Watch(disturbed))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Poll::Ready(Err(_)) = &polled {
            self.disturbed.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
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

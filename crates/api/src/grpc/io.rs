//! A `futures` byte stream as the tokio I/O traits that h2 asks for. No runtime is involved.

use smol::io::{AsyncRead, AsyncWrite};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::ReadBuf;

/// Reads in a row before the task lets others run: h2 reads for as long as there is something, and a peer that sends
/// without pause must not keep the thread to itself.
const READS_IN_A_ROW: u8 = 64;

/// The wrapped stream.
#[derive(Debug)]
pub(crate) struct Adapter<S> {
    stream: S,
    reads: u8,
}

impl<S> Adapter<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, reads: 0 }
    }
}

impl<S: AsyncRead + Unpin> tokio::io::AsyncRead for Adapter<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.reads == READS_IN_A_ROW {
            self.reads = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buf.initialize_unfilled());
        self.reads = if read.is_ready() { self.reads + 1 } else { 0 };
        let count = ready!(read)?;
        // A stream that claims more than it was given room for is broken; `advance` would panic.
        if count > buf.remaining() {
            return Poll::Ready(Err(io::Error::other("the stream reports more bytes than fit")));
        }
        buf.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> tokio::io::AsyncWrite for Adapter<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Wake, Waker},
    };
    use tokio::io::AsyncRead as _;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_peer_that_never_pauses_does_not_keep_the_thread() {
        let count = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let mut endless = Adapter::new(smol::io::repeat(7));
        for round in 1..=3 {
            let mut bytes = [0; 16];
            let mut reads = 0;
            while Pin::new(&mut endless).poll_read(&mut cx, &mut ReadBuf::new(&mut bytes)).is_ready() {
                reads += 1;
            }
            assert_eq!((reads, count.0.load(Ordering::Relaxed)), (READS_IN_A_ROW, round), "paused, and woken to go on");
        }
    }
}

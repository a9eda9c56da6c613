//! An in-memory byte stream with bounded buffers: what one end writes, the other reads.

use smol::io::{AsyncRead, AsyncWrite};
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

const CAPACITY: usize = 64 * 1024;

#[derive(Default)]
struct Lane {
    bytes: VecDeque<u8>,
    closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Lane {
    fn close(&mut self) {
        self.closed = true;
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

pub struct End {
    incoming: Arc<Mutex<Lane>>,
    outgoing: Arc<Mutex<Lane>>,
}

/// Both ends of a new stream.
pub fn pipe() -> (End, End) {
    let (left, right) = (Arc::<Mutex<Lane>>::default(), Arc::<Mutex<Lane>>::default());
    (End { incoming: left.clone(), outgoing: right.clone() }, End { incoming: right, outgoing: left })
}

impl AsyncRead for End {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut lane = self.incoming.lock().unwrap();
        if lane.bytes.is_empty() && !lane.closed {
            lane.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = io::Read::read(&mut lane.bytes, buf)?;
        if let Some(writer) = lane.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut lane = self.outgoing.lock().unwrap();
        if lane.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = buf.len().min(CAPACITY - lane.bytes.len());
        if count == 0 && !buf.is_empty() {
            lane.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        lane.bytes.extend(&buf[..count]);
        if let Some(reader) = lane.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.lock().unwrap().close();
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.outgoing.lock().unwrap().close();
        self.incoming.lock().unwrap().close();
    }
}

/// An end for libraries that want tokio's traits.
pub struct Tokio(pub End);

impl tokio::io::AsyncRead for Tokio {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf.initialize_unfilled()).map_ok(|count| buf.advance(count))
    }
}

impl tokio::io::AsyncWrite for Tokio {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

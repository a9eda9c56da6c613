//! A byte stream in memory: what one end writes, the other reads. The network that is left out.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use smol::io::{AsyncRead, AsyncWrite};

/// One end. Dropping or closing it ends what the other reads.
#[derive(Debug)]
pub struct End {
    incoming: Lane,
    outgoing: Lane,
}

/// Both ends of a new stream. It has no bound: both ends are trusted to read.
pub fn pipe() -> (End, End) {
    let (left, right) = (Lane::default(), Lane::default());
    (End { incoming: left.clone(), outgoing: right.clone() }, End { incoming: right, outgoing: left })
}

#[derive(Clone, Debug, Default)]
struct Lane(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: VecDeque<u8>,
    closed: bool,
    reader: Option<Waker>,
}

impl Lane {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let reader = {
            let mut state = self.state();
            state.closed = true;
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
    }
}

impl AsyncRead for End {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut state = self.incoming.state();
        if state.bytes.is_empty() && !state.closed {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.bytes.read(buffer))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let reader = {
            let mut state = self.outgoing.state();
            if state.closed {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            state.bytes.extend(data);
            state.reader.take()
        };
        reader.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.close();
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.outgoing.close();
        self.incoming.close();
    }
}

#[cfg(test)]
mod tests {
    use smol::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn one_end_reads_what_the_other_wrote_and_then_its_end() {
        let (mut near, mut far) = pipe();
        smol::block_on(async {
            let mut read = Vec::new();
            let reading = far.read_to_end(&mut read);
            let writing = async {
                near.write_all(b"one ").await.unwrap();
                near.write_all(b"two").await.unwrap();
                near.close().await.unwrap();
            };
            smol::future::zip(reading, writing).await.0.unwrap();
            assert_eq!(read, b"one two");
            drop(far);
            assert!(near.write_all(b"three").await.is_err());
        });
    }
}

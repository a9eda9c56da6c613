//! What waits for a client to read it: bounded in bytes and number.

use async_tungstenite::tungstenite::Message;
use smol::channel::{Receiver, Sender, bounded, unbounded};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::AcqRel;

/// The most frames that wait. A connection's frames are put by one task at a time.
const FRAMES: usize = 4096;

/// Where frames are put. Clones put into the same.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    frames: Sender<Message>,
    bytes: Arc<AtomicUsize>,
    limit: usize,
    overflow: Sender<()>,
}

/// Where they are taken out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    frames: Receiver<Message>,
    bytes: Arc<AtomicUsize>,
    overflowed: Receiver<()>,
}

pub(crate) fn outbox(limit: usize) -> (Outbox, Outgoing) {
    // A bounded channel would take the room for all of them at once; see [`Outbox::put`] for the bound.
    let (frames, taken) = unbounded();
    let (overflow, overflowed) = bounded(1);
    let bytes = Arc::new(AtomicUsize::new(0));
    (Outbox { frames, bytes: Arc::clone(&bytes), limit, overflow }, Outgoing { frames: taken, bytes, overflowed })
}

impl Outbox {
    /// Puts a frame in: whether it fits. One that does not is lost, and said to whoever waits for that.
    pub(crate) fn put(&self, frame: Message) -> bool {
        let length = frame.len();
        let before = self.bytes.fetch_add(length, AcqRel);
        // One frame alone may be as large as it is: it exists already.
        let room = (before == 0 || before + length <= self.limit) && self.frames.len() < FRAMES;
        let fits = room && self.frames.try_send(frame).is_ok();
        if !fits {
            // Full: it was said already.
            let _ = self.overflow.try_send(());
        }
        fits
    }
}

impl Outgoing {
    /// The next frame.
    pub(crate) async fn next(&self) -> Option<Message> {
        self.frames.recv().await.ok()
    }

    /// A frame was sent.
    pub(crate) fn sent(&self, length: usize) {
        self.bytes.fetch_sub(length, AcqRel);
    }

    /// Returns when something did not fit.
    pub(crate) async fn overflowed(&self) {
        let _said = self.overflowed.recv().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smol::future::poll_once;

    #[test]
    fn what_waits_is_bounded_in_number() {
        latchkey_test_support::block_on(async {
            let (outbox, outgoing) = outbox(10);
            for _ in 0..FRAMES {
                assert!(outbox.put(Message::text("")));
            }
            assert!(poll_once(outgoing.overflowed()).await.is_none());
            assert!(!outbox.put(Message::text("")));
            outgoing.overflowed().await;
        });
    }

    #[test]
    fn what_waits_is_bounded_in_bytes() {
        latchkey_test_support::block_on(async {
            let (outbox, outgoing) = outbox(10);
            assert!(outbox.put(Message::text("123456789012")));
            assert!(poll_once(outgoing.overflowed()).await.is_none(), "one frame may be as large as it is");
            outgoing.sent(outgoing.next().await.unwrap().len());
            assert!(outbox.put(Message::text("12345")) && outbox.put(Message::text("12345")));
            assert!(poll_once(outgoing.overflowed()).await.is_none());
            assert!(!outbox.put(Message::text("1")));
            outgoing.overflowed().await;
        });
    }
}

//! Being told to stop (SIGINT, SIGTERM, SIGHUP) while a program runs.

use std::sync::atomic::{AtomicBool, Ordering};

use async_signal::{Signal, Signals};
use smol::lock::Mutex;
use smol::stream::StreamExt as _;

/// From its making on the signals end nothing by themselves: the next call of a program says that there was one.
#[derive(Debug)]
pub(super) struct Interrupt {
    signals: Mutex<Option<Signals>>,
    seen: AtomicBool,
}

impl Interrupt {
    pub(super) fn new() -> Self {
        // Where they cannot be caught they do what they always do.
        let signals = Signals::new([Signal::Int, Signal::Term, Signal::Hup]).ok();
        Self { signals: Mutex::new(signals), seen: AtomicBool::new(false) }
    }

    /// Whether there was one that [`Self::wait`] told of.
    pub(super) fn seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    /// Returns once there was a signal, be it long ago.
    pub(super) async fn wait(&self) {
        let mut signals = self.signals.lock().await;
        if self.seen() {
            return;
        }
        match signals.as_mut() {
            Some(signals) => drop(signals.next().await),
            None => std::future::pending().await,
        }
        self.seen.store(true, Ordering::Relaxed);
    }
}

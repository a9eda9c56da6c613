//! Being told to stop (SIGINT, SIGTERM, SIGHUP).
//!
//! While a program runs, it is ended first, and the command says that it was interrupted. Otherwise, and when told a second time,
//! the command ends at once, as it would without this.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_signal::{Signal, Signals};
use smol::channel::{Receiver, bounded};
use smol::stream::StreamExt as _;

/// How a shell tells of a program that SIGINT ended: 128 + 2.
const INTERRUPTED: i32 = 130;

#[derive(Debug)]
pub(super) struct Interrupt {
    /// Nothing is ever sent: it is closed by the first signal.
    told: Receiver<()>,
    running: Arc<AtomicUsize>,
}

/// A program runs.
pub(super) struct Running<'a>(&'a AtomicUsize);

#[expect(
    clippy::disallowed_methods,
    reason = "what a signal does by default drops nothing either; no secret is held here"
)]
fn end() -> ! {
    std::process::exit(INTERRUPTED)
}

impl Interrupt {
    pub(super) fn new() -> Self {
        let (sender, told) = bounded(1);
        let running = Arc::new(AtomicUsize::new(0));
        let programs = running.clone();
        smol::spawn(async move {
            // Where they cannot be caught they do what they always do.
            let Ok(mut signals) = Signals::new([Signal::Int, Signal::Term, Signal::Hup]) else {
                return std::future::pending().await;
            };
            signals.next().await;
            if programs.load(Ordering::SeqCst) > 0 {
                drop(sender);
                signals.next().await;
            }
            // What still runs is tied to this process.
            end();
        })
        .detach();
        Self { told, running }
    }

    /// A program runs until this is dropped; `None` if the command was told to stop.
    pub(super) fn begin(&self) -> Option<Running<'_>> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(&self.running);
        (!self.told.is_closed()).then_some(running)
    }

    /// Returns once there was a signal, be it long ago.
    pub(super) async fn wait(&self) {
        let _ = self.told.recv().await;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

//! Reading everything again, when asked by SIGHUP: as a whole, or not at all.

use crate::page::Page;
use smol::channel::{Receiver, Sender, bounded};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What a service reads again. It may block: nothing waits for it.
pub trait Reload: Send + Sync + 'static {
    /// Reads and checks everything anew, and puts it in force as a whole, for whatever comes next.
    ///
    /// # Errors
    /// A sentence that says what cannot be used. Nothing has changed then.
    fn reload(&self) -> Result<(), String>;
}

/// The reloads of a service. Clones are of the same service.
#[derive(Clone)]
pub struct Reloads(Arc<Shared>);

struct Shared {
    what: Arc<dyn Reload>,
    ask: Sender<()>,
    asked: Receiver<()>,
    state: Mutex<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    done: u64,
    failed: u64,
    /// Of the last one.
    failure: Option<String>,
}

impl Reloads {
    /// None yet.
    pub fn of(what: Arc<dyn Reload>) -> Self {
        // One that is asked for while another runs follows it; more need not.
        let (ask, asked) = bounded(1);
        Self(Arc::new(Shared { what, ask, asked, state: Mutex::default() }))
    }

    /// Adds what is known of reloads to the page.
    pub fn render(&self, page: &mut Page) {
        let State { done, failed, .. } = self.state();
        page.family(
            "reloads_total",
            "counter",
            "Times that everything was read again when asked by SIGHUP, by outcome",
        );
        page.line("reloads_total", "{outcome=\"done\"}", done);
        page.line("reloads_total", "{outcome=\"failed\"}", failed);
    }

    /// What `/healthz` has to say: why the last reload changed nothing.
    pub fn note(&self) -> Option<String> {
        self.state().failure.map(|why| format!("the last reload changed nothing: {why}"))
    }

    pub(crate) fn ask(&self) {
        // Full: one is asked for already.
        let _ = self.0.ask.try_send(());
    }

    /// Reloads whenever asked. Never ends by itself.
    pub(crate) async fn follow(&self) -> std::io::Result<()> {
        while self.0.asked.recv().await.is_ok() {
            let what = Arc::clone(&self.0.what);
            let outcome = smol::unblock(move || what.reload()).await;
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &outcome {
                Ok(()) => {
                    state.done += 1;
                    tracing::info!("Reloaded");
                }
                Err(why) => {
                    state.failed += 1;
                    tracing::error!(%why, "Not reloaded; what was read before stays in force");
                }
            }
            state.failure = outcome.err();
        }
        std::future::pending::<Result<(), Infallible>>().await.map_err(|never| match never {})
    }

    fn state(&self) -> State {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Reloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloads").field("state", &self.state()).finish_non_exhaustive()
    }
}

//! Approves and denies kubelets' certificates, where the cluster is kept in an API server.
//!
//! For each request that waits: who asks, and what for (`latchkey_kubelet_certificates`); what is on record of its ticket or its
//! node; the claim of the ticket, written; the answer, written into the request; its line. A crash between the last two leaves a
//! request that waits and a claim that names it: whoever looks next, this service or another, finds both and answers. Several
//! services at once make one claim, and one of their answers counts.
//!
//! A denial is final, so it is decided on records that are read for it: what another service wrote a moment ago may not have
//! been told here. What cannot be decided, read or written now is looked at again, ever more rarely.

mod again;
mod decide;
mod pulse;

use crate::decision::Refusal;
use crate::metrics::Metrics;
use crate::snapshot::Current;
use crate::store::Store;
use again::Again;
use decide::Unsure;
use latchkey_cluster_store::StoreError;
use latchkey_kubernetes_store::{KubernetesStore, WaitingRequest, is_overload};
use latchkey_service_runtime::log_limiter::LogLimiter;
pub(crate) use pulse::Pulse;
use smol::channel::{Receiver, bounded};
use smol::future::FutureExt;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Until what waits for a record, or failed, is looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// Until everything is, though nobody has told of anything.
const ANYWAY: Duration = Duration::from_secs(30);
/// So many answers, then those that have come meanwhile are taken in, in their turn.
const MOST_IN_A_ROW: usize = 64;
/// What a line shows of a name that the requester chose, in characters.
const MAX_NAME: usize = 128;

/// What the loop works with.
#[derive(Debug)]
pub(crate) struct Approver {
    api: Arc<KubernetesStore>,
    store: Arc<Store>,
    current: Arc<Current>,
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    noise: LogLimiter,
    /// When the last listing of all records began, and when one was begun at all.
    listed: Option<Instant>,
    tried_to_list: Option<Instant>,
    /// Answers of which it is not known whether they stand.
    unsure: Vec<Unsure>,
    again: Again,
}

/// What a look at those that wait came to.
struct Passed {
    unanswered: u64,
    /// It ended for those that have come meanwhile.
    in_between: bool,
}

/// Why a request is not answered now.
#[derive(Debug)]
enum Later {
    /// The node has not reported yet, or its record is not known here yet.
    Waits,
    /// The records could not be read or written.
    Records(Refusal),
    /// The API server did not do what was asked.
    Api(StoreError),
    /// A fault of this program.
    Panicked,
}

impl Later {
    /// Whether others would fail as well.
    fn is_trouble(&self) -> bool {
        match self {
            Self::Waits | Self::Panicked => false,
            Self::Records(refusal) => *refusal == Refusal::RecordNotWritten,
            Self::Api(error) => is_overload(error),
        }
    }
}

impl From<Refusal> for Later {
    fn from(refusal: Refusal) -> Self {
        Self::Records(refusal)
    }
}

impl From<StoreError> for Later {
    fn from(error: StoreError) -> Self {
        Self::Api(error)
    }
}

impl Approver {
    pub(crate) fn new(
        api: Arc<KubernetesStore>,
        store: Arc<Store>,
        current: Arc<Current>,
        metrics: Arc<Metrics>,
        pulse: Arc<Pulse>,
    ) -> Self {
        Self {
            api,
            store,
            current,
            metrics,
            pulse,
            noise: LogLimiter::new(),
            listed: None,
            tried_to_list: None,
            unsure: Vec::new(),
            again: Again::default(),
        }
    }

    /// Until dropped.
    pub(crate) async fn run(mut self) {
        let (tell, told) = bounded(1);
        let tell = move || {
            // Full: it is told already.
            let _ = tell.try_send(());
        };
        self.api.follow_requests(Box::new(tell));
        loop {
            let Passed { unanswered, in_between } = self.pass().await;
            self.metrics.certificates_waiting(unanswered);
            match self.again.trouble() {
                Some(time) => drop(smol::Timer::after(time).await),
                None if in_between => {}
                None => pause(&told, if unanswered > 0 { AGAIN } else { ANYWAY }).await,
            }
        }
    }

    /// Looks at each that waits, until a few were answered or there is trouble.
    async fn pass(&mut self) -> Passed {
        self.make_sure().await;
        let waiting = self.api.waiting_requests();
        self.again.keep(&waiting.iter().map(|request| request.uid()).collect::<HashSet<_>>());
        let mut answered = 0;
        for request in &waiting {
            self.pulse.beat();
            if !self.again.is_due(request.uid(), Instant::now()) {
                continue;
            }
            match guarded(self.answer(request)).await {
                Ok(()) => {
                    self.again.answered(request.uid());
                    answered += 1;
                }
                // Looked at again each second: in memory, and read once.
                Err(Later::Waits) => {}
                Err(later) => {
                    self.again.failed(request.uid(), later.is_trouble(), Instant::now());
                    self.say(request, &later);
                    if later.is_trouble() {
                        break;
                    }
                }
            }
            if answered == MOST_IN_A_ROW {
                break;
            }
        }
        self.pulse.beat();
        let unanswered = u64::try_from(waiting.len() - answered).unwrap_or(u64::MAX);
        Passed { unanswered, in_between: answered == MOST_IN_A_ROW }
    }

    /// What is not answered comes again.
    fn say(&self, request: &WaitingRequest, later: &Later) {
        let why = match later {
            Later::Waits => return,
            Later::Records(refusal) => refusal.to_string(),
            Later::Api(error) => error.to_string(),
            Later::Panicked => "a fault of this program: see the panic above".to_owned(),
        };
        if let Some(left_out) = self.noise.write_now() {
            let name: String = request.name().chars().take(MAX_NAME).collect();
            tracing::error!(request = name, why, left_out, "A certificate request could not be answered, and waits");
        }
    }
}

/// One request must not end the approval of all.
async fn guarded(answer: impl Future<Output = Result<(), Later>>) -> Result<(), Later> {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or(Err(Later::Panicked))
}

async fn pause(told: &Receiver<()>, most: Duration) {
    let asked = async {
        if told.recv().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let late = async {
        smol::Timer::after(most).await;
    };
    asked.or(late).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_makes_the_program_panic_ends_no_approvals() {
        let panics = async {
            assert!(std::hint::black_box(false), "as a fault would");
            Ok(())
        };
        assert!(matches!(latchkey_test_support::block_on(guarded(panics)), Err(Later::Panicked)));
    }
}

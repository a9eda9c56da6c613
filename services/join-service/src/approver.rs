//! Approves and denies kubelets' certificates, where the cluster is kept in an API server.
//!
//! For each request that waits: who asks, and what for (`latchkey_kubelet_certificates`); what is on record of its ticket or its
//! node; the claim of the ticket, written; the answer, written into the request; its line. A crash between the last two leaves a
//! request that waits and a claim that names it: whoever looks next, this service or another, finds both and answers. Several
//! services at once make one claim, and one of their answers counts.
//!
//! A denial is final, so it is decided on records that are read for it: what another service wrote a moment ago may not have
//! been told here. What cannot be decided, read or written now is looked at again.

use crate::decision::Refusal;
use crate::metrics::Metrics;
use crate::snapshot::Current;
use crate::store::{Certified, Outcome, Store};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::StoreError;
use latchkey_kubelet_certificates::{Approval, CertificateRefusal, ClientAsk, Reading, ServingAsk};
use latchkey_kubernetes_store::{Answered, KubernetesStore, WaitingRequest};
use latchkey_service_runtime::log_limiter::LogLimiter;
use smol::channel::{Receiver, bounded};
use smol::future::FutureExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Until what waits for a record, or failed, is looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// Until everything is, though nobody has told of anything.
const ANYWAY: Duration = Duration::from_secs(30);
/// All records are not listed more often than this, however many requests name none of them.
const BETWEEN_LISTINGS: Duration = Duration::from_secs(5);

/// What the loop works with.
#[derive(Debug)]
pub(crate) struct Approver {
    api: Arc<KubernetesStore>,
    store: Arc<Store>,
    current: Arc<Current>,
    metrics: Arc<Metrics>,
    noise: LogLimiter,
    /// When the last listing of all records began.
    listed: Option<Instant>,
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
    ) -> Self {
        Self { api, store, current, metrics, noise: LogLimiter::new(), listed: None }
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
            let mut unanswered = 0;
            for request in self.api.waiting_requests() {
                match self.answer(&request).await {
                    Ok(()) => {}
                    Err(later) => {
                        unanswered += 1;
                        self.say(&request, &later);
                    }
                }
            }
            self.metrics.certificates_waiting(unanswered);
            pause(&told, if unanswered > 0 { AGAIN } else { ANYWAY }).await;
        }
    }

    async fn answer(&mut self, request: &Arc<WaitingRequest>) -> Result<(), Later> {
        let (decided, ek) = match request.read() {
            Reading::Leave(_) => return Ok(()),
            Reading::Deny(refusal) => (Err(refusal), None),
            Reading::Client(ask) => self.client(request, ask).await?,
            Reading::Serving(ask) => self.serving(request, ask).await?,
        };
        let refusal = decided.as_ref().err().copied();
        let (api, about) = (Arc::clone(&self.api), Arc::clone(request));
        let answered = smol::unblock(move || match decided {
            Ok(approval) => api.approve(&about, &approval),
            Err(refusal) => api.deny(&about, refusal),
        });
        if answered.await? == Answered::Written {
            self.metrics.certificate(request.signer(), refusal);
            write_line(request, ek, refusal);
        }
        Ok(())
    }

    async fn client(&mut self, request: &WaitingRequest, ask: ClientAsk) -> Result<Decided, Later> {
        let certified = self.store.certify_client(ask.clone(), self.denied()).await?;
        if !self.is_to_be_read_first(request, &certified).await? {
            return decided(certified);
        }
        decided(self.store.certify_client(ask, self.denied()).await?)
    }

    async fn serving(&mut self, request: &WaitingRequest, ask: ServingAsk) -> Result<Decided, Later> {
        let certified = self.store.certify_serving(&ask, self.denied());
        if !self.is_to_be_read_first(request, &certified).await? {
            return decided(certified);
        }
        decided(self.store.certify_serving(&ask, self.denied()))
    }

    /// Before a denial: reads what it would be decided on, so that it is to be decided anew.
    async fn is_to_be_read_first(&mut self, request: &WaitingRequest, certified: &Certified) -> Result<bool, Later> {
        match (&certified.outcome, certified.ek) {
            (Outcome::Decided(Err(_)), Some(ek)) => {
                self.store.catch_up(ek).await;
                Ok(true)
            }
            (Outcome::Decided(Err(_)), None) => self.list_records_for(request).await,
            (Outcome::Decided(Ok(_)) | Outcome::NotReported, _) => Ok(false),
        }
    }

    /// Whether all records were listed anew: a listing that began before the request came cannot tell that nobody has its ticket.
    async fn list_records_for(&mut self, request: &WaitingRequest) -> Result<bool, Later> {
        if self.listed.is_some_and(|listed| listed > request.seen()) {
            return Ok(false);
        }
        if self.listed.is_some_and(|listed| listed.elapsed() < BETWEEN_LISTINGS) {
            return Err(Later::Waits);
        }
        let (api, begun) = (Arc::clone(&self.api), Instant::now());
        smol::unblock(move || api.list_records()).await?;
        self.store.follow().await;
        self.listed = Some(begun);
        Ok(true)
    }

    fn denied(&self) -> impl Fn(&EkDigest) -> bool + Send + use<> {
        let denials = Arc::clone(&self.current.snapshot().denials);
        move |ek| denials.has(ek)
    }

    /// What is not answered comes again each second.
    fn say(&self, request: &WaitingRequest, later: &Later) {
        let why = match later {
            Later::Waits => return,
            Later::Records(refusal) => refusal.to_string(),
            Later::Api(error) => error.to_string(),
        };
        if let Some(left_out) = self.noise.write_now() {
            let name: String = request.name().chars().take(MAX_NAME).collect();
            tracing::error!(request = name, why, left_out, "A certificate request could not be answered, and waits");
        }
    }
}

type Decided = (Result<Approval, CertificateRefusal>, Option<EkDigest>);

fn decided(certified: Certified) -> Result<Decided, Later> {
    match certified.outcome {
        Outcome::Decided(outcome) => Ok((outcome, certified.ek)),
        Outcome::NotReported => Err(Later::Waits),
    }
}

/// What a line shows of a name that the requester chose, in characters.
const MAX_NAME: usize = 128;

/// One line per answer. A request's name, its requester and its signer are as the API server lets them be: printable.
fn write_line(request: &WaitingRequest, ek: Option<EkDigest>, refusal: Option<CertificateRefusal>) {
    let short = |text: &str| text.chars().take(MAX_NAME).collect::<String>();
    let (name, user, uid) = (short(request.name()), short(request.username()), short(request.uid()));
    let ek = ek.map_or_else(|| "-".to_owned(), |ek| ek.to_string());
    let signer = request.signer();
    match refusal {
        None => tracing::info!(
            target: "audit", request = name, uid, signer, user, ek, outcome = "approved", "Certificate"
        ),
        Some(refusal) => tracing::warn!(
            target: "audit", request = name, uid, signer, user, ek, outcome = "denied", code = refusal.as_str(),
            remedy = refusal.remedy(), "Certificate"
        ),
    }
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

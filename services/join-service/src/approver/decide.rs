//! One request: decided, answered, and its line written.

use super::rounds::Desk;
use super::{Later, MAX_NAME};
use crate::decision::Refusal;
use crate::denials::DenialCheck;
use crate::documents::CurrentCluster;
use crate::metrics::Metrics;
use crate::store::{Certified, Outcome, Store};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{NotDenied, RefusedMachine};
use latchkey_kubelet_certificates::{Approval, CertificateRefusal, ClientAsk, Reading};
use latchkey_kubernetes_store::{Answered, KubernetesStore, Standing, WaitingRequest};
use latchkey_reason::ReasonCode as _;
use smol::lock::Mutex as AsyncMutex;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// All records are not listed more often than this, however many requests name none of them.
const BETWEEN_LISTINGS: Duration = Duration::from_secs(5);
/// What an Event of a denial says was asked for.
const ACTION: &str = "certificate";
/// Answers that are remembered until it is known whether they stand.
const MOST_UNSURE: usize = 256;

/// What answers are made with.
#[derive(Debug)]
pub(super) struct Approvals {
    api: Arc<KubernetesStore>,
    store: Arc<Store>,
    current: Arc<CurrentCluster>,
    denials: DenialCheck,
    metrics: Arc<Metrics>,
    /// Held while all records are listed.
    listings: AsyncMutex<Listings>,
    /// Answers of which it is not known whether they stand, by the request's uid.
    unsure: Mutex<HashMap<String, Unsure>>,
}

/// When the last listing of all records began, and when one was begun at all.
#[derive(Debug, Default)]
struct Listings {
    listed: Option<Instant>,
    tried: Option<Instant>,
}

/// An answer that was sent, and of which nothing came back.
#[derive(Clone, Debug)]
struct Unsure {
    request: Arc<WaitingRequest>,
    ek: Option<EkDigest>,
    refusal: Option<CertificateRefusal>,
}

type Decided = (Result<(Approval, NotDenied), CertificateRefusal>, Option<EkDigest>);

impl Desk for Approvals {
    type Request = WaitingRequest;

    /// Those whose answer got lost come first: such a request may wait no more.
    fn waiting(&self) -> Vec<Arc<WaitingRequest>> {
        let unsure = self.unsure();
        let waiting = self.api.waiting_requests();
        let others = waiting.into_iter().filter(|request| !unsure.contains_key(request.uid()));
        unsure.values().map(|unsure| Arc::clone(&unsure.request)).chain(others).collect()
    }

    fn uid(request: &WaitingRequest) -> &str {
        request.uid()
    }

    fn name(request: &WaitingRequest) -> &str {
        request.name()
    }

    async fn answer(&self, request: &Arc<WaitingRequest>) -> Result<(), Later> {
        let unsure = self.unsure().get(request.uid()).cloned();
        if let Some(unsure) = unsure
            && self.settle(unsure).await? != Standing::Waits
        {
            return Ok(());
        }
        let (decided, ek) = match request.read() {
            Reading::Leave(_) => {
                self.api.leave(request);
                return Ok(());
            }
            Reading::Deny(refusal) => (Err(*refusal), None),
            Reading::Client(ask) => self.client(request, ask).await?,
            Reading::Renewal(ask) => self.as_node(request, || self.store.certify_renewal(ask, &self.denials)).await?,
            Reading::Serving(ask) => {
                let certify = || {
                    let reserved = self.current.snapshot().own.reserved();
                    self.store.certify_serving(&reserved, ask, &self.denials)
                };
                self.as_node(request, certify).await?
            }
        };
        let refusal = decided.as_ref().err().copied();
        let (api, about) = (Arc::clone(&self.api), Arc::clone(request));
        let answered = smol::unblock(move || match decided {
            Ok((approval, not_denied)) => api.approve(&about, &approval, &not_denied),
            Err(refusal) => api.deny(&about, refusal),
        });
        match answered.await {
            Ok(Answered::Written) => self.written(request, ek, refusal),
            Ok(Answered::Overtaken) => {}
            Err(error) => {
                // It may stand all the same, and then the watch takes the request away.
                let mut unsure = self.unsure();
                if unsure.len() < MOST_UNSURE {
                    let request = Arc::clone(request);
                    unsure.insert(request.uid().to_owned(), Unsure { request, ek, refusal });
                }
                return Err(error.into());
            }
        }
        Ok(())
    }
}

impl Approvals {
    pub(super) fn new(
        api: Arc<KubernetesStore>,
        store: Arc<Store>,
        (current, denials): (Arc<CurrentCluster>, DenialCheck),
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { api, store, current, denials, metrics, listings: AsyncMutex::default(), unsure: Mutex::default() }
    }

    /// Looks whether an answer stands whose own answer got lost: then it has its line. Otherwise the request waits still, or was
    /// answered by somebody else, who says so.
    async fn settle(&self, unsure: Unsure) -> Result<Standing, Later> {
        let (api, about) = (Arc::clone(&self.api), Arc::clone(&unsure.request));
        let standing = smol::unblock(move || api.standing(&about, unsure.refusal)).await?;
        self.unsure().remove(unsure.request.uid());
        if standing == Standing::Ours {
            self.written(&unsure.request, unsure.ek, unsure.refusal);
        }
        Ok(standing)
    }

    fn unsure(&self) -> MutexGuard<'_, HashMap<String, Unsure>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer stands: it is counted and has its line, and a denial an Event, which nobody waits for.
    fn written(&self, request: &WaitingRequest, ek: Option<EkDigest>, refusal: Option<CertificateRefusal>) {
        self.metrics.certificate(request.signer(), refusal);
        write_line(request, ek, refusal);
        if let Some(refusal) = refusal {
            self.store.show_refusal(RefusedMachine { ek, action: ACTION, reason: refusal.reason() });
        }
    }

    async fn client(&self, request: &WaitingRequest, ask: &ClientAsk) -> Result<Decided, Later> {
        let certified = self.store.certify_client(ask.clone(), self.denials.clone()).await?;
        if !self.is_to_be_read_first(request, &certified).await? {
            return decided(certified);
        }
        let certified = self.store.certify_client(ask.clone(), self.denials.clone()).await?;
        self.check_clock_for(&certified).await?;
        decided(certified)
    }

    /// Before a denial that is the clock's: with one that is wrong it would be final all the same, and for all services.
    async fn check_clock_for(&self, certified: &Certified) -> Result<(), Later> {
        let is_over = |refusal: &CertificateRefusal| {
            matches!(refusal, CertificateRefusal::TicketExpired | CertificateRefusal::TicketLeaseEnded)
        };
        if !matches!(&certified.outcome, Outcome::Decided(Err(refusal)) if is_over(refusal)) {
            return Ok(());
        }
        let api = Arc::clone(&self.api);
        Ok(smol::unblock(move || api.check_clock()).await?)
    }

    /// Nothing is written before what a node asks for is approved, so what it is decided on is read for an approval, too.
    async fn as_node(
        &self,
        request: &WaitingRequest,
        certify: impl Fn() -> Result<Certified, Refusal>,
    ) -> Result<Decided, Later> {
        let certified = certify()?;
        match (&certified.outcome, certified.ek) {
            (Outcome::NotReported, _) => return Err(Later::Waits),
            (Outcome::Decided(_), Some(ek)) => self.store.catch_up(ek).await?,
            (Outcome::Decided(_), None) => {
                if !self.list_records_for(request).await? {
                    return decided(certified);
                }
            }
        }
        decided(certify()?)
    }

    /// Before a denial: reads what it would be decided on, so that it is to be decided anew. What cannot be read denies nobody.
    async fn is_to_be_read_first(&self, request: &WaitingRequest, certified: &Certified) -> Result<bool, Later> {
        match (&certified.outcome, certified.ek) {
            (Outcome::Decided(Err(_)), Some(ek)) => {
                self.store.catch_up(ek).await?;
                Ok(true)
            }
            (Outcome::Decided(Err(_)), None) => self.list_records_for(request).await,
            (Outcome::Decided(Ok(_)) | Outcome::NotReported, _) => Ok(false),
        }
    }

    /// Whether all records were listed anew: a listing that began before the request came cannot tell that nobody has its ticket.
    async fn list_records_for(&self, request: &WaitingRequest) -> Result<bool, Later> {
        // Somebody else lists them: this one comes after that.
        let Some(mut listings) = self.listings.try_lock() else { return Err(Later::Waits) };
        if listings.listed.is_some_and(|listed| listed > request.seen()) {
            return Ok(false);
        }
        // Those that failed count as well.
        if listings.tried.is_some_and(|tried| tried.elapsed() < BETWEEN_LISTINGS) {
            return Err(Later::Waits);
        }
        let (api, begun) = (Arc::clone(&self.api), Instant::now());
        listings.tried = Some(begun);
        smol::unblock(move || api.list_records()).await?;
        self.store.follow().await;
        listings.listed = Some(begun);
        Ok(true)
    }
}

fn decided(certified: Certified) -> Result<Decided, Later> {
    match certified.outcome {
        Outcome::Decided(outcome) => Ok((outcome, certified.ek)),
        Outcome::NotReported => Err(Later::Waits),
    }
}

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

//! One request: decided, answered, and its line written.

use super::{Approver, Later, MAX_NAME};
use crate::decision::Refusal;
use crate::store::{Certified, Outcome};
use latchkey_attestation::EkDigest;
use latchkey_kubelet_certificates::{Approval, CertificateRefusal, ClientAsk, Reading};
use latchkey_kubernetes_store::{Answered, Standing, WaitingRequest};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All records are not listed more often than this, however many requests name none of them.
const BETWEEN_LISTINGS: Duration = Duration::from_secs(5);
/// Answers that are remembered until it is known whether they stand.
const MOST_UNSURE: usize = 256;

/// An answer that was sent, and of which nothing came back.
#[derive(Debug)]
pub(super) struct Unsure {
    request: Arc<WaitingRequest>,
    ek: Option<EkDigest>,
    refusal: Option<CertificateRefusal>,
}

type Decided = (Result<Approval, CertificateRefusal>, Option<EkDigest>);

impl Approver {
    pub(super) async fn answer(&mut self, request: &Arc<WaitingRequest>) -> Result<(), Later> {
        let (decided, ek) = match request.read() {
            Reading::Leave(_) => {
                self.api.leave(request);
                return Ok(());
            }
            Reading::Deny(refusal) => (Err(*refusal), None),
            Reading::Client(ask) => self.client(request, ask).await?,
            Reading::Renewal(ask) => {
                self.as_node(request, |approver| approver.store.certify_renewal(ask, approver.denied())).await?
            }
            Reading::Serving(ask) => {
                let certify = |approver: &Self| {
                    let reserved = approver.current.snapshot().reserved();
                    approver.store.certify_serving(&reserved, ask, approver.denied())
                };
                self.as_node(request, certify).await?
            }
        };
        let refusal = decided.as_ref().err().copied();
        let (api, about) = (Arc::clone(&self.api), Arc::clone(request));
        let answered = smol::unblock(move || match decided {
            Ok(approval) => api.approve(&about, &approval),
            Err(refusal) => api.deny(&about, refusal),
        });
        match answered.await {
            Ok(Answered::Written) => self.written(request, ek, refusal),
            Ok(Answered::Overtaken) => {}
            Err(error) => {
                // It may stand all the same, and then the watch takes the request away.
                if self.unsure.len() < MOST_UNSURE {
                    self.unsure.push(Unsure { request: Arc::clone(request), ek, refusal });
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Looks whether answers stand whose own answer got lost: each that does has its line.
    pub(super) async fn make_sure(&mut self) {
        for unsure in std::mem::take(&mut self.unsure) {
            let (api, about) = (Arc::clone(&self.api), Arc::clone(&unsure.request));
            match smol::unblock(move || api.standing(&about, unsure.refusal)).await {
                Ok(Standing::Ours) => self.written(&unsure.request, unsure.ek, unsure.refusal),
                // It is answered anew, or was by somebody else, who says so.
                Ok(Standing::Waits | Standing::Others) => {}
                Err(_) => self.unsure.push(unsure),
            }
        }
    }

    fn written(&self, request: &WaitingRequest, ek: Option<EkDigest>, refusal: Option<CertificateRefusal>) {
        self.metrics.certificate(request.signer(), refusal);
        write_line(request, ek, refusal);
    }

    async fn client(&mut self, request: &WaitingRequest, ask: &ClientAsk) -> Result<Decided, Later> {
        let certified = self.store.certify_client(ask.clone(), self.denied()).await?;
        if !self.is_to_be_read_first(request, &certified).await? {
            return decided(certified);
        }
        decided(self.store.certify_client(ask.clone(), self.denied()).await?)
    }

    /// Nothing is written before what a node asks for is approved, so what it is decided on is read for an approval, too.
    async fn as_node(
        &mut self,
        request: &WaitingRequest,
        certify: impl Fn(&Self) -> Result<Certified, Refusal>,
    ) -> Result<Decided, Later> {
        let certified = certify(self)?;
        match (&certified.outcome, certified.ek) {
            (Outcome::NotReported, _) => return Err(Later::Waits),
            (Outcome::Decided(_), Some(ek)) => drop(self.store.catch_up(ek).await?),
            (Outcome::Decided(_), None) => {
                if !self.list_records_for(request).await? {
                    return decided(certified);
                }
            }
        }
        decided(certify(self)?)
    }

    /// Before a denial: reads what it would be decided on, so that it is to be decided anew. What cannot be read denies nobody.
    async fn is_to_be_read_first(&mut self, request: &WaitingRequest, certified: &Certified) -> Result<bool, Later> {
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
    async fn list_records_for(&mut self, request: &WaitingRequest) -> Result<bool, Later> {
        if self.listed.is_some_and(|listed| listed > request.seen()) {
            return Ok(false);
        }
        // Those that failed count as well.
        if self.tried_to_list.is_some_and(|tried| tried.elapsed() < BETWEEN_LISTINGS) {
            return Err(Later::Waits);
        }
        let (api, begun) = (Arc::clone(&self.api), Instant::now());
        self.tried_to_list = Some(begun);
        smol::unblock(move || api.list_records()).await?;
        self.store.follow().await;
        self.listed = Some(begun);
        Ok(true)
    }

    fn denied(&self) -> impl Fn(&EkDigest) -> bool + Send + use<> {
        let denials = Arc::clone(&self.current.snapshot().denials);
        move |ek| denials.has(ek)
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

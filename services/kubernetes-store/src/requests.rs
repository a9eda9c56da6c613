//! Requests for kubelets' certificates: those that nobody has decided yet, and how an answer is written into one.
//!
//! Who decides is somebody else (`latchkey_kubelet_certificates`); here nothing is approved without its witness. An answer names the
//! request that was looked at, by uid and revision: one that was posted anew under the same name, or answered by another service,
//! stays as it is.

use crate::connection::in_time;
use crate::error::{failed, is_absent, is_conflict, one_line};
use crate::store::{KubernetesStore, OnChange, Watched, lock};
use crate::watch::{Pauses, config, watch_failed};
use futures_util::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Event, watcher};
use latchkey_cluster_store::StoreError;
use latchkey_kubelet_certificates::{
    Approval, CLIENT_SIGNER, CertificateRefusal, MAX_PEM, Posted, Reading, SERVING_SIGNER, read,
};
use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::Notify;

/// Requests that wait at a time; those beyond are listed again when these are done. More than nodes join at once.
const MAX_WAITING: usize = 2048;
/// Labels, annotations and whatever else hangs on a request. A kubelet's has none; one that has more is left alone.
const MAX_METADATA: usize = 16 * 1024;

/// A request that nobody has decided yet, as the API server shows it.
#[derive(Debug)]
pub struct WaitingRequest {
    metadata: ObjectMeta,
    spec: CertificateSigningRequestSpec,
    /// Of two requests, the one that came later has the higher number.
    arrived: u64,
    seen: Instant,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It stands in the request.
    Written,
    /// The request is another by now, or gone: somebody else has answered it, or it is looked at anew.
    Overtaken,
}

impl WaitingRequest {
    /// The object's name. Its requester may have chosen it.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The object's uid.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Who asks, by the API server's word.
    pub fn username(&self) -> &str {
        self.spec.username.as_deref().unwrap_or_default()
    }

    /// When it was heard of here.
    pub fn seen(&self) -> Instant {
        self.seen
    }

    /// Which of the two signers it is for.
    pub fn signer(&self) -> &str {
        &self.spec.signer_name
    }

    /// What it is, and so which record decides it.
    pub fn read(&self) -> Reading {
        read(&Posted {
            uid: self.uid(),
            signer: self.signer(),
            username: self.username(),
            groups: self.spec.groups.as_deref().unwrap_or_default(),
            usages: self.spec.usages.as_deref().unwrap_or_default(),
            pem: &self.spec.request.0,
            decided: false,
        })
    }

    fn is(&self, other: &Self) -> bool {
        (&self.metadata.uid, &self.metadata.resource_version) == (&other.metadata.uid, &other.metadata.resource_version)
    }
}

/// Those that wait, as the watch told of them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: BTreeMap<String, Arc<WaitingRequest>>,
    /// What a listing that is under way has.
    listing: BTreeMap<String, Arc<WaitingRequest>>,
    arrived: u64,
    listed: bool,
}

/// There are more than fit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Requests {
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Takes an event over; whether there may be something to do.
    fn take(&mut self, event: Event<CertificateSigningRequest>) -> Result<bool, Full> {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(request) => {
                if let Some((name, request)) = self.waiting(request) {
                    if self.listing.len() >= MAX_WAITING {
                        return Err(Full);
                    }
                    self.listing.insert(name, request);
                }
            }
            Event::InitDone => {
                self.waiting = std::mem::take(&mut self.listing);
                self.listed = true;
                return Ok(true);
            }
            Event::Apply(request) => {
                let name = request.metadata.name.clone().unwrap_or_default();
                let Some((name, request)) = self.waiting(request) else {
                    self.waiting.remove(&name);
                    return Ok(false);
                };
                if self.waiting.len() >= MAX_WAITING && !self.waiting.contains_key(&name) {
                    return Err(Full);
                }
                self.waiting.insert(name, request);
                return Ok(true);
            }
            Event::Delete(request) => drop(request.metadata.name.map(|name| self.waiting.remove(&name))),
        }
        Ok(false)
    }

    /// The request, if it is one of ours and waits.
    fn waiting(&mut self, request: CertificateSigningRequest) -> Option<(String, Arc<WaitingRequest>)> {
        let CertificateSigningRequest { metadata, spec, status } = request;
        let name = metadata.name.clone()?;
        let untouched = |status: CertificateSigningRequestStatus| {
            status.conditions.is_none_or(|conditions| conditions.is_empty())
                && status.certificate.is_none_or(|certificate| certificate.0.is_empty())
        };
        if ![CLIENT_SIGNER, SERVING_SIGNER].contains(&&*spec.signer_name) || !status.is_none_or(untouched) {
            return None;
        }
        if spec.request.0.len() > MAX_PEM || size_of_metadata(&metadata) > MAX_METADATA {
            let by = one_line(spec.username.as_deref().unwrap_or_default());
            tracing::warn!(
                name = one_line(&name),
                by,
                "A certificate request is larger than a kubelet's, and left alone"
            );
            return None;
        }
        self.arrived += 1;
        let metadata = ObjectMeta { managed_fields: None, ..metadata };
        Some((name, Arc::new(WaitingRequest { metadata, spec, arrived: self.arrived, seen: Instant::now() })))
    }

    /// All that wait. Everybody's first comes before anybody's second, so that nobody's many keep others waiting.
    fn in_turn(&self) -> Vec<Arc<WaitingRequest>> {
        let mut requests: Vec<_> = self.waiting.values().map(Arc::clone).collect();
        requests.sort_by_key(|request| request.arrived);
        let mut of_user: HashMap<String, usize> = HashMap::new();
        let mut ranked: Vec<_> = requests
            .into_iter()
            .map(|request| {
                let rank = of_user.entry(request.username().to_owned()).or_default();
                *rank += 1;
                (*rank, request)
            })
            .collect();
        ranked.sort_by_key(|(rank, request)| (*rank, request.arrived));
        ranked.into_iter().map(|(_, request)| request).collect()
    }

    /// Forgets one that was answered, unless the watch has told of a later one meanwhile.
    fn done(&mut self, request: &WaitingRequest) {
        if self.waiting.get(request.name()).is_some_and(|known| known.is(request)) {
            self.waiting.remove(request.name());
        }
    }
}

fn size_of_metadata(metadata: &ObjectMeta) -> usize {
    let maps = [&metadata.labels, &metadata.annotations];
    let words = maps.into_iter().flatten().flatten().map(|(key, value)| key.len() + value.len());
    let names = metadata.finalizers.iter().flatten().map(String::len);
    let owners = metadata.owner_references.iter().flatten().map(|owner| owner.name.len() + owner.kind.len() + 64);
    words.chain(names).chain(owners).sum()
}

/// What is shared with the watch.
#[derive(Default)]
pub(crate) struct RequestWatch {
    pub(crate) requests: Mutex<Requests>,
    pub(crate) tell: Mutex<Option<OnChange>>,
    /// Told when there is room again.
    room: Notify,
}

impl KubernetesStore {
    /// Watches requests from now on. `tell` is called often, and must not wait for anything.
    pub fn follow_requests(&self, tell: OnChange) {
        *lock(&self.shared().requests.tell) = Some(tell);
        self.also_follow(follow(self.shared_with_watches()));
    }

    /// The requests that nobody has decided yet.
    pub fn waiting_requests(&self) -> Vec<Arc<WaitingRequest>> {
        lock(&self.shared().requests.requests).in_turn()
    }

    /// Approves the request that the approval is for. Blocks: never on the client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`].
    pub fn approve(&self, request: &WaitingRequest, approval: &Approval) -> Result<Answered, StoreError> {
        if approval.uid() != request.uid() {
            return Ok(Answered::Overtaken);
        }
        self.answer(request, condition("Approved", "AttestedNode", "Latchkey knows this node by its evidence"))
    }

    /// Denies a request. Blocks: never on the client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`].
    pub fn deny(&self, request: &WaitingRequest, refusal: CertificateRefusal) -> Result<Answered, StoreError> {
        let message = format!("{refusal}: {}", refusal.remedy());
        self.answer(request, condition("Denied", refusal.as_str(), &message))
    }

    fn answer(
        &self,
        request: &WaitingRequest,
        condition: CertificateSigningRequestCondition,
    ) -> Result<Answered, StoreError> {
        let about = format!("certificatesigningrequests/{}", one_line(request.name()));
        let api: Api<CertificateSigningRequest> = Api::all(self.shared().client.clone());
        let object = CertificateSigningRequest {
            metadata: request.metadata.clone(),
            spec: CertificateSigningRequestSpec {
                request: ByteString(request.spec.request.0.clone()),
                ..request.spec.clone()
            },
            status: Some(CertificateSigningRequestStatus { conditions: Some(vec![condition]), certificate: None }),
        };
        let answered = self.connection().handle().block_on(in_time(&about, async {
            match api.replace_subresource("approval", request.name(), &PostParams::default(), &object).await {
                Ok(_) => Ok(Answered::Written),
                Err(error) if is_conflict(&error) || is_absent(&error) => Ok(Answered::Overtaken),
                Err(error) => Err(failed(&about, &error)),
            }
        }))?;
        lock(&self.shared().requests.requests).done(request);
        self.shared().requests.room.notify_one();
        Ok(answered)
    }
}

fn condition(kind: &str, reason: &str, message: &str) -> CertificateSigningRequestCondition {
    CertificateSigningRequestCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: None,
        last_update_time: None,
    }
}

/// Keeps the requests as the API server has them. Never ends by itself.
async fn follow(shared: Arc<crate::store::Shared>) {
    let api: Api<CertificateSigningRequest> = Api::all(shared.client.clone());
    loop {
        let mut events = pin!(watcher(api.clone(), config()).backoff(Pauses::default()));
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    shared.note(Watched::Requests, Some(watch_failed("certificatesigningrequests", &error)));
                    continue;
                }
            };
            let taken = lock(&shared.requests.requests).take(event);
            shared.note(Watched::Requests, None);
            match taken {
                Ok(false) => {}
                Ok(true) => shared.tell(Watched::Requests),
                Err(Full) => break,
            }
        }
        // What did not fit is listed once some of these are answered.
        tracing::warn!(waiting = MAX_WAITING, "More certificate requests wait than fit; the rest is looked at later");
        shared.tell(Watched::Requests);
        shared.requests.room.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str, user: &str, revision: u64) -> CertificateSigningRequest {
        CertificateSigningRequest {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some(format!("uid-of-{name}")),
                resource_version: Some(revision.to_string()),
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                signer_name: CLIENT_SIGNER.to_owned(),
                username: Some(user.to_owned()),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        }
    }

    fn denied(mut request: CertificateSigningRequest) -> CertificateSigningRequest {
        let conditions = Some(vec![condition("Denied", "x", "x")]);
        request.status = Some(CertificateSigningRequestStatus { conditions, certificate: None });
        request
    }

    fn names(requests: &Requests) -> Vec<String> {
        requests.in_turn().iter().map(|request| request.name().to_owned()).collect()
    }

    #[test]
    fn nobodys_many_requests_keep_others_waiting() {
        let mut requests = Requests::default();
        for (name, user) in [("z1", "eve"), ("z2", "eve"), ("a3", "eve"), ("m", "node")] {
            assert_eq!(requests.take(Event::Apply(request(name, user, 1))), Ok(true));
        }
        assert_eq!(names(&requests), ["z1", "m", "z2", "a3"]);
    }

    #[test]
    fn what_is_decided_or_of_another_signer_or_too_large_does_not_wait() {
        let mut requests = Requests::default();
        requests.take(Event::Apply(request("a", "node", 1))).unwrap();
        assert_eq!(requests.take(Event::Apply(denied(request("a", "node", 2)))), Ok(false));
        let mut foreign = request("b", "node", 1);
        foreign.spec.signer_name = "kubernetes.io/kube-apiserver-client".to_owned();
        requests.take(Event::Apply(foreign)).unwrap();
        let mut large = request("c", "node", 1);
        large.spec.request = ByteString(vec![b'x'; MAX_PEM + 1]);
        requests.take(Event::Apply(large)).unwrap();
        let mut hung = request("d", "node", 1);
        hung.metadata.annotations = Some([("a".to_owned(), "x".repeat(MAX_METADATA))].into());
        requests.take(Event::Apply(hung)).unwrap();
        assert!(names(&requests).is_empty());
    }

    #[test]
    fn an_answer_to_an_earlier_state_of_a_request_leaves_the_later_one_waiting() {
        let mut requests = Requests::default();
        requests.take(Event::Apply(request("a", "node", 1))).unwrap();
        let first = requests.in_turn().remove(0);
        requests.take(Event::Apply(request("a", "node", 2))).unwrap();
        requests.done(&first);
        assert_eq!(names(&requests), ["a"]);
        let second = requests.in_turn().remove(0);
        requests.done(&second);
        assert!(names(&requests).is_empty());
    }

    #[test]
    fn a_flood_of_requests_takes_a_bounded_amount_of_memory() {
        let mut requests = Requests::default();
        for number in 0..MAX_WAITING {
            requests.take(Event::Apply(request(&number.to_string(), "eve", 1))).unwrap();
        }
        assert_eq!(requests.take(Event::Apply(request("more", "eve", 1))), Err(Full));
        // One that waits already may change.
        assert_eq!(requests.take(Event::Apply(request("7", "eve", 2))), Ok(true));
    }
}

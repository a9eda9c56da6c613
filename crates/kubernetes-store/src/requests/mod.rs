//! Requests for kubelets' certificates: those that nobody has decided yet, and how an answer is written into one.
//!
//! Who decides is somebody else (`latchkey_kubelet_certificates`); here nothing is approved without its witness. An answer names the
//! request that was looked at, by uid and revision: one that was posted anew under the same name, or answered by another service,
//! stays as it is.

mod follow;
mod waiting;

use crate::connection::in_time;
use crate::error::{failed, is_absent, is_conflict, one_line};
use crate::store::{KubernetesStore, OnChange, lock};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
};
use kube::api::{Api, ObjectMeta, PostParams};
use latchkey_cluster_store::{NotDenied, StoreError};
use latchkey_kubelet_certificates::{
    Approval, CLIENT_SIGNER, CertificateRefusal, Posted, Reading, SERVING_SIGNER, read,
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;
use tokio::sync::Notify;
use waiting::Requests;

/// The signers whose requests are ours. Each has its own watch and its own room: the requests of one keep nobody from the other.
pub(crate) const SIGNERS: [&str; 2] = [CLIENT_SIGNER, SERVING_SIGNER];

/// A request that nobody has decided yet, as the API server shows it.
#[derive(Debug)]
pub struct WaitingRequest {
    metadata: ObjectMeta,
    spec: CertificateSigningRequestSpec,
    /// Of two requests, the one that came later has the higher number.
    arrived: u64,
    seen: Instant,
    reading: OnceLock<Reading>,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It stands in the request.
    Written,
    /// The request is another by now, or gone: somebody else has answered it, or it is looked at anew.
    Overtaken,
}

/// What stands in a request of which an answer got lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// That answer.
    Ours,
    /// Nothing.
    Waits,
    /// Another answer; or it is gone.
    Others,
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

    /// What it is, and so which record decides it. Read once, however often it is looked at.
    pub fn read(&self) -> &Reading {
        self.reading.get_or_init(|| self.read_anew())
    }

    fn read_anew(&self) -> Reading {
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

/// What is shared with the watches.
#[derive(Default)]
pub(crate) struct RequestWatch {
    of_signer: [OfSigner; SIGNERS.len()],
    pub(crate) tell: Mutex<Option<OnChange>>,
}

#[derive(Default)]
struct OfSigner {
    requests: Mutex<Requests>,
    /// Told when there is room again.
    room: Notify,
}

impl OfSigner {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        lock(&self.requests)
    }
}

impl RequestWatch {
    fn of(&self, signer: &str) -> &OfSigner {
        let [client, serving] = &self.of_signer;
        if signer == CLIENT_SIGNER { client } else { serving }
    }

    fn forget(&self, request: &WaitingRequest) {
        let of_signer = self.of(request.signer());
        of_signer.requests().done(request);
        of_signer.room.notify_one();
    }
}

impl KubernetesStore {
    /// Watches requests from now on. `tell` is called often, and must not wait for anything.
    pub fn follow_requests(&self, tell: OnChange) {
        *lock(&self.shared().requests.tell) = Some(tell);
        for signer in SIGNERS {
            self.also_follow(follow::follow(self.shared_with_watches(), signer));
        }
    }

    /// The requests that nobody has decided yet. Everybody's first comes before anybody's second.
    pub fn waiting_requests(&self) -> Vec<Arc<WaitingRequest>> {
        let of_signer = &self.shared().requests.of_signer;
        waiting::in_turn(of_signer.iter().flat_map(|of_signer| of_signer.requests().all()).collect())
    }

    /// The signers of which more requests wait than are looked at: the rest is, when there is room.
    pub fn crowded_signers(&self) -> Vec<&'static str> {
        let crowded = |signer: &&'static str| self.shared().requests.of(signer).requests().has_left_out();
        SIGNERS.into_iter().filter(crowded).collect()
    }

    /// Does not look at a request any more that is somebody else's to answer.
    pub fn leave(&self, request: &WaitingRequest) {
        self.shared().requests.forget(request);
    }

    /// Approves the request that the approval is for, of a machine that is not shut out. Blocks: never on the client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`].
    pub fn approve(
        &self,
        request: &WaitingRequest,
        approval: &Approval,
        _: &NotDenied,
    ) -> Result<Answered, StoreError> {
        if approval.uid() != request.uid() {
            return Ok(Answered::Overtaken);
        }
        self.answer(request, condition_of(None))
    }

    /// Denies a request. Blocks: never on the client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`].
    pub fn deny(&self, request: &WaitingRequest, refusal: CertificateRefusal) -> Result<Answered, StoreError> {
        self.answer(request, condition_of(Some(refusal)))
    }

    /// Whether an answer stands whose own answer got lost: an approval, or this refusal. Blocks: never on the client's own thread.
    ///
    /// # Errors
    /// [`StoreError::Elsewhere`].
    pub fn standing(
        &self,
        request: &WaitingRequest,
        refusal: Option<CertificateRefusal>,
    ) -> Result<Standing, StoreError> {
        let about = format!("certificatesigningrequests/{}", one_line(request.name()));
        let api: Api<CertificateSigningRequest> = Api::all(self.shared().client.clone());
        let found =
            self.wait(&about, async { api.get_opt(request.name()).await.map_err(|error| failed(&about, &error)) })?;
        let Some(found) = found.filter(|found| found.metadata.uid == request.metadata.uid) else {
            return Ok(Standing::Others);
        };
        let (wanted, conditions) = (condition_of(refusal), found.status.and_then(|status| status.conditions));
        let conditions = conditions.unwrap_or_default();
        let is_it = |known: &CertificateSigningRequestCondition| {
            (&known.type_, &known.reason, &known.message) == (&wanted.type_, &wanted.reason, &wanted.message)
        };
        Ok(match conditions.iter().any(is_it) {
            true => Standing::Ours,
            false if conditions.is_empty() => Standing::Waits,
            false => Standing::Others,
        })
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
        self.shared().requests.forget(request);
        Ok(answered)
    }
}

/// How an approval, or a refusal, is written.
fn condition_of(refusal: Option<CertificateRefusal>) -> CertificateSigningRequestCondition {
    match refusal {
        None => condition("Approved", "AttestedNode", "Latchkey knows this node by its evidence"),
        Some(refusal) => condition("Denied", refusal.as_str(), &format!("{refusal}: {}", refusal.remedy())),
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

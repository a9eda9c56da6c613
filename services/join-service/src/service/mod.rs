//! The three methods as gRPC sees them: decide, write the decision's line, answer.

mod decided;
mod firmware;

use crate::credentials::Credentials;
use crate::decision::{Ask, Grant, Refusal, ReportAsk, State};
use crate::denials::DenialCheck;
use crate::documents::{ClusterSnapshot, CurrentCluster};
use crate::keys::{KeyError, KeySource};
use crate::metrics::{Method, Metrics};
use crate::server;
use crate::store::{Concluded, Reservation, Store};
use crate::tokens::{Drawn, Tokens};
use latchkey_api::grpc::{Request, Status};
use latchkey_api::v1::{
    self, ClusterJoin, Join, JoinRequest, JoinTicket, RejoinRequest, RejoinTicket, ReportRequest, ReportResponse,
};
use latchkey_attestation::EkDigest;
use latchkey_attesting_service::Node;
use latchkey_channel::Purpose;
use latchkey_cluster_store::{BootSeen, ClusterFile, KubernetesFile, NotDenied, Role as NodeRole, TpmBoot};
use latchkey_connection_limits::{Rate, Rates};
use latchkey_service_runtime::request_id::RequestIds;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct JoinService {
    current: Arc<CurrentCluster>,
    denials: DenialCheck,
    store: Arc<Store>,
    tokens: Tokens,
    calls: Mutex<Rates<EkDigest>>,
    credentials: Arc<Credentials>,
    metrics: Arc<Metrics>,
    ids: RequestIds,
    last_key_error: Arc<LastKeyError>,
}

/// Joins and reports of one machine: each may be a durable write, which others wait for. A rejoin writes nothing.
const CALLS: Rate = Rate { per_minute: 60, burst: 60 };
/// Machines that are counted each by itself.
const MACHINES: usize = 4096;

/// Whoever has a disk on record gets its key.
struct KeyFor {
    not_denied: NotDenied,
    /// By what was known last, however old it is.
    unheard: bool,
}

/// The last thing that went wrong with keys, until the next that went right. For `/healthz`.
#[derive(Debug, Default)]
pub(crate) struct LastKeyError(Mutex<Option<String>>);

impl LastKeyError {
    pub(crate) fn read(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note<T>(&self, result: &Result<T, KeyError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            result.as_ref().err().map(|error| format!("{}: {error}", error.code()));
    }
}

impl JoinService {
    pub(crate) fn new(
        (current, denials): (Arc<CurrentCluster>, DenialCheck),
        (store, tokens): (Arc<Store>, Tokens),
        credentials: Arc<Credentials>,
        metrics: Arc<Metrics>,
        last_key_error: Arc<LastKeyError>,
    ) -> Self {
        let calls = Mutex::new(Rates::new(CALLS, MACHINES));
        Self { current, denials, store, tokens, calls, credentials, metrics, ids: RequestIds::new(), last_key_error }
    }

    /// In this order: (verified) → policy → control-plane lease → keys → token and record at the same time, but a control plane's token
    /// before its record → ticket, once both stand; what control planes share goes into the ticket of a control plane alone.
    async fn join(&self, node: &Node, request: &JoinRequest) -> Result<(Grant, JoinTicket), Refusal> {
        expect(node, &[Purpose::Join])?;
        self.check_rate(node)?;
        let snapshot = self.current.snapshot();
        let (cluster, keys) = (cluster(&snapshot)?, self.credentials.keys());
        let (ask, seen) = (Ask::try_from(request)?, self.seen(&snapshot, node));
        drop(self.denials.of(&node.ek())?);
        let admitted = self.admit(&snapshot, node, ask.clone(), &seen).await;
        if let (Err(Refusal::Held), Ask::Join(ask)) = (&admitted, &ask) {
            self.store.hold(node.ek(), ask, node.admission.firmware().clone()).await;
        }
        let reported = self.report_firmware(node, &seen, admitted.as_ref().err());
        if admitted.is_err() && reported {
            self.store.keep(node.ek(), seen).await;
        }
        let reservation = admitted?;
        let admitted = reservation.admitted().ok_or(Refusal::RecordNotWritten)?;
        let shared = match (&snapshot.own.material, admitted.is_control_plane()) {
            (Some(material), true) => {
                let files = self.credentials.control_plane_keys(material)?;
                Some((files, self.checked(keys.secrets_at_rest(cluster).await)?))
            }
            _ => None,
        };
        let measurement_secret = self.measurement_secret(&keys, cluster).await?;
        let withheld = self.checked(keys.disk(admitted).await)?;
        // By the denials of this moment: who is shut out while the keys are fetched gets none.
        drop(self.denials.of(&node.ek())?);
        let (rules, key_version) = (snapshot.own.rules(), withheld.version());
        let name = reservation.admitted().ok_or(Refusal::RecordNotWritten)?.name();
        let drawn = self.tokens.draw(name, snapshot.own.material.as_ref()).await?;
        let on_record = drawn.as_ref().map(Drawn::record);
        let denials = self.denials.clone();
        let made = self.tokens.make(drawn);
        let concluded = self.store.conclude(reservation, rules, (key_version, on_record), denials);
        let (entry, concluded) = if shared.is_some() {
            // All others would wait for a control plane that got no ticket, for as long as its record says that it joins.
            (Ok(made.await?), concluded.await)
        } else {
            // At the same time: each waits for a write of etcd's log. What is left of the one where the other fails is given back, or
            // taken over when the machine asks again.
            smol::future::zip(made, concluded).await
        };
        let Concluded { grant, release, turn, superseded } = concluded?;
        // The record names another by now, whether that was made or not.
        self.tokens.end(superseded);
        let entry = entry?;
        let disk_key = self.checked(keys.release(withheld, &release))?;
        let control_planes = self.store.look(State::control_plane_addresses);
        let mut material = entry.map_or_else(ClusterJoin::default, |entry| entry.into_ticket(control_planes));
        material.payload = snapshot.own.payload.expose().to_vec();
        let inside = self.credentials.inside_files();
        if let (Some((files, (key, version))), Some(turn)) = (shared, turn) {
            material.control_plane_files = files.for_ticket(&turn);
            material.service_files = inside.map_or_else(Vec::new, |inside| inside.for_ticket(&turn));
            material.secrets_key = Some(v1::SecretsKey { key: key.expose().to_vec(), version });
        }
        let ticket = JoinTicket {
            state_disk_key: disk_key.expose().to_vec(),
            measurement_secret,
            measurement_salt: cluster.measurement_salt.to_vec(),
            node_name: grant.name.to_string(),
            role: api_role(grant.role).into(),
            epoch: grant.epoch,
            cluster: Some(material),
        };
        Ok((grant, ticket))
    }

    async fn rejoin(&self, node: &Node, request: &RejoinRequest) -> Result<(Grant, RejoinTicket), Refusal> {
        expect(node, &[Purpose::Join, Purpose::Rejoin])?;
        let snapshot = self.current.snapshot();
        let (cluster, keys) = (cluster(&snapshot)?, self.credentials.keys());
        let (ask, seen) = (Ask::try_from(request)?, self.seen(&snapshot, node));
        self.hear_of(node).await?;
        let admitted = self.admit(&snapshot, node, ask, &seen).await;
        if self.report_firmware(node, &seen, admitted.as_ref().err()) {
            // Otherwise a rejoin writes nothing, so that a power cut in a whole room is not followed by a thousand writes.
            self.store.keep(node.ek(), seen).await;
        }
        let reservation = admitted?;
        self.store.confirm(node.ek()).await?;
        let admitted = reservation.admitted().ok_or(Refusal::RecordNotWritten)?;
        let measurement_secret = self.measurement_secret(&keys, cluster).await?;
        let withheld = self.checked(keys.disk(admitted).await)?;
        let KeyFor { not_denied, unheard } = self.key_for(node)?;
        let (grant, release) = reservation.conclude_unwritten(&snapshot.own.rules(), &not_denied)?;
        let disk_key = self.checked(keys.release(withheld, &release))?;
        if unheard {
            self.say_unheard(node, &grant);
        }
        let components = snapshot.own.material.as_ref().and_then(|material| components(&material.file, grant.role));
        let state_disk_key = disk_key.expose().to_vec();
        let ticket = RejoinTicket { state_disk_key, measurement_secret, epoch: grant.epoch, components };
        Ok((grant, ticket))
    }

    /// A refusal that another program's writes may have overtaken (`latchkey init`, a second service on the same directory) is
    /// decided once more on what is on disk.
    async fn admit(
        &self,
        snapshot: &ClusterSnapshot,
        node: &Node,
        ask: Ask,
        seen: &BootSeen,
    ) -> Result<Reservation, Refusal> {
        self.check_still_admitted(snapshot, node)?;
        let admitted = self.store.admit(&snapshot.own.rules(), node.ek(), ask.clone(), seen.clone());
        let Err(
            Refusal::NodeUnknown
            | Refusal::DiskUnknown
            | Refusal::NameTaken
            | Refusal::LeaseHeld
            | Refusal::FirmwareChanged,
        ) = admitted
        else {
            return admitted;
        };
        // Also where nothing was new: another call may have caught up since this one was decided.
        if self.store.catch_up(node.ek()).await.is_ok() {
            return self.store.admit(&snapshot.own.rules(), node.ek(), ask, seen.clone());
        }
        admitted
    }

    /// The channel's proof is as old as the channel: it counts if it would be given now.
    fn check_still_admitted(&self, snapshot: &ClusterSnapshot, node: &Node) -> Result<(), Refusal> {
        if !snapshot.policy.firmware_not_quoted(&node.admission).is_empty() {
            return Err(Refusal::PolicyReloaded);
        }
        let lock = server::lock(snapshot, node.purpose).ok_or(Refusal::WrongPurpose)?;
        node.still_admitted(snapshot, lock, self.store.now().unix).map(drop).map_err(|refusal| {
            tracing::warn!(
                peer = %node.address, audit_id = node.audit_id, ek = %node.ek(), code = %refusal.code(), %refusal,
                "Not admitted any more"
            );
            Refusal::NoLongerAdmitted
        })
    }

    /// That what a machine's rejoin is decided by is known as of a moment ago: its record is read where they are not.
    async fn hear_of(&self, node: &Node) -> Result<(), Refusal> {
        let KeyFor { unheard, .. } = self.key_for(node)?;
        if !unheard && self.denials.are_records_old() {
            self.store.catch_up(node.ek()).await.map_err(|_| Refusal::ClusterUnheard)?;
        }
        Ok(())
    }

    /// The witness that a machine is not shut out, for the key of the disk on its record. A control plane has it by what was known last
    /// where nobody answers in the place of the API server: nothing else brings a cluster back all of whose control planes are off.
    fn key_for(&self, node: &Node) -> Result<KeyFor, Refusal> {
        let ek = node.ek();
        let is_control_plane =
            || self.store.look(|state| state.record(&ek).is_some_and(|record| record.role == NodeRole::ControlPlane));
        match self.denials.of(&ek) {
            Err(Refusal::ClusterUnheard) if is_control_plane() => {
                let not_denied = self.denials.unheard(&ek).unwrap_or(Err(Refusal::ClusterUnheard))?;
                Ok(KeyFor { not_denied, unheard: true })
            }
            checked => Ok(KeyFor { not_denied: checked?, unheard: false }),
        }
    }

    fn say_unheard(&self, node: &Node, grant: &Grant) {
        self.denials.count_unheard();
        let Node { address, audit_id, .. } = node;
        tracing::warn!(
            target: "audit", audit_id, peer = %address, ek = %node.ek(), node = grant.name.as_str(), outcome = "warned",
            code = Refusal::ClusterUnheard.as_str(), age = self.denials.age().map_or(0, |age| age.as_secs()),
            "A control plane got the key of its disk by what was known of the cluster last"
        );
    }

    /// Each machine joins and reports now and then, and none so often that others wait for it.
    fn check_rate(&self, node: &Node) -> Result<(), Refusal> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.take(node.ek(), self.store.now().uptime).map_err(|_| Refusal::TooManyCalls)
    }

    async fn report_of(&self, node: &Node, request: &ReportRequest) -> Result<(), Refusal> {
        expect(node, &[Purpose::Report])?;
        self.check_rate(node)?;
        drop(self.denials.of(&node.ek())?);
        self.check_still_admitted(&self.current.snapshot(), node)?;
        let report = ReportAsk::try_from(request)?;
        let over = self
            .store
            .report(self.current.snapshot().own.reserved(), node.ek(), report, TpmBoot::of(&node.admission))
            .await?;
        self.tokens.end(over);
        Ok(())
    }

    async fn measurement_secret(&self, keys: &KeySource, cluster: &ClusterFile) -> Result<Vec<u8>, Refusal> {
        self.checked(keys.measurement(cluster).await).map(|secret| secret.expose().to_vec())
    }

    fn checked<T>(&self, keys: Result<T, KeyError>) -> Result<T, Refusal> {
        self.last_key_error.note(&keys);
        keys.map_err(|error| {
            tracing::error!(code = %error.code(), %error, remedy = error.code().remedy(), "No keys");
            error.code()
        })
    }
}

impl Join<Node> for JoinService {
    async fn issue_join_ticket(&self, request: Request<Node, JoinRequest>) -> Result<JoinTicket, Status> {
        let (node, message) = (&*request.context, &request.message);
        let outcome = self.join(node, message).await;
        let line = outcome.as_ref().map(|(grant, _)| Some(grant)).map_err(|refusal| *refusal);
        self.decided(Method::Join, node, (&message.disk_uuid, &message.agent_version), line)?;
        outcome.map(|(_, ticket)| ticket).map_err(|refusal| refusal.status("-"))
    }

    async fn issue_rejoin_ticket(&self, request: Request<Node, RejoinRequest>) -> Result<RejoinTicket, Status> {
        let (node, message) = (&*request.context, &request.message);
        let outcome = self.rejoin(node, message).await;
        let line = outcome.as_ref().map(|(grant, _)| Some(grant)).map_err(|refusal| *refusal);
        self.decided(Method::Rejoin, node, (&message.disk_uuid, &message.agent_version), line)?;
        outcome.map(|(_, ticket)| ticket).map_err(|refusal| refusal.status("-"))
    }

    async fn report(&self, request: Request<Node, ReportRequest>) -> Result<ReportResponse, Status> {
        let (node, message) = (&*request.context, &request.message);
        let outcome = self.report_of(node, message).await;
        let said = (message.disk_uuid.as_str(), message.agent_version.as_str());
        self.decided(Method::Report, node, said, outcome.map(|()| None))?;
        Ok(ReportResponse {})
    }
}

fn expect(node: &Node, purposes: &[Purpose]) -> Result<(), Refusal> {
    if purposes.contains(&node.purpose) { Ok(()) } else { Err(Refusal::WrongPurpose) }
}

fn cluster(snapshot: &ClusterSnapshot) -> Result<&ClusterFile, Refusal> {
    snapshot.own.cluster.as_deref().ok_or(Refusal::NotInitialised)
}

/// What a member whose image has no Kubernetes has, or goes to.
fn components(file: &KubernetesFile, role: NodeRole) -> Option<v1::Components> {
    let (version, list) = file.components(role)?;
    Some(v1::Components { kubernetes_version: version.to_owned(), list: list.as_bytes().to_vec() })
}

fn api_role(role: NodeRole) -> v1::Role {
    match role {
        NodeRole::ControlPlane => v1::Role::ControlPlane,
        NodeRole::Worker => v1::Role::Worker,
    }
}

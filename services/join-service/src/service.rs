//! The three methods as gRPC sees them: decide, write the decision's line, answer.

use crate::credentials::Credentials;
use crate::decision::{Ask, Grant, Refusal, ReportAsk};
use crate::keys::{KeyError, KeySource};
use crate::metrics::{Method, Metrics};
use crate::snapshot::{Current, Snapshot};
use crate::store::{Reservation, Store};
use latchkey_api::grpc::{Request, Status};
use latchkey_api::v1::{
    self, ClusterJoin, Join, JoinRequest, JoinTicket, RejoinRequest, RejoinTicket, ReportRequest, ReportResponse,
};
use latchkey_attestation::{Admission, EkDigest};
use latchkey_channel::Purpose;
use latchkey_cluster_store::{ClusterFile, Role as NodeRole};
use latchkey_keys::Uuid;
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::request_id::RequestIds;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// A peer that proved itself.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) purpose: Purpose,
    pub(crate) audit_id: String,
    pub(crate) admission: Admission,
}

impl Node {
    fn ek(&self) -> EkDigest {
        self.admission.ek_digest()
    }

    fn expect(&self, purposes: &[Purpose]) -> Result<(), Refusal> {
        if purposes.contains(&self.purpose) { Ok(()) } else { Err(Refusal::WrongPurpose) }
    }
}

#[derive(Debug)]
pub(crate) struct JoinService {
    current: Arc<Current>,
    store: Arc<Store>,
    credentials: Arc<Credentials>,
    metrics: Arc<Metrics>,
    ids: RequestIds,
    trouble: Arc<Trouble>,
}

/// The last thing that went wrong with keys, until the next that went right. For `/healthz`.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Option<String>>);

impl Trouble {
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
        current: Arc<Current>,
        store: Arc<Store>,
        credentials: Arc<Credentials>,
        metrics: Arc<Metrics>,
        trouble: Arc<Trouble>,
    ) -> Self {
        Self { current, store, credentials, metrics, ids: RequestIds::new(), trouble }
    }

    /// Order of design section 4: (verified) → policy → control-plane lease → keys → record → ticket.
    async fn join(&self, node: &Node, request: &JoinRequest) -> Result<(Grant, JoinTicket), Refusal> {
        node.expect(&[Purpose::Join])?;
        let snapshot = self.current.snapshot();
        let (cluster, keys) = (cluster(&snapshot)?, self.credentials.keys());
        let ask = Ask::try_from(request)?;
        let admitted = self.admit(&snapshot, node, ask.clone()).await;
        if let (Err(Refusal::Held), Ask::Join(ask)) = (&admitted, &ask) {
            self.store.hold(node.ek(), ask).await;
        }
        let reservation = admitted?;
        let admitted = reservation.admitted().ok_or(Refusal::RecordNotWritten)?;
        let measurement_secret = self.measurement_secret(&keys, cluster).await?;
        let withheld = self.checked(keys.disk(admitted).await)?;
        self.check_not_denied(node)?;
        let (rules, key_version) = (Arc::clone(&snapshot.enrolment), withheld.version());
        let (grant, release) = self.store.conclude(reservation, rules, key_version).await?;
        let disk_key = self.checked(keys.release(withheld, &release))?;
        let ticket = JoinTicket {
            state_disk_key: disk_key.expose().to_vec(),
            measurement_secret,
            measurement_salt: cluster.measurement_salt.to_vec(),
            node_name: grant.name.to_string(),
            role: api_role(grant.role).into(),
            epoch: grant.epoch,
            cluster: Some(cluster_join(snapshot.payload.expose())),
        };
        Ok((grant, ticket))
    }

    async fn rejoin(&self, node: &Node, request: &RejoinRequest) -> Result<(Grant, RejoinTicket), Refusal> {
        node.expect(&[Purpose::Join, Purpose::Rejoin])?;
        let snapshot = self.current.snapshot();
        let (cluster, keys) = (cluster(&snapshot)?, self.credentials.keys());
        let reservation = self.admit(&snapshot, node, Ask::try_from(request)?).await?;
        let admitted = reservation.admitted().ok_or(Refusal::RecordNotWritten)?;
        let measurement_secret = self.measurement_secret(&keys, cluster).await?;
        let withheld = self.checked(keys.disk(admitted).await)?;
        self.check_not_denied(node)?;
        let (grant, release) = reservation.conclude_unwritten(&snapshot.enrolment)?;
        let disk_key = self.checked(keys.release(withheld, &release))?;
        let ticket =
            RejoinTicket { state_disk_key: disk_key.expose().to_vec(), measurement_secret, epoch: grant.epoch };
        Ok((grant, ticket))
    }

    /// A refusal that another program's writes may have overtaken (`latchkey init`, a second service on the same directory) is
    /// decided once more on what is on disk.
    async fn admit(&self, snapshot: &Snapshot, node: &Node, ask: Ask) -> Result<Reservation, Refusal> {
        self.check_not_denied(node)?;
        let admitted = self.store.admit(&snapshot.enrolment, node.ek(), ask.clone());
        let Err(Refusal::NodeUnknown | Refusal::DiskUnknown | Refusal::NameTaken | Refusal::LeaseHeld) = admitted
        else {
            return admitted;
        };
        if self.store.catch_up().await {
            return self.store.admit(&snapshot.enrolment, node.ek(), ask);
        }
        admitted
    }

    /// By the denials of this moment, not of the call's beginning: who is shut out while the keys are fetched gets none.
    fn check_not_denied(&self, node: &Node) -> Result<(), Refusal> {
        if self.current.snapshot().denials.has(&node.ek()) { Err(Refusal::Denied) } else { Ok(()) }
    }

    async fn report_of(&self, node: &Node, request: &ReportRequest) -> Result<(), Refusal> {
        node.expect(&[Purpose::Report])?;
        self.check_not_denied(node)?;
        let report = ReportAsk::try_from(request)?;
        self.store.report(node.ek(), report).await
    }

    async fn measurement_secret(&self, keys: &KeySource, cluster: &ClusterFile) -> Result<Vec<u8>, Refusal> {
        self.checked(keys.measurement(cluster).await).map(|secret| secret.expose().to_vec())
    }

    fn checked<T>(&self, keys: Result<T, KeyError>) -> Result<T, Refusal> {
        self.trouble.note(&keys);
        keys.map_err(|error| {
            tracing::error!(code = %error.code(), %error, remedy = error.code().remedy(), "No keys");
            error.code()
        })
    }

    /// One line per decision, on the target `audit`; never a key, nor text that the node chose freely.
    fn decided(
        &self,
        method: Method,
        node: &Node,
        disk: &str,
        outcome: Result<Option<&Grant>, Refusal>,
    ) -> Result<(), Status> {
        let request_id = self.ids.next();
        self.metrics.call(method, outcome.err());
        let Node { address, purpose, audit_id, admission } = node;
        let (ek, image) = (admission.ek_digest(), admission.image());
        let disk = disk.parse::<Uuid>().map_or_else(|_| "-".to_owned(), |uuid| uuid.to_string());
        let (warnings, manifest) = (admission.warnings().len(), image.manifest.to_string());
        let (serial, machine) = (image.serial, image.machine.as_str());
        let (image, version) = (image.name.as_str(), image.version.to_string());
        match outcome {
            Ok(grant) => {
                let name = grant.map_or("-", |grant| grant.name.as_str());
                let node_role = grant.map_or("-", |grant| grant.role.name());
                let epoch = grant.map_or(0, |grant| grant.epoch);
                tracing::info!(
                    target: "audit", request_id, audit_id, peer = %address, %ek, %purpose, method = method.name(), disk,
                    outcome = "granted", node = name, node_role, epoch, manifest, serial, image, version, machine, warnings,
                    "Decision"
                );
                Ok(())
            }
            Err(refusal) => {
                tracing::warn!(
                    target: "audit", request_id, audit_id, peer = %address, %ek, %purpose, method = method.name(), disk,
                    outcome = "refused", code = refusal.as_str(), manifest, serial, image, version, machine, warnings,
                    "Decision"
                );
                Err(refusal.status(&request_id))
            }
        }
    }
}

/// One line for each call that no method ever saw, because it does not decode or asks for what is not here; the outcome is its
/// gRPC code. An admitted node can cause them at will, so their number is bounded.
pub(crate) fn audit_unhandled() -> impl Fn(&Node, &str, &Status) + Send + Sync + 'static {
    let (ids, noise) = (RequestIds::new(), LogLimiter::new());
    move |node, path, status| {
        if let Some(left_out) = noise.write_now() {
            let (path, ek): (String, _) = (path.chars().take(MAX_PATH).collect(), node.ek());
            tracing::warn!(
                target: "audit", request_id = ids.next(), audit_id = node.audit_id, peer = %node.address, %ek, path,
                outcome = status.code().name(), left_out, "Unhandled call"
            );
        }
    }
}

/// What a line shows of the path of a call, in characters.
const MAX_PATH: usize = 128;

impl Join<Node> for JoinService {
    async fn issue_join_ticket(&self, request: Request<Node, JoinRequest>) -> Result<JoinTicket, Status> {
        let (node, message) = (&*request.context, &request.message);
        let outcome = self.join(node, message).await;
        let line = outcome.as_ref().map(|(grant, _)| Some(grant)).map_err(|refusal| *refusal);
        self.decided(Method::Join, node, &message.disk_uuid, line)?;
        outcome.map(|(_, ticket)| ticket).map_err(|refusal| refusal.status("-"))
    }

    async fn issue_rejoin_ticket(&self, request: Request<Node, RejoinRequest>) -> Result<RejoinTicket, Status> {
        let (node, message) = (&*request.context, &request.message);
        let outcome = self.rejoin(node, message).await;
        let line = outcome.as_ref().map(|(grant, _)| Some(grant)).map_err(|refusal| *refusal);
        self.decided(Method::Rejoin, node, &message.disk_uuid, line)?;
        outcome.map(|(_, ticket)| ticket).map_err(|refusal| refusal.status("-"))
    }

    async fn report(&self, request: Request<Node, ReportRequest>) -> Result<ReportResponse, Status> {
        let (node, message) = (&*request.context, &request.message);
        let outcome = self.report_of(node, message).await;
        self.decided(Method::Report, node, &message.disk_uuid, outcome.map(|()| None))?;
        Ok(ReportResponse {})
    }
}

fn cluster(snapshot: &Snapshot) -> Result<&ClusterFile, Refusal> {
    snapshot.cluster.as_deref().ok_or(Refusal::NotInitialised)
}

fn api_role(role: NodeRole) -> v1::Role {
    match role {
        NodeRole::ControlPlane => v1::Role::ControlPlane,
        NodeRole::Worker => v1::Role::Worker,
    }
}

fn cluster_join(payload: &[u8]) -> ClusterJoin {
    ClusterJoin {
        api_server_endpoint: String::new(),
        bootstrap_token: String::new(),
        ca_cert_hashes: Vec::new(),
        control_plane_files: Vec::new(),
        kubelet_certificate: Vec::new(),
        kubernetes_version: String::new(),
        payload: payload.to_vec(),
    }
}

//! The init flow: an operator makes this node the first of a cluster.

use std::sync::Arc;

use latchkey_api::OfferRefusal;
use latchkey_api::control_plane::ControlPlaneFiles;
use latchkey_api::grpc::{Replies, Request, Status};
use latchkey_api::service_files::ServiceFiles;
use latchkey_api::v1::{
    self, AttachRequest, AuthorizeRequest, AuthorizeResponse, ClusterSettings, DescribeRequest, DescribeResponse,
    Failed, Init, InitEvent, InitRequest, Locked, NodeStage, init_event,
};
use latchkey_channel::Purpose;
use latchkey_keys::{ClusterId, Secret};
use latchkey_reason::Reason;
use prost::Message as _;
use zeroize::Zeroizing;

use super::init_auth::{InitAuth, InitSecretRefusal, KnowsInitSecret};
use super::listener::Peer;
use super::progress::{Broadcast, follow_until};
use super::{Membership, Node, Terms, parse};
use crate::cluster::MAX_COMPONENT_LIST;
use crate::handover::{SecretText, Task};
use crate::lifecycle::{NodeRole, Source, Verdict};
use crate::platform::clock;

/// The most names an API server's certificate gets.
const MAX_SANS: usize = 32;

/// Bytes of an invitation (`EnrolRequest.invitation`).
const INVITATION: usize = 32;

/// Serves `Init` in stage 1.
pub(crate) struct InitFlow {
    node: Node,
    init_auth: Option<Arc<InitAuth>>,
    progress: Broadcast,
    registers: bool,
}

impl InitFlow {
    /// `registers` says whether this node's cluster is registered at a centre, which an invitation is for. Without an `init_auth`, because metadata has no usable hash, nobody can initialise this node; it can still be described.
    pub(crate) fn new(node: Node, init_auth: Option<InitAuth>, progress: Broadcast, registers: bool) -> Self {
        Self { node, init_auth: init_auth.map(Arc::new), progress, registers }
    }
}

impl Init<Peer> for InitFlow {
    async fn describe(&self, request: Request<Peer, DescribeRequest>) -> Result<DescribeResponse, Status> {
        request.context.expect(&[Purpose::Init, Purpose::Verify])?;
        Ok(description(&self.node, NodeStage::Fresh))
    }

    async fn authorize(&self, request: Request<Peer, AuthorizeRequest>) -> Result<AuthorizeResponse, Status> {
        request.context.expect(&[Purpose::Init])?;
        let mut message = request.message;
        check(self.init_auth()?, message.take_init_secret(), &request.context).await?;
        Ok(AuthorizeResponse {})
    }

    async fn init(&self, request: Request<Peer, InitRequest>, mut replies: Replies<InitEvent>) -> Result<(), Status> {
        request.context.expect(&[Purpose::Init])?;
        let init_auth = self.init_auth()?;
        let knows = request.context.init_secret().ok_or_else(|| {
            Status::permission_denied("nobody proved the init secret on this connection; call Authorize first")
        })?;
        let (disk_key, measurement_secret, membership) = self.membership(request.message, init_auth, knows)?;

        let follow = self.progress.follow().ok_or_else(|| Status::resource_exhausted("too many follow this node"))?;
        // From here on the node goes its way, whether or not the operator stays.
        let verdict = self.node.offer(Source::Init, disk_key, measurement_secret, Terms::Member(Box::new(membership)));
        match follow_until(verdict.recv(), &follow, &mut replies).await?.ok() {
            Some(Verdict::Accepted { cluster_id }) => {
                let event = init_event::Event::Locked(Locked { cluster_id: cluster_id.0.to_vec() });
                replies.send(&InitEvent { event: Some(event) }).await
            }
            Some(Verdict::Refused { code: code @ OfferRefusal::AlreadyActivating, message }) => {
                Err(Status::failed_precondition(format!("{code}: {message}")))
            }
            Some(Verdict::Refused { code: OfferRefusal::Busy, message }) => Err(Status::resource_exhausted(message)),
            Some(Verdict::Refused { code, message }) => failed(&mut replies, code.into(), &message).await,
            Some(Verdict::Failed { code, message }) => failed(&mut replies, code, &message).await,
            None => Err(Status::unavailable("the node is about to reboot; look at its console")),
        }
    }

    async fn attach(&self, request: Request<Peer, AttachRequest>, _: Replies<InitEvent>) -> Result<(), Status> {
        request.context.expect(&[Purpose::Attach])?;
        Err(Status::failed_precondition("this node is still in stage 1; call Init"))
    }
}

async fn failed(replies: &mut Replies<InitEvent>, code: Reason, message: &str) -> Result<(), Status> {
    let message = format!("{message}; {}", code.remedy);
    let failed = Failed { code: code.to_string(), message, log_tail: Vec::new(), disk_reset: false };
    replies.send(&InitEvent { event: Some(init_event::Event::Failed(failed)) }).await
}

impl InitFlow {
    fn init_auth(&self) -> Result<&Arc<InitAuth>, Status> {
        self.init_auth.as_ref().ok_or_else(|| {
            Status::failed_precondition(
                "this node's metadata has no usable init secret hash, so nobody can initialise it; add one",
            )
        })
    }

    /// Reads the request of a peer that knew the secret.
    fn membership(
        &self,
        mut message: InitRequest,
        init_auth: &InitAuth,
        _: &KnowsInitSecret,
    ) -> Result<(Secret<32>, Secret<32>, Membership), Status> {
        parse::same_disk(&message.disk_uuid, self.node.disk_uuid).map_err(Status::failed_precondition)?;
        let disk_key =
            parse::key("state_disk_key", &message.take_state_disk_key()).map_err(Status::invalid_argument)?;
        let measurement_secret =
            parse::key("measurement_secret", &message.take_measurement_secret()).map_err(Status::invalid_argument)?;
        let measurement_salt =
            parse::salt("measurement_salt", &message.measurement_salt).map_err(Status::invalid_argument)?;
        let cluster_name = parse::node_name(&message.cluster_name)
            .map_err(|why| Status::invalid_argument(format!("cluster_name: {why}")))?;
        let settings = message.settings.take().unwrap_or_default();
        check_settings(&settings)?;
        let invitation = self.invitation(&mut message)?;
        let control_plane_files = shared_files(message.control_plane_files.take())?;
        let cluster_id = ClusterId::derive(&measurement_secret, &measurement_salt)
            .map_err(|error| Status::internal(error.to_string()))?;
        let membership = Membership {
            cluster_id,
            measurement_salt,
            cluster_name,
            node_name: self.node.name.clone(),
            role: NodeRole::First,
            epoch: 1,
            task: Task::Init {
                settings: SecretText::keep(Zeroizing::new(settings.encode_to_vec())),
                control_plane_files,
                init_secret_hash: init_auth.hash().into(),
                invitation,
            },
        };
        Ok((disk_key, measurement_secret, membership))
    }

    fn invitation(&self, message: &mut InitRequest) -> Result<SecretText, Status> {
        let invitation = message.take_invitation();
        match invitation.len() {
            0 => Ok(SecretText::new(&[])),
            _ if !self.registers => Err(Status::failed_precondition(
                "an invitation is for a node that registers its cluster; this one's measured command line has no latchkey.centre",
            )),
            INVITATION => Ok(SecretText::keep(invitation)),
            length => Err(Status::invalid_argument(format!("invitation has {length} bytes, expected {INVITATION}"))),
        }
    }
}

/// What a node says of itself.
pub(crate) fn description(node: &Node, stage: NodeStage) -> DescribeResponse {
    DescribeResponse {
        node_name: node.name.clone(),
        disk_uuid: node.disk_uuid.to_string(),
        stage: stage.into(),
        agent_version: env!("CARGO_PKG_VERSION").into(),
        cluster_id: String::new(),
    }
}

/// Checks the init secret off the executor. The connection keeps the witness.
pub(crate) async fn check(init_auth: &Arc<InitAuth>, secret: Zeroizing<Vec<u8>>, peer: &Peer) -> Result<(), Status> {
    let (init_auth, network) = (Arc::clone(init_auth), peer.network());
    let checked = smol::unblock(move || init_auth.check(&secret, network, clock::uptime())).await;
    checked.map(|witness| peer.knows_the_secret(witness)).map_err(|shut| match shut {
        InitSecretRefusal::WrongSecret => Status::permission_denied("wrong init secret"),
        InitSecretRefusal::BadLength => Status::invalid_argument("the init secret has 16 to 72 bytes"),
        InitSecretRefusal::TooManyTries(time) => {
            Status::resource_exhausted(format!("too many init secrets were tried; wait {} s", time.as_secs() + 1))
        }
    })
}

/// Milliseconds, as the rate limits count them.
pub(crate) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// For the hand-over; empty if there are none.
fn shared_files(files: Option<v1::ControlPlaneFiles>) -> Result<SecretText, Status> {
    let Some(v1::ControlPlaneFiles { files }) = files else { return Ok(SecretText::new(&[])) };
    let files = ControlPlaneFiles::new(files)
        .map_err(|error| Status::invalid_argument(format!("control_plane_files: {error}")))?;
    let message = v1::ControlPlaneFiles { files: files.to_messages() };
    Ok(SecretText::keep(Zeroizing::new(message.encode_to_vec())))
}

fn check_settings(settings: &ClusterSettings) -> Result<(), Status> {
    let ClusterSettings {
        kubernetes_version,
        control_plane_endpoint,
        apiserver_cert_sans,
        pod_cidr,
        service_cidr,
        secrets_key,
        service_files,
        api_balancer: _,
        component_list,
        untainted: _,
    } = settings;
    if component_list.len() > MAX_COMPONENT_LIST {
        let length = component_list.len();
        return Err(Status::invalid_argument(format!(
            "component_list has {length} bytes, at most {MAX_COMPONENT_LIST}"
        )));
    }
    if let Some(secrets_key) = secrets_key {
        parse::key("secrets_key", &secrets_key.key).map_err(Status::invalid_argument)?;
    }
    ServiceFiles::if_any(service_files).map_err(|error| Status::invalid_argument(format!("service_files: {error}")))?;
    let texts = [kubernetes_version, control_plane_endpoint, pod_cidr, service_cidr];
    let fine = |text: &String| text.len() <= 256 && text.chars().all(|c| c.is_ascii_graphic());
    if apiserver_cert_sans.len() > MAX_SANS {
        let count = apiserver_cert_sans.len();
        return Err(Status::invalid_argument(format!("{count} apiserver_cert_sans, at most {MAX_SANS} are allowed")));
    }
    if apiserver_cert_sans.iter().any(String::is_empty) {
        return Err(Status::invalid_argument("an empty name in apiserver_cert_sans; remove it"));
    }
    if texts.into_iter().chain(apiserver_cert_sans).all(fine) {
        Ok(())
    } else {
        Err(Status::invalid_argument("settings are printable ASCII without spaces, at most 256 bytes each"))
    }
}

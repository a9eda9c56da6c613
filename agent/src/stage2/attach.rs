//! The operator who follows the first node's bootstrap: `Attach`, over a channel whose evidence shows the node lock on this
//! cluster.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use latchkey_api::grpc::{Replies, Request, Status};
use latchkey_api::v1::{
    AttachRequest, AuthorizeRequest, AuthorizeResponse, DescribeRequest, DescribeResponse, Failed, Init, InitEvent,
    InitRequest, InitServer, NodeStage, Succeeded, init_event,
};
use latchkey_channel::{Attester, NoProof, Purpose, Terms};
use latchkey_keys::SecretVec;
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt as _;

use crate::flows::init::check;
use crate::flows::init_auth::InitAuth;
use crate::flows::listener::{Listener, Peer};
use crate::flows::progress::{Broadcast, follow_until};
use crate::handover::HandOver;
use crate::lifecycle::bootstrap::Outcome;
use crate::platform::console;

/// How long the result waits for the operator. Afterwards the port closes: an open port is a risk without an end.
const PATIENCE: Duration = Duration::from_mins(30);
/// How long the result stays for another try once it was sent on a connection whose operator did not say closed: what was
/// sent may be lost with the connection, and the operator comes back for it.
const LINGER: Duration = Duration::from_secs(20);

/// What the operator is told.
pub(super) struct Ending {
    pub(super) outcome: Outcome,
    pub(super) admin_config: SecretVec,
    pub(super) addresses: Vec<IpAddr>,
}

/// How long [`Attached::finish`] waits; tests wait less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) patience: Duration,
    pub(super) linger: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self { patience: PATIENCE, linger: LINGER }
    }
}

/// The open port.
pub(super) struct Attached {
    shared: Arc<Shared>,
    /// Dropped when the ending is known.
    pending: Sender<Infallible>,
    sent: Receiver<()>,
    heard: Receiver<()>,
    listener: Listener,
    log_tail: String,
}

struct Shared {
    ending: OnceLock<(Ending, String)>,
    cluster_id: String,
}

impl Attached {
    pub(super) async fn open(
        port: u16,
        attester: Arc<dyn Attester>,
        handover: &HandOver,
        hash: &str,
        progress: Broadcast,
    ) -> Result<Self, String> {
        let init_auth = InitAuth::new(hash).map_err(|error| error.to_string())?;
        let shared = Arc::new(Shared { ending: OnceLock::new(), cluster_id: handover.cluster_id.clone() });
        let (pending, ended) = bounded(1);
        let (tell_sent, sent) = bounded(1);
        let (tell_heard, heard) = bounded(1);
        let flow = AttachFlow {
            shared: Arc::clone(&shared),
            description: DescribeResponse {
                node_name: handover.node_name.clone(),
                disk_uuid: handover.disk_uuid.clone(),
                stage: NodeStage::Bootstrapping.into(),
                agent_version: env!("CARGO_PKG_VERSION").into(),
                cluster_id: handover.cluster_id.clone(),
            },
            init_auth: Arc::new(init_auth),
            progress,
            ended,
            sent: tell_sent,
            heard: tell_heard,
        };
        let terms = Terms { attester, verifier: Arc::new(NoProof) };
        let reception = move |role: Purpose| matches!(role, Purpose::Attach | Purpose::Verify).then(|| terms.clone());
        let opened = Listener::open(port, reception, InitServer::new(flow)).await;
        let listener = opened.map_err(|error| format!("port {port}: {error}"))?;
        console::line("attach", &format!("waiting on port {}", listener.address().port()));
        Ok(Self { shared, pending, sent, heard, listener, log_tail: String::new() })
    }

    pub(super) fn keep_log(&mut self, log_tail: String) {
        self.log_tail = log_tail;
    }

    /// Tells everybody who follows, waits until one of them has heard it, and closes the port. False if nobody came.
    pub(super) async fn finish(self, ending: Ending, waits: Waits) -> bool {
        // Set once, here.
        let _ = self.shared.ending.set((ending, self.log_tail));
        drop(self.pending);
        let heard = async { self.heard.recv().await.is_ok() };
        let sent = async {
            let sent = self.sent.recv().await.is_ok();
            smol::Timer::after(waits.linger).await;
            sent
        };
        let late = async {
            smol::Timer::after(waits.patience).await;
            false
        };
        let delivered = heard.or(sent).or(late).await;
        self.listener.close().drain().await;
        delivered
    }
}

struct AttachFlow {
    shared: Arc<Shared>,
    description: DescribeResponse,
    init_auth: Arc<InitAuth>,
    progress: Broadcast,
    /// Closes when the ending is known.
    ended: Receiver<Infallible>,
    /// Told when the ending was sent to somebody, and when somebody left in order after that.
    sent: Sender<()>,
    heard: Sender<()>,
}

impl Init<Peer> for AttachFlow {
    async fn describe(&self, request: Request<Peer, DescribeRequest>) -> Result<DescribeResponse, Status> {
        request.context.expect(&[Purpose::Attach, Purpose::Verify])?;
        Ok(self.description.clone())
    }

    async fn authorize(&self, request: Request<Peer, AuthorizeRequest>) -> Result<AuthorizeResponse, Status> {
        request.context.expect(&[Purpose::Init])?;
        Err(Status::failed_precondition("this node's bootstrap runs already; call Attach"))
    }

    async fn init(&self, request: Request<Peer, InitRequest>, _: Replies<InitEvent>) -> Result<(), Status> {
        request.context.expect(&[Purpose::Init])?;
        Err(Status::failed_precondition("this node is being bootstrapped already; call Attach"))
    }

    async fn attach(
        &self,
        request: Request<Peer, AttachRequest>,
        mut replies: Replies<InitEvent>,
    ) -> Result<(), Status> {
        request.context.expect(&[Purpose::Attach])?;
        let mut message = request.message;
        check(&self.init_auth, message.take_init_secret(), &request.context).await?;
        if hex::encode(&message.cluster_id) != self.shared.cluster_id {
            return Err(Status::failed_precondition(format!(
                "this node belongs to cluster {}",
                self.shared.cluster_id
            )));
        }
        let follow = self.progress.follow().ok_or_else(|| Status::resource_exhausted("too many follow this node"))?;
        let ended = async {
            let _ = self.ended.recv().await;
        };
        follow_until(ended, &follow, &mut replies).await?;
        let event = self.final_event(&message.cluster_id)?;
        replies.send(&InitEvent { event: Some(event) }).await?;
        request.context.on_close(self.heard.clone());
        // Full means that it was sent to somebody before.
        let _ = self.sent.try_send(());
        Ok(())
    }
}

impl AttachFlow {
    fn final_event(&self, cluster_id: &[u8]) -> Result<init_event::Event, Status> {
        let (ending, log_tail) =
            self.shared.ending.get().ok_or_else(|| Status::unavailable("the node ends; look at its console"))?;
        Ok(match &ending.outcome {
            Outcome::Succeeded => init_event::Event::Succeeded(Succeeded {
                cluster_id: cluster_id.to_vec(),
                admin_config: ending.admin_config.expose().to_vec(),
                addresses: ending.addresses.iter().map(ToString::to_string).collect(),
            }),
            Outcome::Failed { code, message, disk_reset } => init_event::Event::Failed(Failed {
                code: code.to_string(),
                message: format!("{message}; {}", code.remedy),
                log_tail: log_tail.clone().into_bytes(),
                disk_reset: *disk_reset,
            }),
        })
    }
}

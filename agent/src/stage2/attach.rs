//! The operator who follows the first node's bootstrap: `Attach`, over a channel whose evidence shows the node lock on this
//! cluster.

use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use latchkey_api::grpc::{Limits, Replies, Request, Server, Status};
use latchkey_api::v1::{
    AttachRequest, DescribeRequest, DescribeResponse, Failed, Init, InitEvent, InitRequest, InitServer, NodeStage,
    Succeeded, init_event,
};
use latchkey_channel::{NoProof, Role, Terms, TpmProver};
use latchkey_keys::SecretVec;
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt as _;

use crate::flows::door::{self, Visitor};
use crate::flows::gate::Gate;
use crate::flows::init::{check, millis};
use crate::flows::progress::Broadcast;
use crate::handover::HandOver;
use crate::life::bootstrap::Outcome;
use crate::platform::{clock, console};

/// How long the result waits for the operator. Afterwards the port closes: an open port is a risk without an end.
const PATIENCE: Duration = Duration::from_mins(30);
/// How long open connections may take to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What the operator is told.
pub(super) struct Ending {
    pub(super) outcome: Outcome,
    pub(super) admin_config: SecretVec,
}

/// The open port.
pub(super) struct Attached {
    shared: Arc<Shared>,
    /// Dropped when the ending is known.
    pending: Sender<Infallible>,
    delivered: Receiver<()>,
    stop: Sender<Infallible>,
    task: smol::Task<()>,
    log_tail: String,
}

struct Shared {
    ending: OnceLock<(Ending, String)>,
    cluster_id: String,
}

impl Attached {
    pub(super) async fn open(
        port: u16,
        prover: Arc<TpmProver>,
        handover: &HandOver,
        hash: &str,
        progress: Broadcast,
    ) -> Result<Self, String> {
        let gate = Gate::new(hash, millis(clock::uptime())).map_err(|error| error.to_string())?;
        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let listener = door::bind(address).await.map_err(|error| format!("port {port}: {error}"))?;
        let shared = Arc::new(Shared { ending: OnceLock::new(), cluster_id: handover.cluster_id.clone() });
        let (pending, ended) = bounded(1);
        let (delivery, delivered) = bounded(1);
        let flow = AttachFlow {
            shared: Arc::clone(&shared),
            description: DescribeResponse {
                node_name: handover.node_name.clone(),
                disk_uuid: handover.disk_uuid.clone(),
                stage: NodeStage::Bootstrapping.into(),
                agent_version: env!("CARGO_PKG_VERSION").into(),
                cluster_id: handover.cluster_id.clone(),
            },
            gate: Arc::new(gate),
            progress,
            ended,
            delivery: Mutex::new(Some(delivery)),
        };
        let server = Server::new(Limits::default()).service(InitServer::new(flow));
        let terms = Terms { prover, appraiser: Arc::new(NoProof) };
        let reception = move |role: Role| matches!(role, Role::Attach | Role::Verify).then(|| terms.clone());
        let (stop, stopped) = bounded(1);
        let task = smol::spawn(door::serve(listener, reception, server, stopped));
        console::line("attach", &format!("waiting on port {port}"));
        Ok(Self { shared, pending, delivered, stop, task, log_tail: String::new() })
    }

    pub(super) fn keep_log(&mut self, log_tail: String) {
        self.log_tail = log_tail;
    }

    /// Tells everybody who follows, waits until one of them has heard it, and closes the port. False if nobody came.
    pub(super) async fn finish(self, ending: Ending) -> bool {
        // Set once, here.
        let _ = self.shared.ending.set((ending, self.log_tail));
        drop(self.pending);
        let heard = async { self.delivered.recv().await.is_ok() };
        let late = async {
            smol::Timer::after(PATIENCE).await;
            false
        };
        let delivered = heard.or(late).await;
        drop(self.stop);
        let patience = async {
            smol::Timer::after(FAREWELL).await;
        };
        self.task.or(patience).await;
        delivered
    }
}

struct AttachFlow {
    shared: Arc<Shared>,
    description: DescribeResponse,
    gate: Arc<Gate>,
    progress: Broadcast,
    /// Closes when the ending is known.
    ended: Receiver<Infallible>,
    delivery: Mutex<Option<Sender<()>>>,
}

impl Init<Visitor> for AttachFlow {
    async fn describe(&self, request: Request<Visitor, DescribeRequest>) -> Result<DescribeResponse, Status> {
        request.context.expect(&[Role::Attach, Role::Verify])?;
        Ok(self.description.clone())
    }

    async fn init(&self, request: Request<Visitor, InitRequest>, _: Replies<InitEvent>) -> Result<(), Status> {
        request.context.expect(&[Role::Init])?;
        Err(Status::failed_precondition("this node is being bootstrapped already; call Attach"))
    }

    async fn attach(
        &self,
        request: Request<Visitor, AttachRequest>,
        mut replies: Replies<InitEvent>,
    ) -> Result<(), Status> {
        request.context.expect(&[Role::Attach])?;
        let mut message = request.message;
        check(Some(&self.gate), message.take_init_secret()).await?;
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
        door::follow_until(ended, &follow, &mut replies).await?;
        let event = self.final_event(&message.cluster_id)?;
        replies.send(&InitEvent { event: Some(event) }).await?;
        if let Some(delivery) = self.delivery.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Full means that somebody heard it before; that is enough.
            let _ = delivery.try_send(());
        }
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
            }),
            Outcome::Failed { code, message, disk_reset } => init_event::Event::Failed(Failed {
                code: code.clone(),
                message: message.clone(),
                log_tail: log_tail.clone().into_bytes(),
                disk_reset: *disk_reset,
            }),
        })
    }
}

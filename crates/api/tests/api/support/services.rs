//! Implementations of every contract for tests: deterministic answers, and keys that name a behaviour to provoke.

use latchkey_api::{
    grpc::{Code, Limits, Replies, Request, Server, Status},
    v1,
};
use std::{future::pending, sync::Arc};

/// What the test knows about a connection, and the ears it has in handlers.
pub struct Peer {
    pub name: String,
    /// Hears `started`, `dropped` and the like from handlers.
    pub events: smol::channel::Sender<&'static str>,
    /// Lets the handler of `wait` go.
    pub released: smol::channel::Receiver<()>,
}

pub struct Fixture;

pub fn server(limits: Limits) -> Server<Peer> {
    let fixture = Arc::new(Fixture);
    Server::new(limits)
        .service(v1::KeysServer::shared(fixture.clone()))
        .service(v1::JoinServer::shared(fixture.clone()))
        .service(v1::InitServer::shared(fixture.clone()))
        .service(v1::RecoveryServer::shared(fixture))
}

/// Says `dropped` when a handler that waits for ever is cancelled.
struct SaysDropped(smol::channel::Sender<&'static str>);

impl Drop for SaysDropped {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

async fn wait_for_ever(peer: &Peer) {
    let _guard = SaysDropped(peer.events.clone());
    let _ = peer.events.try_send("started");
    pending::<()>().await;
}

impl v1::Keys<Peer> for Fixture {
    async fn get_data_key(
        &self,
        request: Request<Peer, v1::GetDataKeyRequest>,
    ) -> Result<v1::GetDataKeyResponse, Status> {
        let v1::GetDataKeyRequest { key_id, length, version } = request.message;
        match key_id.as_str() {
            "" => Err(Status::invalid_argument("key_id is empty: name the key, e.g. „measurement-secret“ (100%)")),
            "never" => {
                wait_for_ever(&request.context).await;
                Err(Status::internal("unreachable"))
            }
            "wait" => {
                let _ = request.context.events.try_send("started");
                request.context.released.recv().await.map_err(|_| Status::aborted("the test is over"))?;
                Ok(v1::GetDataKeyResponse { data_key: vec![8; 16], version: 1 })
            }
            "panic" => panic!("as the test asked"),
            "not mine" => Err(Status::new(Code::PermissionDenied, format!("not for {}", request.context.name))),
            _ => Ok(v1::GetDataKeyResponse { data_key: vec![7; length as usize], version: version.max(1) }),
        }
    }
}

impl v1::Join<Peer> for Fixture {
    async fn issue_join_ticket(&self, request: Request<Peer, v1::JoinRequest>) -> Result<v1::JoinTicket, Status> {
        let v1::JoinRequest { node_name, role, certificate_request, .. } = request.message;
        Ok(v1::JoinTicket {
            state_disk_key: vec![1; 32],
            measurement_secret: vec![2; 32],
            measurement_salt: vec![3; 32],
            node_name,
            role,
            epoch: 1,
            cluster: Some(v1::ClusterJoin {
                api_server_endpoint: "10.0.0.1:6443".into(),
                bootstrap_token: "abcdef.0123456789abcdef".into(),
                ca_certificates: b"PEM".to_vec(),
                control_plane_files: vec![v1::ControlPlaneFile { name: "ca.key".into(), data: b"PEM".to_vec() }],
                kubelet_certificate: certificate_request,
                component_list: Vec::new(),
                kubernetes_version: "v1.36.0".into(),
                payload: Vec::new(),
                secrets_key: None,
                service_files: vec![],
                api_servers: Vec::new(),
                untainted: true,
            }),
        })
    }

    async fn issue_rejoin_ticket(&self, request: Request<Peer, v1::RejoinRequest>) -> Result<v1::RejoinTicket, Status> {
        if request.message.disk_uuid != "known" {
            return Err(Status::not_found("no node has this disk"));
        }
        Ok(v1::RejoinTicket {
            state_disk_key: vec![1; 32],
            measurement_secret: vec![2; 32],
            epoch: 3,
            components: None,
        })
    }

    async fn report(&self, request: Request<Peer, v1::ReportRequest>) -> Result<v1::ReportResponse, Status> {
        if request.message.succeeded { Ok(v1::ReportResponse {}) } else { Err(Status::failed_precondition("no lease")) }
    }
}

fn description() -> v1::DescribeResponse {
    v1::DescribeResponse {
        node_name: "node-0".into(),
        disk_uuid: "known".into(),
        stage: v1::NodeStage::Fresh.into(),
        agent_version: "0.1.0".into(),
        cluster_id: String::new(),
    }
}

fn progress(step: &str, elapsed_ms: u64) -> v1::InitEvent {
    let progress = v1::Progress { step: step.into(), detail: String::new(), elapsed_ms };
    v1::InitEvent { event: Some(v1::init_event::Event::Progress(progress)) }
}

impl v1::Init<Peer> for Fixture {
    async fn describe(&self, _: Request<Peer, v1::DescribeRequest>) -> Result<v1::DescribeResponse, Status> {
        Ok(description())
    }

    async fn authorize(&self, _: Request<Peer, v1::AuthorizeRequest>) -> Result<v1::AuthorizeResponse, Status> {
        Ok(v1::AuthorizeResponse {})
    }

    /// `cluster_name` says how many events there are, then how the stream ends.
    async fn init(
        &self,
        request: Request<Peer, v1::InitRequest>,
        mut replies: Replies<v1::InitEvent>,
    ) -> Result<(), Status> {
        let name = request.message.cluster_name.clone();
        let (count, end) = name.split_once(' ').unwrap_or((&name, ""));
        // Before the first event: whoever has it in hand may leave at once, and then nothing below is reached.
        let _guard = (end == "hangs").then(|| SaysDropped(request.context.events.clone()));
        for elapsed_ms in 0..count.parse().map_err(|_| Status::invalid_argument("cluster_name: no number"))? {
            replies.send(&progress("step", elapsed_ms)).await?;
            let _ = request.context.events.try_send("sent");
        }
        match end {
            "fails" => Err(Status::aborted("the disk went away")),
            "hangs" => {
                let _ = request.context.events.try_send("started");
                pending().await
            }
            _ => Ok(()),
        }
    }

    /// Sends as many bytes of kubeconfig as the secret's first byte says MiB.
    async fn attach(
        &self,
        request: Request<Peer, v1::AttachRequest>,
        mut replies: Replies<v1::InitEvent>,
    ) -> Result<(), Status> {
        let mebibytes = request.message.init_secret.first().copied().unwrap_or_default();
        let succeeded = v1::Succeeded {
            cluster_id: request.message.cluster_id.clone(),
            admin_config: vec![b'k'; usize::from(mebibytes) << 20],
            addresses: Vec::new(),
        };
        replies.send(&v1::InitEvent { event: Some(v1::init_event::Event::Succeeded(succeeded)) }).await
    }
}

impl v1::Recovery<Peer> for Fixture {
    async fn describe(&self, _: Request<Peer, v1::DescribeRequest>) -> Result<v1::DescribeResponse, Status> {
        Ok(description())
    }

    async fn recover(&self, request: Request<Peer, v1::RecoverRequest>) -> Result<v1::RecoverResponse, Status> {
        if request.message.state_disk_key != [1; 32] {
            return Err(Status::invalid_argument("this key does not open the disk"));
        }
        Ok(v1::RecoverResponse { cluster_id: vec![9; 32] })
    }
}

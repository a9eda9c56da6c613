//! The join and rejoin flows: ask the join services for a ticket until one gives it.
//!
//! All endpoints are tried at once and the first that answers is asked, over a channel in which both sides are proven.
//! Whatever goes wrong is said on the console with its reason and tried again after a jittered wait; only the driver ends
//! a flow.

use std::sync::Arc;
use std::time::Duration;

use latchkey_api::grpc::{Channel, Limits};
use latchkey_api::v1::{JoinClient, JoinRequest, JoinTicket, RejoinRequest, RejoinTicket, Role as ClusterRole};
use latchkey_channel::{HANDSHAKE_TIME, PinnedKeyAppraiser, Prover, Role, SpkiHash, Terms as ChannelTerms};
use latchkey_keys::ClusterId;
use prost::Message as _;
use smol::future::FutureExt as _;
use smol::net::TcpStream;

use super::{Membership, Node, Terms, parse};
use crate::handover::{SecretText, Task};
use crate::life::backoff::Backoff;
use crate::life::{NodeRole, Source, Verdict};
use crate::platform::console;

/// How long a TCP connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the service may take for a ticket; it may wait for the control-plane lease.
const CALL: Duration = Duration::from_secs(30);

/// Asks for tickets.
#[derive(Clone)]
pub(crate) struct Asker {
    /// The node that asks.
    pub(crate) node: Node,
    /// `host:port` of the join services.
    pub(crate) services: Vec<String>,
    /// What the service must prove: the key whose hash is in the measured command line.
    pub(crate) pin: SpkiHash,
    /// The node's TPM.
    pub(crate) prover: Arc<dyn Prover>,
    /// The role to ask for.
    pub(crate) role: ClusterRole,
}

/// Why a try brought no ticket; reason code and sentence.
struct Try {
    code: String,
    message: String,
}

impl Asker {
    /// Asks for a join ticket and offers it until an offer is accepted or too late.
    pub(crate) async fn join(self) {
        self.ask(Source::Join, Role::Join).await;
    }

    /// Asks for the key of the existing disk and offers it until an offer is accepted or too late.
    pub(crate) async fn rejoin(self) {
        self.ask(Source::Rejoin, Role::Rejoin).await;
    }

    async fn ask(self, source: Source, role: Role) {
        let mut backoff =
            Backoff::new(self.node.disk_uuid.as_bytes().iter().fold(0, |seed, b| seed << 5 ^ u64::from(*b)));
        let step = if source == Source::Join { "join" } else { "rejoin" };
        let mut last = String::new();
        loop {
            match self.once(source, role).await {
                Ok(Some(Verdict::Accepted { .. }) | None) => return,
                Ok(Some(Verdict::Refused { code, .. })) if code == "already-activating" => return,
                Ok(Some(Verdict::Refused { code, message })) | Err(Try { code, message }) => {
                    // The same reason again and again would bury the others.
                    let line = format!("{code}: {message}");
                    if line != last {
                        console::line(step, &format!("no ticket yet: {line}"));
                        last = line;
                    }
                }
            }
            smol::Timer::after(Duration::from_millis(backoff.next_ms())).await;
        }
    }

    async fn once(&self, source: Source, role: Role) -> Result<Option<Verdict>, Try> {
        let stream = self.first_that_answers().await?;
        let appraiser = Arc::new(PinnedKeyAppraiser::new([self.pin]));
        let terms = ChannelTerms { prover: Arc::clone(&self.prover), appraiser };
        let proven = latchkey_channel::connect(stream, role, terms, HANDSHAKE_TIME).await.map_err(Try::handshake)?;
        let (channel, driver) = Channel::open(proven, Limits::default()).await.map_err(Try::lost)?;
        let calls = async { self.call(JoinClient::new(channel), source).await };
        let dead = async {
            match driver.await {
                Ok(()) => std::future::pending().await,
                Err(error) => Err(Try::lost(error)),
            }
        };
        let (key, secret, terms) = calls.or(dead).await?;
        Ok(self.node.offer(source, key, secret, terms).await)
    }

    async fn call(&self, client: JoinClient, source: Source) -> Result<(Key, Key, Terms), Try> {
        let disk_uuid = self.node.disk_uuid.to_string();
        if source == Source::Rejoin {
            let ticket = client.issue_rejoin_ticket(&RejoinRequest { disk_uuid }, CALL).await.map_err(Try::status)?;
            return known(ticket);
        }
        let request = JoinRequest {
            disk_uuid,
            node_name: self.node.name.clone(),
            role: self.role.into(),
            certificate_request: Vec::new(),
        };
        member(client.issue_join_ticket(&request, CALL).await.map_err(Try::status)?)
    }

    /// Connects to all services at once; the first connection is kept, the others are dropped.
    async fn first_that_answers(&self) -> Result<TcpStream, Try> {
        let (found, connections) = smol::channel::bounded(self.services.len().max(1));
        let tries = self.services.iter().cloned().map(|service| {
            let found = found.clone();
            smol::spawn(async move {
                let connect =
                    async { TcpStream::connect(service.as_str()).await.map_err(|e| format!("{service}: {e}")) };
                let late = async {
                    smol::Timer::after(CONNECT).await;
                    Err(format!("{service}: no answer within {} s", CONNECT.as_secs()))
                };
                let _ = found.send(connect.or(late).await).await;
            })
        });
        let _tries = tries.collect::<Vec<_>>();
        drop(found);
        let mut failures = Vec::new();
        while let Ok(connection) = connections.recv().await {
            match connection {
                Ok(stream) => return Ok(stream),
                Err(failure) => failures.push(failure),
            }
        }
        Err(Try { code: "join-service-unreachable".into(), message: failures.join("; ") })
    }
}

type Key = latchkey_keys::Secret<32>;

fn known(mut ticket: RejoinTicket) -> Result<(Key, Key, Terms), Try> {
    let key = parse::key("state_disk_key", &ticket.take_state_disk_key()).map_err(Try::ticket)?;
    let secret = parse::key("measurement_secret", &ticket.take_measurement_secret()).map_err(Try::ticket)?;
    Ok((key, secret, Terms::Known { epoch: Some(ticket.epoch) }))
}

fn member(mut ticket: JoinTicket) -> Result<(Key, Key, Terms), Try> {
    let key = parse::key("state_disk_key", &ticket.take_state_disk_key()).map_err(Try::ticket)?;
    let secret = parse::key("measurement_secret", &ticket.take_measurement_secret()).map_err(Try::ticket)?;
    let measurement_salt = parse::salt("measurement_salt", &ticket.measurement_salt).map_err(Try::ticket)?;
    let malformed = |why: String| Try { code: "ticket-malformed".into(), message: why };
    let role = match ticket.role() {
        ClusterRole::ControlPlane => NodeRole::ControlPlane,
        ClusterRole::Worker => NodeRole::Worker,
        ClusterRole::Unspecified => return Err(malformed("the ticket names no role".into())),
    };
    let cluster_id = ClusterId::derive(&secret, &measurement_salt).map_err(|e| malformed(e.to_string()))?;
    let membership = Membership {
        cluster_id,
        measurement_salt,
        cluster_name: String::new(),
        node_name: parse::node_name(&ticket.node_name).map_err(malformed)?,
        role,
        epoch: ticket.epoch,
        task: Task::Join { cluster: SecretText::new(&ticket.cluster.take().unwrap_or_default().encode_to_vec()) },
    };
    Ok((key, secret, Terms::Member(Box::new(membership))))
}

impl Try {
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn handshake(error: latchkey_channel::ChannelError) -> Self {
        Self { code: error.code().into(), message: error.to_string() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn lost(error: latchkey_api::grpc::ConnectionError) -> Self {
        Self { code: "connection-lost".into(), message: error.to_string() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn status(status: latchkey_api::grpc::Status) -> Self {
        Self { code: "ticket-refused".into(), message: status.to_string() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn ticket(status: latchkey_api::grpc::Status) -> Self {
        Self { code: "ticket-malformed".into(), message: status.message().into() }
    }
}

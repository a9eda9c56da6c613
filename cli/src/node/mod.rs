//! Reaching a node: every connection is attested before a byte of a request is sent.

mod address;
mod connect_error;
mod patience;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use latchkey_api::grpc::{Channel, Limits};
use latchkey_api::v1::{DescribeRequest, DescribeResponse, InitClient, NodeStage, RecoveryClient};
use latchkey_attestation::{Admission, LockExpectation, Policy, RecordedEvidence, VerifiedEvidence};
use latchkey_channel::{HANDSHAKE_TIME, NoProof, PeerProof, Purpose, Terms};
use latchkey_cluster_store::{BootSeen, TpmBoot};
use latchkey_keys::Uuid;
use latchkey_measurements::firmware::measured;
use smol::channel::{Sender, bounded};
use smol::future::FutureExt as _;
use smol::net::TcpStream;

pub(crate) use address::Address;
pub(crate) use connect_error::{CallKind, ConnectError, RefusedCall, refused_call};
pub(crate) use patience::{Patience, block_on, waiting_for};

use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::printable;
use crate::trust::Trust;

/// How long one TCP connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a call without a stream may take.
pub(crate) const CALL: Duration = Duration::from_secs(30);

/// A node that has proven itself, and calls to it.
pub(crate) struct Node {
    pub(crate) admission: Admission,
    /// The firmware's event log as it was sent along.
    log: Option<Arc<[u8]>>,
    channel: Channel,
    /// Has the driver end the connection in order.
    farewell: Sender<()>,
    /// Moves the connection's bytes; dropped with the node, which cuts the connection.
    driver: smol::Task<()>,
}

/// The evidence of one handshake, whatever was decided on it.
#[derive(Clone, Default)]
pub(crate) struct Evidence(Arc<Mutex<Option<Seen>>>);

/// Evidence whose quote verified.
pub(crate) struct Seen {
    /// For a file.
    pub(crate) recorded: RecordedEvidence,
    /// The witness.
    pub(crate) verified: VerifiedEvidence,
}

impl Evidence {
    pub(crate) fn take(&self) -> Option<Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Connects for a role and lets the node prove itself. `evidence` is kept even if it is refused.
pub(crate) async fn connect(
    address: &Address,
    role: Purpose,
    trust: &Trust,
    lock: LockExpectation,
    evidence: Option<&Evidence>,
) -> Result<Node, ConnectError> {
    let mut verifier = trust.verifier(lock).map_err(ConnectError::Fatal)?;
    if let Some(evidence) = evidence.cloned() {
        let by = format!("latchkey {} from {address}", env!("CARGO_PKG_VERSION"));
        verifier = verifier.observed_by(Arc::new(move |identity, shown, verified| {
            let recorded = RecordedEvidence::new(identity, shown, verified, &by, now()).ok();
            let seen = recorded.map(|recorded| Seen { recorded, verified: verified.clone() });
            *evidence.0.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        }));
    }
    let stream = dial(address).await?;
    let terms = Terms { attester: Arc::new(NoProof), verifier: Arc::new(verifier) };
    let proven = latchkey_channel::connect(stream, role, terms, HANDSHAKE_TIME).await;
    let proven = proven.map_err(|error| connect_error::of_channel(address, &error))?;
    let PeerProof::Tpm(peer) = proven.peer() else {
        // The role table has no other for a server that the verifier above admits.
        return Err(ConnectError::Fatal(CommandError::local(
            CommandCode::ChannelMisuse,
            "the node was admitted without TPM evidence",
        )));
    };
    let (admission, log) = (peer.admission().clone(), peer.verified().shared_unverified_event_log());
    let (channel, driver) = Channel::open(proven, Limits::default())
        .await
        .map_err(|error| ConnectError::lost(address, CommandCode::ConnectionLost, &error.to_string()))?;
    // Once nobody has a handle, the driver ends the connection in order. That is a word to the node, so the last handle goes when it
    // is to be said, and not because a command failed and drops everything.
    let (farewell, said) = bounded(1);
    let last = channel.clone();
    let hold = async move {
        if said.recv().await == Ok(()) {
            drop(last);
        }
        std::future::pending().await
    };
    // How a connection ends, its calls say.
    let driver = smol::spawn(async move { drop(driver.or(hold).await) });
    Ok(Node { admission, log, channel, farewell, driver })
}

async fn dial(address: &Address) -> Result<TcpStream, ConnectError> {
    let late = async {
        smol::Timer::after(CONNECT).await;
        Err(std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no answer within {} s", CONNECT.as_secs())))
    };
    let stream = TcpStream::connect((address.host(), address.port())).or(late).await;
    let stream = stream.map_err(|error| ConnectError::lost(address, CommandCode::Unreachable, &error.to_string()))?;
    // Requests are small and waited for. Without it everything works, only later.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// How long an orderly end of a connection may take.
const GOODBYE: Duration = Duration::from_secs(2);

impl Node {
    /// What its record is asked about, under this policy.
    pub(crate) fn seen(&self, policy: &Policy) -> BootSeen {
        let pcrs = policy.firmware_of(&self.admission);
        let (boot, rule) = (TpmBoot::of(&self.admission), policy.firmware_change());
        BootSeen { firmware: measured(&pcrs, self.log.as_deref()), boot, rule }
    }

    /// Ends the connection in order, so that the node knows that its last message arrived. Dropping the node cuts it.
    pub(crate) async fn goodbye(self) {
        let Self { channel, farewell, driver, .. } = self;
        drop(channel);
        // There is room for one, and nobody else sends.
        let _ = farewell.try_send(());
        let late = async {
            smol::Timer::after(GOODBYE).await;
        };
        driver.or(late).await;
    }

    pub(crate) fn init(&self) -> InitClient {
        InitClient::new(self.channel.clone())
    }

    pub(crate) fn recovery(&self) -> RecoveryClient {
        RecoveryClient::new(self.channel.clone())
    }

    /// Asks what the node is waiting for, whichever service it runs.
    pub(crate) async fn describe_any(&self, address: &Address) -> Result<Description, ConnectError> {
        use latchkey_api::grpc::Code;
        let request = DescribeRequest {};
        let described = match self.init().describe(&request, CALL).await {
            Err(status) if status.code() == Code::Unimplemented => self.recovery().describe(&request, CALL).await,
            other => other,
        };
        Description::new(&described.map_err(|status| refused_call(address, &status).into_connect_error())?)
    }

    pub(crate) async fn describe(&self, address: &Address) -> Result<Description, ConnectError> {
        let described = self.init().describe(&DescribeRequest {}, CALL).await;
        Description::new(&described.map_err(|status| refused_call(address, &status).into_connect_error())?)
    }

    pub(crate) async fn describe_recovery(&self, address: &Address) -> Result<Description, ConnectError> {
        let described = self.recovery().describe(&DescribeRequest {}, CALL).await;
        Description::new(&described.map_err(|status| refused_call(address, &status).into_connect_error())?)
    }
}

/// What a node says of itself, read. Claims of an attested agent about its machine's metadata and disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    pub(crate) node_name: String,
    pub(crate) disk: Uuid,
    pub(crate) stage: NodeStage,
    pub(crate) agent_version: String,
    /// 64 hexadecimal digits, or nothing.
    pub(crate) cluster_id: String,
}

impl Description {
    fn new(response: &DescribeResponse) -> Result<Self, ConnectError> {
        let odd = |what: &str| {
            let failure = CommandError::new(
                Exit::Node,
                CommandCode::DescriptionMalformed,
                format!("the node's {what} is malformed"),
            );
            ConnectError::Fatal(failure.fix("run the same release on both sides"))
        };
        let name = &response.node_name;
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        if !(1..=253).contains(&name.len()) || !name.chars().all(letter) {
            return Err(odd("name"));
        }
        Ok(Self {
            node_name: name.clone(),
            disk: response.disk_uuid.parse().map_err(|_| odd("disk UUID"))?,
            stage: response.stage(),
            agent_version: printable(response.agent_version.get(..32).unwrap_or(&response.agent_version)),
            cluster_id: response.cluster_id.get(..64).unwrap_or(&response.cluster_id).to_owned(),
        })
    }
}

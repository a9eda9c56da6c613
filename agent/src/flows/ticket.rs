//! The join and rejoin flows: ask the join services for a ticket until one gives it.
//!
//! Every endpoint is tried in a loop of its own, over a channel in which both sides are proven: one that hangs, lies or
//! refuses costs the others nothing. A ticket is asked of one proven service at a time, because it is worth something.
//! Whatever goes wrong is said on the console with its reason and tried again after a jittered wait; only a verdict or
//! the driver ends a flow.

use std::sync::Arc;
use std::time::Duration;

use latchkey_api::OfferRefusal;
use latchkey_api::grpc::{Channel, Limits};
use latchkey_api::v1::{
    ClusterJoin, JoinClient, JoinRequest, JoinTicket, RejoinRequest, RejoinTicket, Role as ClusterRole,
};
use latchkey_channel::{Attester, PinnedKeyVerifier, Purpose, SpkiHash, Terms as ChannelTerms};
use latchkey_keys::ClusterId;
use latchkey_reason::{Reason, reason_codes};
use prost::Message as _;
use smol::future::FutureExt as _;
use smol::lock::Mutex;
use zeroize::Zeroizing;

use super::init::millis;
use super::race::{self, DialError};
use super::{Membership, Node, Terms, parse};
use crate::handover::{SecretText, Task};
use crate::lifecycle::{NodeRole, Source, Verdict};
use crate::platform::{clock, console};
use latchkey_connection_limits::Backoff;

/// How long the service may take for a ticket; it may wait for the control-plane lease.
const CALL: Duration = Duration::from_secs(30);
/// The largest cluster material, in bytes: with base64 and all else it fits into the hand-over.
const MAX_CLUSTER: usize = 512 << 10;
/// One ticket at a time, and no message but the ticket.
const LIMITS: fn() -> Limits = || Limits { connection_window: 64 << 10, ..Limits::default() };

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
    pub(crate) attester: Arc<dyn Attester>,
    /// The role to ask for.
    pub(crate) role: ClusterRole,
}

/// Why a try brought no ticket.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub(super) struct TicketError {
    code: Reason,
    message: String,
}

reason_codes! {
    /// Why there is no ticket yet.
    pub(crate) enum TicketCode {
        /// The connection broke while the ticket was asked for.
        ConnectionLost = "connection-lost": "check the network between, and whether the join service still runs";
        /// The join service gives no ticket.
        Refused = "ticket-refused": "do what the join service says; its log says more";
        /// The ticket cannot be used.
        Malformed = "ticket-malformed": "run the same release on both sides";
    }
}

impl Asker {
    /// Asks for a join ticket and offers it until an offer is accepted or too late.
    pub(crate) async fn join(self) {
        self.ask(Source::Join, Purpose::Join).await;
    }

    /// Asks for the key of the existing disk and offers it until an offer is accepted or too late.
    pub(crate) async fn rejoin(self) {
        self.ask(Source::Rejoin, Purpose::Rejoin).await;
    }

    async fn ask(self, source: Source, purpose: Purpose) {
        let one_at_a_time = Arc::new(Mutex::new(()));
        let decided = race::first(&self.services, |service| {
            let (asker, turn) = (self.clone(), Arc::clone(&one_at_a_time));
            async move {
                asker.ask_one(&service, source, purpose, &turn).await;
                Ok::<_, std::convert::Infallible>(())
            }
        });
        // Without services there is nothing to decide.
        let _ = decided.await;
    }

    /// Asks one service until a verdict ends the flow.
    async fn ask_one(&self, service: &str, source: Source, purpose: Purpose, turn: &Mutex<()>) {
        let seed = self.node.disk_uuid.as_bytes().iter().chain(service.as_bytes());
        let mut backoff = Backoff::new(seed.fold(0, |seed, byte| (seed << 5) ^ (seed >> 59) ^ u64::from(*byte)));
        let step = if source == Source::Join { "join" } else { "rejoin" };
        let mut log = ReasonLog::default();
        loop {
            let line = match self.once(service, source, purpose, turn).await {
                Ok(
                    Some(Verdict::Accepted { .. } | Verdict::Refused { code: OfferRefusal::AlreadyActivating, .. })
                    | None,
                ) => return,
                Ok(Some(Verdict::Refused { code, message })) => console::with_remedy(code.into(), &message),
                Ok(Some(Verdict::Failed { code, message })) | Err(TicketError { code, message }) => {
                    console::with_remedy(code, &message)
                }
            };
            if log.is_due(&line, millis(clock::uptime())) {
                console::line(step, &format!("no ticket yet: {line}"));
            }
            smol::Timer::after(Duration::from_millis(backoff.next_ms())).await;
        }
    }

    async fn once(
        &self,
        service: &str,
        source: Source,
        purpose: Purpose,
        turn: &Mutex<()>,
    ) -> Result<Option<Verdict>, TicketError> {
        let verifier = Arc::new(PinnedKeyVerifier::new([self.pin]));
        let terms = ChannelTerms { attester: Arc::clone(&self.attester), verifier };
        let proven = Box::pin(race::dial(service, purpose, terms)).await?;
        let _turn = turn.lock().await;
        let (channel, driver) = Channel::open(proven, LIMITS()).await.map_err(TicketError::lost)?;
        let calls = async { self.call(JoinClient::new(channel), source).await };
        let dead = async {
            match driver.await {
                Ok(()) => std::future::pending().await,
                Err(error) => Err(TicketError::lost(error)),
            }
        };
        let (key, secret, terms) = calls.or(dead).await?;
        Ok(self.node.offer(source, key, secret, terms).recv().await.ok())
    }

    async fn call(&self, client: JoinClient, source: Source) -> Result<(Key, Key, Terms), TicketError> {
        let disk_uuid = self.node.disk_uuid.to_string();
        let agent_version = env!("CARGO_PKG_VERSION").to_owned();
        if source == Source::Rejoin {
            let request = RejoinRequest { disk_uuid, agent_version };
            return known(client.issue_rejoin_ticket(&request, CALL).await.map_err(TicketError::status)?);
        }
        let request = JoinRequest {
            disk_uuid,
            node_name: self.node.name.clone(),
            role: self.role.into(),
            certificate_request: Vec::new(),
            agent_version,
        };
        member(client.issue_join_ticket(&request, CALL).await.map_err(TicketError::status)?)
    }
}

/// Bounds what a service that never gives a ticket writes on the console, whatever it says: a reason is said once in a
/// while, whatever number the request has in the service's log, and a new one at once, up to more than a service has.
#[derive(Default)]
pub(crate) struct ReasonLog {
    began_ms: u64,
    said: Vec<String>,
}

impl ReasonLog {
    /// How long a reason that was said is not said again, in milliseconds.
    const WINDOW_MS: u64 = 10 * 60 * 1000;
    /// How many different ones are said in that time.
    const MOST: usize = 32;

    /// True if `line` is to be said at `now_ms`.
    pub(crate) fn is_due(&mut self, line: &str, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.began_ms) >= Self::WINDOW_MS {
            self.began_ms = now_ms;
            self.said.clear();
        }
        let reason = without_request(line);
        let due = self.said.len() < Self::MOST && !self.said.contains(&reason);
        if due {
            self.said.push(reason);
        }
        due
    }
}

/// The request's number is another one each time, and would make every refusal look new.
fn without_request(line: &str) -> String {
    let number = line.split_once("[request ").and_then(|(before, rest)| Some((before, rest.split_once(']')?.1)));
    number.map_or_else(|| line.to_owned(), |(before, behind)| [before, behind].concat())
}

type Key = latchkey_keys::Secret<32>;

fn known(mut ticket: RejoinTicket) -> Result<(Key, Key, Terms), TicketError> {
    let key = parse::key("state_disk_key", &ticket.take_state_disk_key()).map_err(TicketError::malformed)?;
    let secret = parse::key("measurement_secret", &ticket.take_measurement_secret()).map_err(TicketError::malformed)?;
    let epoch = Some(parse::epoch(ticket.epoch).map_err(TicketError::malformed)?);
    let components = parse::components(ticket.components.take()).map_err(TicketError::malformed)?;
    Ok((key, secret, Terms::Known { epoch, components }))
}

pub(super) fn member(mut ticket: JoinTicket) -> Result<(Key, Key, Terms), TicketError> {
    let key = parse::key("state_disk_key", &ticket.take_state_disk_key()).map_err(TicketError::malformed)?;
    let secret = parse::key("measurement_secret", &ticket.take_measurement_secret()).map_err(TicketError::malformed)?;
    let measurement_salt = parse::salt("measurement_salt", &ticket.measurement_salt).map_err(TicketError::malformed)?;
    let role = match ticket.role() {
        ClusterRole::ControlPlane => NodeRole::ControlPlane,
        ClusterRole::Worker => NodeRole::Worker,
        ClusterRole::Unspecified => return Err(TicketError::malformed("the ticket names no role")),
    };
    let cluster_id =
        ClusterId::derive(&secret, &measurement_salt).map_err(|e| TicketError::malformed(e.to_string()))?;
    let membership = Membership {
        cluster_id,
        measurement_salt,
        cluster_name: String::new(),
        node_name: parse::node_name(&ticket.node_name).map_err(TicketError::malformed)?,
        role,
        epoch: parse::epoch(ticket.epoch).map_err(TicketError::malformed)?,
        task: Task::Join { cluster: material(&ticket.cluster.take().unwrap_or_default(), role)? },
    };
    Ok((key, secret, Terms::Member(Box::new(membership))))
}

/// What the cluster step will read.
fn material(cluster: &ClusterJoin, role: NodeRole) -> Result<SecretText, TicketError> {
    if role == NodeRole::Worker && !(cluster.control_plane_files.is_empty() && cluster.service_files.is_empty()) {
        return Err(TicketError::malformed("a worker's ticket has a control plane's files"));
    }
    let length = cluster.encoded_len();
    if length > MAX_CLUSTER {
        return Err(TicketError::malformed(format!("the cluster material has {length} bytes, at most {MAX_CLUSTER}")));
    }
    Ok(SecretText::keep(Zeroizing::new(cluster.encode_to_vec())))
}

impl From<DialError> for TicketError {
    fn from(DialError { code, message }: DialError) -> Self {
        Self { code, message }
    }
}

impl TicketError {
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn lost(error: latchkey_api::grpc::ConnectionError) -> Self {
        Self { code: TicketCode::ConnectionLost.into(), message: error.to_string() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn status(status: latchkey_api::grpc::Status) -> Self {
        Self { code: TicketCode::Refused.into(), message: status.to_string() }
    }

    fn malformed(why: impl Into<String>) -> Self {
        Self { code: TicketCode::Malformed.into(), message: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 60 * 60 * 1000;

    /// Runs the tries of an hour of simulated time against a service that answers `reason(try)`; how many lines it cost.
    fn lines(reason: impl Fn(u64) -> String) -> (u64, usize) {
        let (mut backoff, mut log) = (Backoff::new(7), ReasonLog::default());
        let (mut now_ms, mut tries, mut lines) = (0, 0, 0);
        while now_ms < HOUR_MS {
            lines += usize::from(log.is_due(&reason(tries), now_ms));
            tries += 1;
            now_ms += backoff.next_ms();
        }
        (tries, lines)
    }

    #[test]
    fn an_hour_without_a_ticket_costs_a_bounded_number_of_lines_whatever_the_service_says() {
        let same = |_| "join-service-unreachable: refused".to_owned();
        let two = |at: u64| format!("ticket-refused: reason {}", at % 2);
        let ever_new = |at: u64| format!("ticket-refused: request {at}");
        let held =
            |at: u64| format!("ticket-refused: enrolment-held: wait [request 0a0b0c0d-{at}]; see the service's log");
        for (reason, most) in [(&same as &dyn Fn(u64) -> String, 6), (&two, 12), (&held, 6), (&ever_new, 192)] {
            let (tries, lines) = lines(reason);
            assert!(tries > 240, "an hour has more tries: {tries}");
            assert!((1..=most).contains(&lines), "{lines} lines");
        }
    }

    #[test]
    fn a_reason_is_said_once_and_a_new_one_at_once_however_often_it_was_asked() {
        let refused = |reason: &str, at: u64| format!("ticket-refused: {reason} [request 0a0b0c0d-{at}]; see its log");
        let mut log = ReasonLog::default();
        for at in 0..100 {
            assert_eq!(log.is_due(&refused("enrolment-held: wait", at), at), at == 0, "{at}");
        }
        assert!(log.is_due(&refused("machine-denied: shut out", 100), 100));
        assert!(!log.is_due(&refused("enrolment-held: wait", 101), 101));
        for code in 0..20 {
            assert!(log.is_due(&refused(&format!("reason-{code}: new"), 102), 102), "the {code}th that is new");
        }
        // A number that is cut makes another line, and no panic.
        assert!(log.is_due("ticket-refused: x [request 0a0b", 102));
    }
}

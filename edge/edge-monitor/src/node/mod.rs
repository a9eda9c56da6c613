//! One session of a Sparkplug node with its broker: packets and time in, packets and news out. No I/O, no clock.
//!
//! ```text
//! CONNECT (will: NDEATH) → CONNACK → SUBSCRIBE (NCMD, DCMD) → SUBACK → NBIRTH → alive: NCMD rebirth → NBIRTH
//! ```
//!
//! Whoever drives it sends what [`Node::connect`] and the others give, and ends the connection after a [`Fault`]. A rebirth has the
//! `bdSeq` of the will that the broker holds; another connection is another [`Node`] with another number.

#[cfg(test)]
mod tests;

use std::time::Duration;

use latchkey_sparkplug::{BirthDeath, MessageType, Payload, PayloadError, Sequence, Topic, Value};
use mqtt_proto::v3::{
    Connack, Connect, ConnectReturnCode, LastWill, Packet, Publish, Suback, Subscribe, SubscribeReturnCode,
};
use mqtt_proto::{Pid, QoS, QosPid, TopicFilter, TopicName};

use crate::birth::{Identity, REBIRTH};

/// How long the broker may hear nothing, seconds; it publishes the will after one and a half times that.
pub const KEEP_ALIVE: u16 = 20;
/// How often the broker is asked whether it is there; half of what it was promised.
const PING: Duration = Duration::from_secs(KEEP_ALIVE as u64 / 2);
/// How long the broker may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Between two births: who commands rebirths without end gets one a second.
const BETWEEN_BIRTHS: Duration = Duration::from_secs(1);

/// A moment.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Since any fixed moment, the same one for all calls.
    pub elapsed: Duration,
    /// Milliseconds since 1970, as messages say it.
    pub clock_ms: u64,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send this packet.
    Send(Packet),
    /// For the log and the health page.
    Tell(News),
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The node's birth goes out.
    Born {
        /// Whether a command asked for it.
        again: bool,
    },
    /// A message that asks for nothing that this node does.
    Ignored(Ignored),
}

/// Why a message was left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// A topic that was not subscribed to.
    #[error("a message on a topic that is none of this node's commands: {0:?}")]
    Topic(String),
    /// A payload that is none.
    #[error("a command whose payload is not read: {0}")]
    Payload(#[from] PayloadError),
    /// A command that this node does not have.
    #[error("a command that this node does not have: {0:?}")]
    Command(String),
    /// A rebirth that is not asked for by `true`.
    #[error("{REBIRTH} without the value true")]
    NoRebirth,
    /// A command without metrics.
    #[error("a command without metrics")]
    Empty,
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Name or password are refused. Brokers with our plugin say so as well while the authorisation service is away.
    #[error(
        "the broker does not let this account in ({}); check the account's principal and password, and that the authorisation \
         service runs", code_words(*.0)
    )]
    Refused(ConnectReturnCode),
    /// Subscribing to the node's own commands is refused.
    #[error(
        "the broker refuses the subscription to this node's commands; give the account the role of a Sparkplug node, and the \
         address it has in the configuration database"
    )]
    NoCommands,
    /// The broker did not answer in time.
    #[error("the broker did not answer {0} within {answer} s", answer = ANSWER.as_secs())]
    Silent(&'static str),
    /// A packet that has no place here.
    #[error("the broker sent {0}, which no broker sends here; see that it speaks MQTT 3.1.1")]
    Unexpected(&'static str),
    /// A name that cannot be sent.
    #[error("the node's address does not fit into MQTT")]
    Address,
}

const fn code_words(code: ConnectReturnCode) -> &'static str {
    match code {
        ConnectReturnCode::Accepted => "accepted",
        ConnectReturnCode::UnacceptableProtocolVersion => "it does not speak MQTT 3.1.1",
        ConnectReturnCode::IdentifierRejected => "client identifier rejected",
        ConnectReturnCode::ServerUnavailable => "it is unavailable",
        ConnectReturnCode::BadUserNameOrPassword => "bad user name or password",
        ConnectReturnCode::NotAuthorized => "not authorised",
    }
}

/// A session.
#[derive(Debug)]
pub struct Node {
    identity: Identity,
    number: BirthDeath,
    sequence: Sequence,
    phase: Phase,
    /// When the next ping is due.
    ping: Duration,
    /// Until when the broker must have answered, and what.
    answer: Option<(Duration, &'static str)>,
    /// When the last birth went out, and whether another one is wanted.
    born: Option<Duration>,
    rebirth: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Subscribing,
    Alive,
}

impl Node {
    /// A session, and how it begins: a CONNECT without name and password. `number` has been used by no connection before, and
    /// stays this one's.
    ///
    /// # Errors
    /// [`Fault::Address`].
    pub fn connect(identity: Identity, number: BirthDeath, now: Moment) -> Result<(Self, Connect), Fault> {
        let topic = topic_name(&identity.address.topic(MessageType::NodeDeath))?;
        let death = Identity::death(number, now.clock_ms).encode();
        // One for each account, so that a broker ends what is left of the connection before.
        let mut connect = Connect::new(format!("monitor-{}", identity.account).into(), KEEP_ALIVE);
        connect.last_will = Some(LastWill::new(QoS::Level0, topic, death.into()));
        let node = Self {
            identity,
            number,
            sequence: Sequence::default(),
            phase: Phase::Connecting,
            ping: now.elapsed + PING,
            answer: Some((now.elapsed + ANSWER, "CONNECT")),
            born: None,
            rebirth: false,
        };
        Ok((node, connect))
    }

    /// Whether its birth has gone out.
    pub const fn is_born(&self) -> bool {
        self.born.is_some()
    }

    /// Takes a packet of the broker.
    ///
    /// # Errors
    /// The session is over.
    pub fn received(&mut self, packet: Packet, now: Moment) -> Result<Vec<Action>, Fault> {
        match (self.phase, packet) {
            (Phase::Connecting, Packet::Connack(answer)) => self.connected(answer, now),
            (Phase::Subscribing, Packet::Suback(answer)) => self.subscribed(&answer, now),
            // A broker may send what was subscribed to before it confirms that (MQTT 3.1.1, section 3.8.4).
            (Phase::Subscribing | Phase::Alive, Packet::Publish(message)) => self.message(&message, now),
            (Phase::Alive, Packet::Pingresp) => {
                self.answer = None;
                Ok(Vec::new())
            }
            (_, other) => Err(Fault::Unexpected(name(&other))),
        }
    }

    /// When [`Self::passed`] must be called, if no packet comes before.
    pub fn deadline(&self) -> Duration {
        let answer = self.answer.map(|(until, _)| until);
        let ping = (self.phase == Phase::Alive).then_some(self.ping);
        let birth = self.born.filter(|_| self.rebirth).map(|born| born + BETWEEN_BIRTHS);
        // There is always one of them: what is not alive waits for an answer.
        [answer, ping, birth].into_iter().flatten().min().unwrap_or(self.ping)
    }

    /// Does what has become due.
    ///
    /// # Errors
    /// The session is over.
    pub fn passed(&mut self, now: Moment) -> Result<Vec<Action>, Fault> {
        if let Some((_, what)) = self.answer.filter(|(until, _)| now.elapsed >= *until) {
            return Err(Fault::Silent(what));
        }
        let mut actions = Vec::new();
        if self.phase != Phase::Alive {
            return Ok(actions);
        }
        if self.rebirth && self.born.is_none_or(|born| now.elapsed >= born + BETWEEN_BIRTHS) {
            actions.extend(self.birth(now)?);
        }
        if now.elapsed >= self.ping {
            self.ping = now.elapsed + PING;
            // An answer that is still due is not waited for any longer by asking again.
            self.answer.get_or_insert((now.elapsed + ANSWER, "PINGREQ"));
            actions.push(Action::Send(Packet::Pingreq));
        }
        Ok(actions)
    }

    /// How a session ends that is ended on purpose: the broker forgets a will then, so the death is said first (Sparkplug 3.0.0,
    /// section 5.4).
    pub fn farewell(&self, now: Moment) -> Vec<Packet> {
        let death = Identity::death(self.number, now.clock_ms);
        let death = self.is_born().then(|| self.publish(MessageType::NodeDeath, &death).ok()).flatten();
        death.into_iter().chain([Packet::Disconnect]).collect()
    }

    fn connected(&mut self, answer: Connack, now: Moment) -> Result<Vec<Action>, Fault> {
        if answer.code != ConnectReturnCode::Accepted {
            return Err(Fault::Refused(answer.code));
        }
        self.phase = Phase::Subscribing;
        self.answer = Some((now.elapsed + ANSWER, "SUBSCRIBE"));
        let address = &self.identity.address;
        let filters = [address.topic(MessageType::NodeCommand), address.device_commands()];
        let filters = filters.map(|filter| TopicFilter::try_from(filter.as_str()).map(|filter| (filter, QoS::Level1)));
        let filters: Result<Vec<_>, _> = filters.into_iter().collect();
        let subscribe = Subscribe::new(Pid::default(), filters.map_err(|_| Fault::Address)?);
        Ok(vec![Action::Send(Packet::Subscribe(subscribe))])
    }

    fn subscribed(&mut self, answer: &Suback, now: Moment) -> Result<Vec<Action>, Fault> {
        let granted = |code: &SubscribeReturnCode| {
            matches!(code, SubscribeReturnCode::MaxLevel0 | SubscribeReturnCode::MaxLevel1)
        };
        match answer.topics.as_slice() {
            _ if answer.pid != Pid::default() => Err(Fault::Unexpected("a SUBACK of another subscription")),
            [node, _devices] if granted(node) => {
                (self.phase, self.answer) = (Phase::Alive, None);
                self.ping = now.elapsed + PING;
                self.birth(now)
            }
            [_, _] => Err(Fault::NoCommands),
            _ => Err(Fault::Unexpected("a SUBACK for another number of filters")),
        }
    }

    fn message(&mut self, message: &Publish, now: Moment) -> Result<Vec<Action>, Fault> {
        let mut actions = Vec::new();
        match message.qos_pid {
            QosPid::Level0 => {}
            QosPid::Level1(pid) => actions.push(Action::Send(Packet::Puback(pid))),
            QosPid::Level2(_) => return Err(Fault::Unexpected("a message of a quality that was not asked for")),
        }
        match self.command(message) {
            Ok(()) => self.rebirth = true,
            Err(ignored) => actions.push(Action::Tell(News::Ignored(ignored))),
        }
        actions.extend(self.passed(now)?);
        Ok(actions)
    }

    /// Whether a message asks for a rebirth, the one command that there is; why not, otherwise.
    fn command(&self, message: &Publish) -> Result<(), Ignored> {
        let shown = |text: &str| text.chars().take(100).collect::<String>();
        let topic = Topic::parse(&message.topic_name)
            .filter(|topic| topic.address == self.identity.address)
            .ok_or_else(|| Ignored::Topic(shown(&message.topic_name)))?;
        match topic.kind {
            MessageType::NodeCommand => {}
            MessageType::DeviceCommand => {
                return Err(Ignored::Command(shown(&format!("for device {}", topic.device.unwrap_or_default()))));
            }
            _ => return Err(Ignored::Topic(shown(&message.topic_name))),
        }
        let payload = Payload::decode(&message.payload)?;
        match (payload.metric(REBIRTH), payload.metrics.first()) {
            (Some(metric), _) if metric.value == Some(Value::Boolean(true)) => Ok(()),
            (Some(_), _) => Err(Ignored::NoRebirth),
            (None, Some(other)) => Err(Ignored::Command(shown(other.name.as_deref().unwrap_or_default()))),
            (None, None) => Err(Ignored::Empty),
        }
    }

    fn birth(&mut self, now: Moment) -> Result<Vec<Action>, Fault> {
        let again = self.born.replace(now.elapsed).is_some();
        self.rebirth = false;
        let seq = self.sequence.birth();
        let birth = self.identity.birth(self.number, seq, now.clock_ms);
        let birth = self.publish(MessageType::NodeBirth, &birth)?;
        Ok(vec![Action::Send(birth), Action::Tell(News::Born { again })])
    }

    /// A message of the node: at most once and not retained, as births and deaths are (Sparkplug 3.0.0, section 6.4.17).
    fn publish(&self, kind: MessageType, payload: &Payload) -> Result<Packet, Fault> {
        let topic = topic_name(&self.identity.address.topic(kind))?;
        Ok(Packet::Publish(Publish::new(QosPid::Level0, topic, payload.encode().into())))
    }
}

fn topic_name(topic: &str) -> Result<TopicName, Fault> {
    TopicName::try_from(topic).map_err(|_| Fault::Address)
}

const fn name(packet: &Packet) -> &'static str {
    match packet {
        Packet::Connect(_) => "CONNECT",
        Packet::Connack(_) => "CONNACK",
        Packet::Publish(_) => "PUBLISH",
        Packet::Puback(_) => "PUBACK",
        Packet::Pubrec(_) => "PUBREC",
        Packet::Pubrel(_) => "PUBREL",
        Packet::Pubcomp(_) => "PUBCOMP",
        Packet::Subscribe(_) => "SUBSCRIBE",
        Packet::Suback(_) => "SUBACK",
        Packet::Unsubscribe(_) => "UNSUBSCRIBE",
        Packet::Unsuback(_) => "UNSUBACK",
        Packet::Pingreq => "PINGREQ",
        Packet::Pingresp => "PINGRESP",
        Packet::Disconnect => "DISCONNECT",
    }
}

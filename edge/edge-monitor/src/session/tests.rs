//! Sessions over real sockets, with fake brokers: what a hostile or broken one may send.

use latchkey_factory_plus::Uuid;
use latchkey_sparkplug::{BirthDeath, NodeAddress, Payload};
use latchkey_test_support::block_on;
use mqtt_proto::v3::{Connack, ConnectReturnCode, Publish, Suback, SubscribeReturnCode};
use mqtt_proto::{Pid, QosPid, TopicName};
use smol::net::{TcpListener, TcpStream};

use super::*;
use crate::birth::Identity;
use crate::mqtt::MAX_PACKET;

/// Fake: the other end of a session, in the hands of a test.
struct FakeBroker {
    stream: TcpStream,
    frames: Frames,
}

impl FakeBroker {
    /// The next packet of the node; `None` when it has hung up.
    async fn packet(&mut self) -> Option<Packet> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(packet) = self.frames.packet().unwrap() {
                return Some(packet);
            }
            match self.stream.read(&mut buffer).await {
                Ok(count @ 1..) => self.frames.push(&buffer[..count]),
                _ => return None,
            }
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        // The node may have hung up, which the test sees by itself.
        let _ = self.stream.write_all(bytes).await;
    }

    async fn answer(&mut self, packet: Packet) {
        self.send(&encode(&packet).unwrap()).await;
    }

    /// Up to the birth, which it gives.
    async fn birth(&mut self) -> Payload {
        assert!(matches!(self.packet().await, Some(Packet::Connect(_))));
        self.answer(Packet::Connack(Connack::new(false, ConnectReturnCode::Accepted))).await;
        assert!(matches!(self.packet().await, Some(Packet::Subscribe(_))));
        let granted = [SubscribeReturnCode::MaxLevel1; 2];
        self.answer(Packet::Suback(Suback::new(Pid::default(), granted.to_vec()))).await;
        self.published().await
    }

    async fn published(&mut self) -> Payload {
        match self.packet().await {
            Some(Packet::Publish(publish)) => Payload::decode(&publish.payload).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

/// Plays a session with what `broker` does; `end` ends it on purpose.
fn played<T>(
    broker: impl AsyncFnOnce(FakeBroker) -> T,
    end: impl Future<Output = ()>,
) -> (Result<(), SessionError>, T, Vec<News>) {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let clock = Clock::start();
        let identity = Identity {
            address: NodeAddress::new("ACME-Bolt", "Monitor").unwrap(),
            account: Uuid::NIL,
            cluster: Uuid::NIL,
        };
        let (mut node, connect) = Node::connect(identity, BirthDeath::new(4), clock.now()).unwrap();
        let mut news = Vec::new();
        let session = carry(Stream::Plain(stream), &mut node, connect, clock, end, |told| news.push(told));
        let (result, seen) =
            smol::future::zip(session, broker(FakeBroker { stream: accepted, frames: Frames::default() })).await;
        (result, seen, news)
    })
}

async fn never() {
    std::future::pending::<()>().await;
}

#[test]
fn a_session_that_is_asked_to_end_says_its_death() {
    let (stop, stopped) = smol::channel::bounded::<()>(1);
    let end = async {
        stopped.recv().await.unwrap();
    };
    let broker = async |mut broker: FakeBroker| {
        let birth = broker.birth().await;
        stop.send(()).await.unwrap();
        let death = broker.published().await;
        assert!(matches!(broker.packet().await, Some(Packet::Disconnect)));
        (birth, death, broker.packet().await)
    };
    let (result, (birth, death, rest), news) = played(broker, end);
    assert!(result.is_ok() && rest.is_none(), "{result:?}");
    assert_eq!(birth.metric("bdSeq"), death.metrics.first());
    assert_eq!(news, [News::Born { again: false }]);
}

#[test]
fn whatever_a_hostile_broker_sends_ends_the_session_and_nothing_else() {
    let huge = [&[0x30, 0xff, 0xff, 0xff, 0x7f][..], &[0; 1000]].concat();
    let announced = |size: usize| {
        let mut header = vec![0x30];
        let mut rest = size;
        while rest > 0 {
            header.push(u8::try_from(rest & 0x7f).unwrap() | if rest > 0x7f { 0x80 } else { 0 });
            rest >>= 7;
        }
        header
    };
    let many = encode(&Packet::Connack(Connack::new(false, ConnectReturnCode::Accepted))).unwrap().repeat(1000);
    for (what, bytes) in [
        ("a web server", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("a packet of 256 MB", huge),
        ("a packet of one byte too many", announced(MAX_PACKET + 1)),
        ("a length without end", vec![0x30, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("CONNACKs without end", many),
        ("a topic that is no text", vec![0x30, 4, 0, 2, 0xff, 0xfe]),
        ("a type that there is none of", vec![0xf0, 0]),
        ("random bytes", (0..=255).rev().collect()),
    ] {
        let broker = async |mut broker: FakeBroker| {
            broker.birth().await;
            broker.send(&bytes).await;
            broker.packet().await
        };
        let (result, rest, _) = played(broker, never());
        assert!(matches!(result, Err(SessionError::Frame(_) | SessionError::Fault(_))), "{what}: {result:?}");
        assert!(rest.is_none(), "{what}");
    }
}

#[test]
fn hostile_commands_are_ignored_and_the_session_goes_on() {
    let broker = async |mut broker: FakeBroker| {
        broker.birth().await;
        let command = |topic: &str, payload: &[u8]| {
            let topic = TopicName::try_from(topic).unwrap();
            Packet::Publish(Publish::new(QosPid::Level1(Pid::default()), topic, payload.to_vec().into()))
        };
        let node = "spBv1.0/ACME-Bolt/NCMD/Monitor";
        let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
        let hostile =
            [(node, &bytes[..]), (node, &[]), (node, &[0x12, 0x7f]), ("$SYS/x", &[]), ("spBv1.0/a/NCMD/b", &[1])];
        for (topic, payload) in hostile {
            broker.answer(command(topic, payload)).await;
            assert_eq!(broker.packet().await, Some(Packet::Puback(Pid::default())));
        }
    };
    let (result, (), news) = played(broker, never());
    assert!(matches!(result, Err(SessionError::Closed)), "{result:?}");
    assert_eq!(news.iter().filter(|news| matches!(news, News::Ignored(_))).count(), 5);
}

#[test]
fn a_broker_that_hangs_up_or_refuses_is_said_so() {
    let (result, (), _) = played(async |broker: FakeBroker| drop(broker), never());
    assert!(matches!(result, Err(SessionError::Closed | SessionError::Broken(_))), "{result:?}");
    let broker = async |mut broker: FakeBroker| {
        broker.packet().await;
        broker.answer(Packet::Connack(Connack::new(false, ConnectReturnCode::BadUserNameOrPassword))).await;
        broker.packet().await
    };
    let (result, rest, _) = played(broker, never());
    assert!(matches!(result, Err(SessionError::Fault(Fault::Refused(_)))) && rest.is_none(), "{result:?}");
}

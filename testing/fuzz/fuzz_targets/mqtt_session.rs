//! What a broker sends to a monitor, cut into pieces by the input's first byte: however it is cut, the same packets come out, what is
//! read of one is written back as it was, and a session survives it. Payloads and topics are read by themselves, too.
#![no_main]

use latchkey_edge_monitor::birth::Identity;
use latchkey_edge_monitor::mqtt::{Frames, encode};
use latchkey_edge_monitor::node::{Moment, Node};
use latchkey_factory_plus::Uuid;
use latchkey_sparkplug::{BirthDeath, MAX_METRICS, NodeAddress, Payload, Topic};
use libfuzzer_sys::fuzz_target;
use mqtt_proto::v3::{Connack, ConnectReturnCode, Packet, Suback, SubscribeReturnCode};
use mqtt_proto::Pid;
use std::time::Duration;

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Packet>, bool) {
    let (mut frames, mut packets) = (Frames::default(), Vec::new());
    for piece in pieces {
        frames.push(piece);
        loop {
            match frames.packet() {
                Ok(Some(packet)) => packets.push(packet),
                Ok(None) => break,
                Err(_) => return (packets, false),
            }
        }
    }
    (packets, true)
}

fn alive() -> Node {
    let address = NodeAddress::new("G", "Monitor").expect("an address");
    let identity = Identity { address, account: Uuid::NIL, cluster: Uuid::NIL };
    let now = moment(0);
    let (mut node, _) = Node::connect(identity, BirthDeath::new(0), now).expect("a session");
    let accepted = Packet::Connack(Connack::new(false, ConnectReturnCode::Accepted));
    let granted = Packet::Suback(Suback::new(Pid::default(), vec![SubscribeReturnCode::MaxLevel1; 2]));
    node.received(accepted, now).expect("accepted");
    node.received(granted, now).expect("granted");
    node
}

fn moment(seconds: u64) -> Moment {
    Moment { elapsed: Duration::from_secs(seconds), clock_ms: 0 }
}

fuzz_target!(|input: &[u8]| {
    let Some((&size, bytes)) = input.split_first() else { return };
    let whole = read(std::iter::once(bytes));
    assert_eq!(whole, read(bytes.chunks(usize::from(size).max(1))));
    let mut written = Vec::new();
    for packet in &whole.0 {
        written.extend_from_slice(&encode(packet).expect("what was read can be written"));
    }
    // Of a CONNECT bits that mean nothing without a will are not kept, and mqtt-proto 0.4.0 writes a refusal in a SUBACK otherwise than
    // it reads it; a monitor reads none of the one and writes none of the other.
    let other = |packet: &Packet| matches!(packet, Packet::Connect(_) | Packet::Suback(_));
    assert!(whole.0.iter().any(other) || bytes.starts_with(&written));
    let mut node = alive();
    for (second, packet) in (2..).zip(whole.0) {
        if node.received(packet, moment(second)).is_err() {
            break;
        }
    }
    if let Ok(payload) = Payload::decode(bytes) {
        assert!(payload.metrics.len() <= MAX_METRICS);
        let again = Payload::decode(&payload.encode()).expect("what was read can be written");
        assert_eq!(again.metrics.len(), payload.metrics.len());
    }
    if let Some(topic) = std::str::from_utf8(bytes).ok().and_then(Topic::parse) {
        let device = topic.device.map(|device| format!("/{device}")).unwrap_or_default();
        assert_eq!(format!("{}{device}", topic.address.topic(topic.kind)).as_bytes(), bytes);
    }
});

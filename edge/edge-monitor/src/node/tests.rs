//! Sessions, played through.

use latchkey_factory_plus::Uuid;
use latchkey_sparkplug::{Metric, NodeAddress};
use proptest::prelude::*;

use super::*;

const COMMANDS: &str = "spBv1.0/ACME-Bolt/NCMD/Monitor";

fn identity() -> Identity {
    let uuid = |text| Uuid::constant(text);
    Identity {
        address: NodeAddress::new("ACME-Bolt", "Monitor").unwrap(),
        account: uuid("9a3d7a60-6bbd-4d34-b6a8-3c7d9cc0f1aa"),
        cluster: uuid("3f0c62e3-6f6e-4f4f-9b65-4c5d53b9a6d1"),
    }
}

fn at(seconds: f64) -> Moment {
    let elapsed = Duration::from_secs_f64(seconds);
    Moment { elapsed, clock_ms: 1_700_000_000_000 + u64::try_from(elapsed.as_millis()).unwrap() }
}

fn accepted() -> Packet {
    Packet::Connack(Connack::new(false, ConnectReturnCode::Accepted))
}

fn granted(codes: &[SubscribeReturnCode]) -> Packet {
    Packet::Suback(Suback::new(Pid::default(), codes.to_vec()))
}

fn both() -> Packet {
    granted(&[SubscribeReturnCode::MaxLevel1, SubscribeReturnCode::MaxLevel1])
}

fn message(topic: &str, payload: &Payload) -> Packet {
    Packet::Publish(Publish::new(QosPid::Level0, topic_name(topic).unwrap(), payload.encode().into()))
}

fn command(name: &str, value: bool) -> Payload {
    Payload { metrics: vec![Metric::new(name, Value::Boolean(value))], ..Payload::default() }
}

fn connecting(number: u8) -> (Node, Connect) {
    Node::connect(identity(), BirthDeath::new(number), at(0.0)).unwrap()
}

/// A node whose birth went out at second 0.
fn alive(number: u8) -> Node {
    let (mut node, _) = connecting(number);
    node.received(accepted(), at(0.0)).unwrap();
    node.received(both(), at(0.0)).unwrap();
    node
}

/// What an action publishes: topic and payload.
fn published(action: &Action) -> (String, Payload) {
    let Action::Send(Packet::Publish(publish)) = action else { panic!("{action:?}") };
    assert_eq!((publish.qos_pid, publish.retain), (QosPid::Level0, false));
    (publish.topic_name.to_string(), Payload::decode(&publish.payload).unwrap())
}

fn bd_seq(payload: &Payload) -> Option<&Value> {
    payload.metric("bdSeq").and_then(|metric| metric.value.as_ref())
}

#[test]
fn a_session_begins_with_its_death_and_then_its_birth() {
    let (mut node, connect) = connecting(7);
    let will = connect.last_will.unwrap();
    assert_eq!((&*will.topic_name, will.qos, will.retain), ("spBv1.0/ACME-Bolt/NDEATH/Monitor", QoS::Level0, false));
    let death = Payload::decode(&will.message).unwrap();
    assert_eq!((bd_seq(&death), death.seq, death.metrics.len()), (Some(&Value::UInt64(7)), None, 1));
    assert_eq!(death.timestamp, Some(at(0.0).clock_ms));
    assert!(connect.clean_session && connect.keep_alive == KEEP_ALIVE && connect.password.is_none());

    let actions = node.received(accepted(), at(0.1)).unwrap();
    let [Action::Send(Packet::Subscribe(subscribe))] = actions.as_slice() else { panic!("{actions:?}") };
    let filters: Vec<_> = subscribe.topics.iter().map(|(filter, qos)| (filter.to_string(), *qos)).collect();
    let devices = "spBv1.0/ACME-Bolt/DCMD/Monitor/+";
    assert_eq!(filters, [(COMMANDS.to_owned(), QoS::Level1), (devices.to_owned(), QoS::Level1)]);
    assert!(!node.is_born());

    let actions = node.received(both(), at(0.2)).unwrap();
    let (topic, birth) = published(&actions[0]);
    assert_eq!(topic, "spBv1.0/ACME-Bolt/NBIRTH/Monitor");
    assert_eq!(birth, identity().birth(BirthDeath::new(7), 0, at(0.2).clock_ms));
    assert_eq!(actions[1..], [Action::Tell(News::Born { again: false })]);
}

#[test]
fn a_rebirth_is_a_birth_and_nothing_else() {
    let mut node = alive(3);
    let actions = node.received(message(COMMANDS, &command(REBIRTH, true)), at(5.0)).unwrap();
    // No echo of the command as data; the number of the will that the broker has; seq begins anew.
    assert_eq!(actions.len(), 2);
    let (topic, birth) = published(&actions[0]);
    assert_eq!(topic, "spBv1.0/ACME-Bolt/NBIRTH/Monitor");
    assert_eq!((bd_seq(&birth), birth.seq), (Some(&Value::UInt64(3)), Some(0)));
    assert_eq!(birth.timestamp, Some(at(5.0).clock_ms));
    assert_eq!(birth.metric(REBIRTH).unwrap().value, Some(Value::Boolean(false)));
    assert_eq!(actions[1], Action::Tell(News::Born { again: true }));
}

#[test]
fn who_commands_rebirths_without_end_gets_one_a_second() {
    let mut node = alive(0);
    let mut births = 0;
    for step in 1..=1000 {
        let now = at(f64::from(step) / 100.0);
        let actions = node.received(message(COMMANDS, &command(REBIRTH, true)), now).unwrap();
        births += actions.iter().filter(|action| matches!(action, Action::Tell(News::Born { .. }))).count();
    }
    assert_eq!(births, 10);
    // The last one asked for is not forgotten, and is due when its second is over.
    let mut node = alive(0);
    assert_eq!(node.received(message(COMMANDS, &command(REBIRTH, true)), at(0.5)).unwrap(), []);
    assert_eq!(node.deadline(), BETWEEN_BIRTHS);
    assert_eq!(node.passed(at(1.0)).unwrap().len(), 2);
    assert!(node.deadline() > BETWEEN_BIRTHS);
}

#[test]
fn what_is_no_command_of_this_node_is_told_and_left_alone() {
    let told = |topic: &str, payload: &[u8]| {
        let topic = topic_name(topic).unwrap();
        let packet = Packet::Publish(Publish::new(QosPid::Level0, topic, payload.to_vec().into()));
        match alive(0).received(packet, at(2.0)).unwrap().as_slice() {
            [Action::Tell(News::Ignored(ignored))] => ignored.clone(),
            other => panic!("{other:?}"),
        }
    };
    let rebirth = command(REBIRTH, true).encode();
    assert!(matches!(told("spBv1.0/ACME-Bolt/NCMD/Other", &rebirth), Ignored::Topic(_)));
    assert!(matches!(told("spBv1.0/Other/NCMD/Monitor", &rebirth), Ignored::Topic(_)));
    assert!(matches!(told("spBv1.0/ACME-Bolt/NDATA/Monitor", &rebirth), Ignored::Topic(_)));
    assert!(matches!(told("spBv1.0/ACME-Bolt/DCMD/Monitor/Press", &rebirth), Ignored::Command(_)));
    assert!(matches!(told(&"x".repeat(60_000), &rebirth), Ignored::Topic(shown) if shown.len() == 100));
    assert!(matches!(told(COMMANDS, &[0xff; 40]), Ignored::Payload(_)));
    assert!(matches!(told(COMMANDS, &[0x12, 0].repeat(100_000)), Ignored::Payload(PayloadError::TooManyMetrics)));
    assert_eq!(told(COMMANDS, &[]), Ignored::Empty);
    assert_eq!(told(COMMANDS, &command(REBIRTH, false).encode()), Ignored::NoRebirth);
    let other = "Node Control/Reboot";
    assert_eq!(told(COMMANDS, &command(other, true).encode()), Ignored::Command(other.into()));
}

#[test]
fn a_message_of_quality_1_is_confirmed_and_one_of_2_ends_the_session() {
    let packet = |qos_pid| {
        let payload = command(REBIRTH, true).encode();
        Packet::Publish(Publish::new(qos_pid, topic_name(COMMANDS).unwrap(), payload.into()))
    };
    let pid = Pid::try_from(9).unwrap();
    let actions = alive(0).received(packet(QosPid::Level1(pid)), at(2.0)).unwrap();
    assert_eq!(actions[0], Action::Send(Packet::Puback(pid)));
    assert!(matches!(alive(0).received(packet(QosPid::Level2(pid)), at(2.0)), Err(Fault::Unexpected(_))));
}

#[test]
fn a_broker_that_is_gone_is_noticed() {
    let (mut node, _) = connecting(0);
    assert_eq!(node.deadline(), ANSWER);
    assert_eq!(node.passed(at(9.9)).unwrap(), []);
    assert_eq!(node.passed(at(10.0)), Err(Fault::Silent("CONNECT")));

    let mut node = alive(0);
    assert_eq!(node.deadline(), PING);
    assert_eq!(node.passed(at(10.0)).unwrap(), [Action::Send(Packet::Pingreq)]);
    node.received(Packet::Pingresp, at(10.1)).unwrap();
    assert_eq!(node.passed(at(20.0)).unwrap(), [Action::Send(Packet::Pingreq)]);
    // Commands are no answer to that.
    node.received(message(COMMANDS, &command(REBIRTH, true)), at(29.0)).unwrap();
    assert_eq!(node.passed(at(30.0)), Err(Fault::Silent("PINGREQ")));
}

#[test]
fn refusals_end_the_session_with_what_helps() {
    let (mut node, _) = connecting(0);
    let refused = Packet::Connack(Connack::new(false, ConnectReturnCode::NotAuthorized));
    let fault = node.received(refused, at(0.1)).unwrap_err();
    assert!(fault.to_string().contains("password"), "{fault}");

    let answered = |packet| {
        let (mut node, _) = connecting(0);
        node.received(accepted(), at(0.1)).unwrap();
        node.received(packet, at(0.2))
    };
    let (failed, fine) = (SubscribeReturnCode::Failure, SubscribeReturnCode::MaxLevel1);
    assert_eq!(answered(granted(&[failed, fine])), Err(Fault::NoCommands));
    // It has no devices: their commands may be refused.
    assert!(answered(granted(&[fine, failed])).is_ok());
    assert!(matches!(answered(granted(&[fine])), Err(Fault::Unexpected(_))));
    assert!(matches!(answered(granted(&[SubscribeReturnCode::MaxLevel2, fine])), Err(Fault::NoCommands)));
    let other = Packet::Suback(Suback::new(Pid::try_from(2).unwrap(), vec![fine, fine]));
    assert!(matches!(answered(other), Err(Fault::Unexpected(_))));
}

#[test]
fn an_end_on_purpose_says_the_death_first() {
    let packets = alive(9).farewell(at(3.0));
    let (topic, death) = published(&Action::Send(packets[0].clone()));
    assert_eq!(topic, "spBv1.0/ACME-Bolt/NDEATH/Monitor");
    assert_eq!((bd_seq(&death), death.timestamp), (Some(&Value::UInt64(9)), Some(at(3.0).clock_ms)));
    assert_eq!(packets[1..], [Packet::Disconnect]);
    // Who was not born does not die.
    assert_eq!(connecting(9).0.farewell(at(3.0)), [Packet::Disconnect]);
}

#[test]
fn a_command_before_the_birth_is_done_by_the_birth() {
    let (mut node, _) = connecting(0);
    node.received(accepted(), at(0.1)).unwrap();
    assert_eq!(node.received(message(COMMANDS, &command(REBIRTH, true)), at(0.2)).unwrap(), []);
    assert_eq!(node.received(both(), at(0.3)).unwrap().len(), 2);
    assert_eq!(node.deadline(), at(0.3).elapsed + PING);
}

proptest! {
    /// Whatever a broker sends, in whatever order: no panic, no birth before its time, and never more than one a second.
    #[test]
    fn any_packets_are_survived(steps: Vec<(u8, Vec<u8>, u16)>) {
        let (mut node, _) = connecting(1);
        let (mut now, mut last) = (0.0, None::<f64>);
        for (kind, bytes, pause) in steps {
            now += f64::from(pause) / 10_000.0;
            let publish = |payload: Vec<u8>| {
                Packet::Publish(Publish::new(QosPid::Level0, topic_name(COMMANDS).unwrap(), payload.into()))
            };
            let packet = match kind % 8 {
                0 => accepted(),
                1 => both(),
                2 => Packet::Pingresp,
                3 => publish(bytes),
                4 => publish(command(REBIRTH, true).encode()),
                5 => Packet::Disconnect,
                6 => Packet::Unsuback(Pid::default()),
                _ => granted(&[SubscribeReturnCode::Failure]),
            };
            let Ok(actions) = node.received(packet, at(now)) else { break };
            for action in actions {
                if let Action::Tell(News::Born { again }) = action {
                    prop_assert_eq!(again, last.is_some());
                    prop_assert!(last.is_none_or(|last| now - last > 0.999));
                    last = Some(now);
                }
            }
        }
    }
}

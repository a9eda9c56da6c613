//! The port: who holds it up, and how it closes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use latchkey_api::grpc::Code;
use latchkey_api::v1::{DescribeRequest, RecoverRequest, RecoveryServer};
use latchkey_channel::{NoProof, Purpose, Terms};
use latchkey_test_support::{Flood, FloodSize, Port, connect_from, first_words, open_many_files};
use smol::channel::Receiver;
use smol::io::AsyncWriteExt as _;
use smol::net::TcpStream;

use super::{DISK, Machine, PATIENCE, node};
use crate::flows::Offer;
use crate::flows::listener::{DRAIN_TIME, Listener, SLOTS};
use crate::flows::recovery::RecoveryFlow;
use crate::lifecycle::{Digest, Verdict};

async fn listener(machine: &Machine, port: u16) -> (Listener, Receiver<Box<Offer>>) {
    let (node, offers) = node();
    let service = RecoveryServer::new(RecoveryFlow::new(node));
    (Listener::open(port, machine.reception(Purpose::Recover), service).await.unwrap(), offers)
}

fn at_loopback(listener: &Listener) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, listener.address().port()).into()
}

/// A connection from another address of this host.
fn stranger(last: u8, to: SocketAddr) -> TcpStream {
    connect_from(Ipv4Addr::new(127, 0, 0, last), to).unwrap().try_into().unwrap()
}

fn recover() -> RecoverRequest {
    RecoverRequest {
        disk_uuid: DISK.into(),
        state_disk_key: vec![1; 32],
        measurement_secret: vec![2; 32],
        components: None,
    }
}

#[test]
fn a_thousand_half_open_handshakes_of_a_stranger_do_not_keep_the_operator_out() {
    open_many_files();
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let (listener, _offers) = listener(&machine, 0).await;
        let address = at_loopback(&listener);
        let before = (0..500).map(|_| stranger(66, address)).collect::<Vec<_>>();
        let operator = machine.caller(address, Purpose::Recover).await.unwrap();
        let after = (0..500).map(|_| stranger(66, address)).collect::<Vec<_>>();
        operator.recovery().describe(&DescribeRequest {}, PATIENCE).await.unwrap();
        drop((before, after));
    });
}

/// What a client of the channel says first.
fn hello() -> Vec<u8> {
    first_words(|address| {
        smol::block_on(async {
            let stream = TcpStream::connect(address).await.unwrap();
            let terms = Terms { attester: Arc::new(NoProof), verifier: Arc::new(NoProof) };
            // The purpose does not show in what is said before the server says something.
            drop(latchkey_channel::connect(stream, Purpose::Recover, terms, PATIENCE).await);
        });
    })
}

/// One try: whoever holds the slots began a handshake just now, so that no deadline ends it before the operator comes.
#[test]
fn an_operator_is_let_in_at_once_while_peers_of_other_networks_hold_every_slot() {
    open_many_files();
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let (listener, _offers) = listener(&machine, 0).await;
        let address = at_loopback(&listener);
        let hello = hello();
        let mut held = Vec::new();
        for network in 1..=u8::try_from(SLOTS.total + SLOTS.reserve).unwrap() {
            let stream = connect_from(Ipv4Addr::new(127, 1, network, 1), address).unwrap();
            let mut stream = TcpStream::try_from(stream).unwrap();
            stream.write_all(&hello).await.unwrap();
            held.push(stream);
        }
        // Connections are accepted in the order in which they came: this one finds no slot free.
        let operator = machine.caller(address, Purpose::Recover).await.unwrap();
        operator.recovery().describe(&DescribeRequest {}, PATIENCE).await.unwrap();
        drop(held);
    });
}

/// The case. The operator tries again, as its command does, until it has recovered the node.
#[test]
fn an_operator_reaches_a_node_that_silent_slow_and_half_handshaked_peers_of_many_networks_flood() {
    open_many_files();
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let (listener, offers) = listener(&machine, 0).await;
        let address = at_loopback(&listener);
        let flood = Flood::start(address, hello(), FloodSize { networks: 300, connections: 2000, per_second: 200 });
        let flood = smol::unblock(move || {
            flood.wait_for(500);
            flood
        });
        let flood = flood.await;
        let operator = async {
            loop {
                let Ok(operator) = machine.caller(address, Purpose::Recover).await else { continue };
                if let Ok(answer) = operator.recovery().recover(&recover(), PATIENCE).await {
                    return answer;
                }
            }
        };
        let node = async {
            let offer = offers.recv().await.unwrap();
            offer.answer.try_send(Verdict::Accepted { cluster_id: Digest([7; 32]) }).unwrap();
        };
        let (answer, ()) = smol::future::zip(operator, node).await;
        assert_eq!(answer.cluster_id, [7; 32]);
        smol::unblock(move || drop(flood)).await;
    });
}

#[test]
fn a_closed_door_is_closed_at_once_and_its_port_is_free() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let port = Port::reserve();
        let (first, offers) = listener(&machine, port.number()).await;
        let silent = TcpStream::connect(at_loopback(&first)).await.unwrap();
        let operator = machine.caller(at_loopback(&first), Purpose::Recover).await.unwrap();
        let recovery = operator.recovery();
        let call = smol::spawn(async move { recovery.recover(&recover(), PATIENCE).await });
        let offer = offers.recv().await.unwrap();

        // The answer that is on its way when the listener closes still arrives.
        let cluster_id = Digest([7; 32]);
        offer.answer.try_send(Verdict::Accepted { cluster_id }).unwrap();
        let began = Instant::now();
        first.close().drain().await;
        assert_eq!(call.await.unwrap().cluster_id, cluster_id.0);
        assert!(began.elapsed() < DRAIN_TIME, "nothing was left to wait for: {:?}", began.elapsed());

        let (second, _offers) = listener(&machine, port.number()).await;
        assert_eq!(second.address().port(), port.number());
        drop(silent);
    });
}

#[test]
fn a_call_that_never_ends_does_not_hold_the_farewell() {
    latchkey_test_support::block_on(async {
        let Some(machine) = Machine::start() else { return };
        let (listener, offers) = listener(&machine, 0).await;
        let operator = machine.caller(at_loopback(&listener), Purpose::Recover).await.unwrap();
        let recovery = operator.recovery();
        let call = smol::spawn(async move { recovery.recover(&recover(), PATIENCE).await });
        let unanswered = offers.recv().await.unwrap();
        let began = Instant::now();
        listener.close().drain().await;
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        assert_eq!(call.await.unwrap_err().code(), Code::Unavailable);
        drop(unanswered);
    });
}

//! Peers that are slow, or many.

use crate::service::rig::{Machine, Rig, Service, TIME, join_request};
use latchkey_api::v1::{JoinTicket, ReportRequest, Role};
use latchkey_channel::{PinnedKeyVerifier, Purpose, Terms, connect};
use latchkey_test_support::{Flood, FloodSize, PATIENCE, connect_from, drained, first_words, open_many_files};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Instant;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";

/// What a node says first.
fn first_words_of_a_node(node: &Machine) -> Vec<u8> {
    let node = node.clone();
    first_words(move |address| {
        smol::block_on(async {
            let stream = smol::net::TcpStream::connect(address).await.unwrap();
            let terms = Terms { attester: Arc::new(node), verifier: Arc::new(PinnedKeyVerifier::new([])) };
            drop(connect(stream, Purpose::Join, terms, TIME).await);
        });
    })
}

/// As nodes do, again until there is a ticket.
fn joins(service: &Service, node: &Machine) -> JoinTicket {
    let end = Instant::now() + PATIENCE;
    loop {
        match service.join(node, DISK, "worker-1") {
            Ok(ticket) => return ticket,
            Err(answer) => assert!(Instant::now() < end, "no ticket while the flood goes on: {answer:?}"),
        }
    }
}

/// The issue's case: nobody of 500 networks shows anything of worth, and handshakes may take as long as they like. CVE-2023-38200:
/// one peer that does not go on keeps all others out.
#[test]
fn a_node_gets_its_ticket_while_silent_slow_and_half_handshaked_peers_of_many_networks_flood_the_service() {
    open_many_files();
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] = json!({ "handshake_seconds": 300, "first_byte_seconds": 60 });
    let mut service = rig.start();
    let size = FloodSize { networks: 500, connections: 4000, per_second: 500 };
    let flood = Flood::start(service.address, first_words_of_a_node(&node), size);
    flood.wait_for(2000);
    joins(&service, &node);
    service.next_line(&["Connections are full"]);
    let (status, health) = service.page("/healthz");
    assert!(status.contains("200") && health.contains("connections were full"), "{status} {health}");
    // The node's network is known now, and has slots of its own.
    flood.wait_for(500);
    service.rejoin(&node, DISK).unwrap();
    drop(flood);
    assert_eq!(service.metric("connection_slots"), 1024);
    assert!(service.metric("connections_turned_away_total{reason=\"displaced\"}") > 0);
}

/// Ten thousand connections are held open as well as the service lets them; it has slots for a fraction of them.
#[test]
fn ten_thousand_connections_do_not_keep_a_node_out() {
    open_many_files();
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] = json!({ "handshake_seconds": 300, "first_byte_seconds": 60 });
    let service = rig.start();
    let size = FloodSize { networks: 2500, connections: 10_000, per_second: 2500 };
    let flood = Flood::start(service.address, first_words_of_a_node(&node), size);
    flood.wait_for(10_000);
    joins(&service, &node);
    drop(flood);
}

/// One thread, which nobody of them holds up.
#[test]
fn slow_peers_do_not_delay_a_node() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] = json!({ "threads": 1, "handshake_seconds": 300, "first_byte_seconds": 60 });
    let service = rig.start();
    let slow: Vec<TcpStream> = (0..120)
        .map(|number| {
            let mut stream = connect_from(Ipv4Addr::new(127, 1, number, 1), service.address).unwrap();
            // Nothing, or the beginning of a TLS record that never ends.
            if number % 2 == 0 {
                stream.write_all(b"\x16\x03\x01\x02\x00").unwrap();
            }
            stream
        })
        .collect();
    service.join(&node, DISK, "worker-1").unwrap();
    // Not because they had gone.
    assert_eq!(service.metric("connection_slots_taken{admitted=\"no\"}"), slow.len() as u64);
}

#[test]
fn a_peer_that_never_finishes_its_handshake_is_cut_off() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] = json!({ "handshake_seconds": 1 });
    let mut service = rig.start();
    let mut slow = TcpStream::connect(service.address).unwrap();
    slow.write_all(b"\x16\x03\x01").unwrap();
    // Ends only because the service closes.
    drained(&mut slow);
    service.next_line(&["handshake-deadline"]);
    assert_eq!(service.metric("connections_refused_total{reason=\"handshake-deadline\"}"), 1);
}

#[test]
fn a_host_that_comes_too_often_is_turned_away_before_tls() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] = json!({ "connections_per_minute_per_address": 1, "connection_burst_per_address": 2 });
    let service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let _second = TcpStream::connect(service.address).unwrap();
    let mut third = TcpStream::connect(service.address).unwrap();
    assert_eq!(drained(&mut third), b"");
    assert_eq!(service.metric("connections_turned_away_total{reason=\"rate-limited\"}"), 1);
}

#[test]
fn one_host_cannot_take_more_than_its_share_of_connections() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] =
        json!({ "connections": 4, "connections_per_address": 2, "handshake_seconds": 300, "first_byte_seconds": 60 });
    let service = rig.start();
    let from_one_host = || connect_from(Ipv4Addr::new(127, 1, 0, 1), service.address).unwrap();
    let mut first = from_one_host();
    let others = [from_one_host(), from_one_host()];
    // Its own oldest connection gave way.
    drained(&mut first);
    // Another host has its connections beside it.
    service.join(&node, DISK, "worker-1").unwrap();
    service.rejoin(&node, DISK).unwrap();
    assert_eq!(service.metric("connections_turned_away_total{reason=\"displaced\"}"), 1);
    assert_eq!(service.metric("connection_slots_taken{admitted=\"no\"}"), others.len() as u64);
}

#[test]
fn garbage_is_counted_and_harms_nobody() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    let mut garbage = TcpStream::connect(service.address).unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    drained(&mut garbage);
    service.next_line(&["Handshake failed"]);
    service.join(&node, DISK, "worker-1").unwrap();
}

/// What one that was taken over does to the log of etcd, or to a disk.
#[test]
fn a_machine_that_reports_all_the_time_is_held_back_and_no_other() {
    const OTHER: &str = "0b0b0b0b-0000-4000-8000-000000000001";
    let (busy, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&busy, &other]);
    let service = rig.start();
    service.join(&busy, DISK, "worker-1").unwrap();
    service.join(&other, OTHER, "worker-2").unwrap();
    let (busy, other) = (busy.locked(&rig), other.locked(&rig));
    let report = |at: usize| ReportRequest {
        disk_uuid: DISK.to_owned(),
        code: "busy".to_owned(),
        message: at.to_string(),
        ..ReportRequest::default()
    };
    let record = || fs::metadata(rig.path("cluster/nodes").join(format!("{}.json", busy.ek()))).unwrap().ino();
    service.report(&busy, DISK, "once").unwrap();
    let before = record();
    service.report(&busy, DISK, "once").unwrap();
    assert_eq!(record(), before, "what is on record was written again");

    let taken = service.call(&busy, Purpose::Report, async |client| {
        let mut taken = 0;
        for at in 0..2000 {
            match client.report(&report(at), TIME).await {
                Ok(_) => taken += 1,
                Err(status) if status.message().starts_with("too-many-calls") => return Ok(taken),
                Err(status) => return Err(status),
            }
        }
        Ok(taken)
    });
    let taken = taken.unwrap();
    assert!((1..1000).contains(&taken), "{taken} writes in a row");
    service.report(&other, OTHER, "").unwrap();
}

/// Each ticket is a record written anew, and a token made.
#[test]
fn a_machine_that_joins_all_the_time_is_held_back_and_no_other() {
    let (busy, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&busy, &other]);
    let service = rig.start();
    let join = join_request(DISK, "worker-1", Role::Worker);
    let taken = service.call(&busy, Purpose::Join, async |client| {
        for taken in 0..1000 {
            match client.issue_join_ticket(&join, TIME).await {
                Ok(_) => {}
                Err(status) if status.message().starts_with("too-many-calls") => return Ok(taken),
                Err(status) => return Err(status),
            }
        }
        Ok(1000)
    });
    let taken = taken.unwrap();
    assert!((1..1000).contains(&taken), "{taken} tickets in a row");
    service.join(&other, "0b0b0b0b-0000-4000-8000-000000000001", "worker-2").unwrap();
}

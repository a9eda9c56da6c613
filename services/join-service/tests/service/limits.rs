//! Peers that are slow, or many.

use crate::rig::{Machine, Rig};
use latchkey_test_support::drained;
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";

/// CVE-2023-38200: one peer that does not go on keeps all others out.
#[test]
fn slow_peers_do_not_delay_a_node() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] = json!({ "threads": 1, "connections_per_address": 64, "handshake_seconds": 300 });
    let service = rig.start();
    let slow: Vec<TcpStream> = (0..40)
        .map(|number| {
            let mut stream = TcpStream::connect(service.address).unwrap();
            // Nothing, or the beginning of a TLS record that never ends.
            if number % 2 == 0 {
                stream.write_all(b"\x16\x03\x01\x02\x00").unwrap();
            }
            stream
        })
        .collect();
    service.join(&node, DISK, "worker-1").unwrap();
    drop(slow);
}

#[test]
fn a_peer_that_never_finishes_its_handshake_is_cut_off() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] = json!({ "handshake_seconds": 1 });
    let mut service = rig.start();
    let mut slow = TcpStream::connect(service.address).unwrap();
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
    assert_eq!(service.metric("connections_refused_total{reason=\"rate-limited\"}"), 1);
}

#[test]
fn one_host_cannot_take_more_than_its_share_of_connections() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] = json!({ "connections_per_address": 2, "handshake_seconds": 300 });
    let service = rig.start();
    let _held = [TcpStream::connect(service.address).unwrap(), TcpStream::connect(service.address).unwrap()];
    let mut third = TcpStream::connect(service.address).unwrap();
    drained(&mut third);
    assert_eq!(service.metric("connections_refused_total{reason=\"full\"}"), 1);
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

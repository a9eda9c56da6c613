//! Peers that mean ill, byte by byte.

use crate::rig::{admin, get, rig, rig_with};
use serde_json::json;
use std::io::Write;
use std::time::Instant;

/// A second request, in what a confused reader would take for a body or for the next request.
const SMUGGLED: &str = "GET /panic HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_request_with_two_lengths_is_refused_and_is_the_last() {
    let rig = rig();
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\ncontent-length: 0\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\u{b}chunked\r\n",
        " Content-Length: 5\r\n",
        "Content-Length: 5\r\n Transfer-Encoding: chunked\r\n",
    ] {
        let mut wire = rig.connect();
        let head = format!("POST /open HTTP/1.1\r\nHost: x\r\n{lengths}{}\r\n0\r\n\r\n{SMUGGLED}", admin());
        wire.send(head.as_bytes());
        let reply = wire.reply();
        assert_eq!(reply.status, 400, "{lengths}: {reply:?}");
        assert!(wire.is_closed(), "{lengths}");
    }
    assert_eq!(rig.metric("handler_panics_total"), 0);
}

#[test]
fn nothing_follows_a_chunked_request_on_its_connection() {
    let rig = rig();
    let chunked = format!("POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n{}\r\n", admin());
    let mut wire = rig.connect();
    wire.send(format!("{chunked}2\r\nab\r\n0\r\n\r\n{}", get("/panic", &admin())).as_bytes());
    let reply = wire.reply();
    assert_eq!((reply.status, reply.text().as_str(), reply.header("connection")), (200, "2\n", Some("close")));
    assert!(wire.is_closed());
    let mut wire = rig.connect();
    wire.send(format!("{}{chunked}0\r\n\r\n", get("/open", "")).as_bytes());
    assert_eq!(wire.reply().status, 200);
    let reply = wire.reply();
    assert!(reply.status == 400 && reply.text().contains("before the last response"), "{reply:?}");
    assert!(wire.is_closed());
    assert_eq!(rig.metric("handler_panics_total"), 0);
}

#[test]
fn requests_in_one_piece_are_answered_one_after_the_other() {
    let rig = rig();
    let mut wire = rig.connect();
    wire.send(get("/open", "").repeat(200).as_bytes());
    let replies: Vec<_> = (0..200).map(|_| wire.reply()).collect();
    assert!(replies.iter().all(|reply| reply.status == 200));
    let mut ids: Vec<_> = replies.iter().map(|reply| reply.header("x-request-id").unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200, "each has a name of its own");
}

#[test]
fn what_is_no_request_is_refused() {
    let rig = rig();
    for (request, status) in [
        ("GET /open HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET /open HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n".to_owned(), 400),
        ("GET /open HTTP/2.0\r\nHost: x\r\n\r\n".to_owned(), 400),
        ("GET  /open HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400),
        ("TRACE /open HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 405),
        ("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 405),
        ("\x16\x03\x01\x02\x00\x01\x00\r\n\r\n".to_owned(), 400),
        (get("/op\0en", ""), 400),
        (get("/open", "X: a\0b\r\n"), 400),
        (get("/open", "X Y: a\r\n"), 400),
        (get(&format!("/{}", "a".repeat(9000)), ""), 414),
        (get("/open", &format!("X: {}\r\n", "a".repeat(33_000))), 431),
        (get("/open", &"X: a\r\n".repeat(101)), 431),
        (get("/who/%2e%2e/x", &admin()), 400),
        (get("/who%00", &admin()), 400),
        (get("/a%2Fb", &admin()), 400),
        (get("//who", &admin()), 400),
    ] {
        let mut wire = rig.connect();
        wire.send(request.as_bytes());
        let reply = wire.reply();
        assert_eq!(reply.status, status, "{request:?}: {reply:?}");
    }
    assert_eq!(rig.ask(&get("/open", "")).status, 200);
}

#[test]
fn a_head_that_drips_is_cut_off_whatever_drips() {
    let rig = rig_with(json!({}), json!({ "head_seconds": 1 }));
    let mut wire = rig.connect();
    wire.send(b"GET /open HTTP/1.1\r\n");
    let began = Instant::now();
    let mut drips = 0;
    // Written to until the server's end is known here; no answer to it is waited for.
    while wire.stream.write_all(b"X: a\r\n").is_ok() {
        drips += 1;
        smol::block_on(smol::Timer::after(std::time::Duration::from_millis(100)));
        assert!(began.elapsed() < latchkey_test_support::PATIENCE, "{drips}");
    }
    assert!(drips > 1 && rig.metric("connections") == 0, "{drips}");
}

#[test]
fn idle_connections_and_bodies_that_do_not_come_end() {
    let rig = rig_with(json!({}), json!({ "idle_seconds": 1, "stall_seconds": 1 }));
    let mut wire = rig.connect();
    wire.send(get("/open", "").as_bytes());
    assert_eq!(wire.reply().status, 200);
    assert!(wire.is_closed(), "nothing for a second");
    let mut wire = rig.connect();
    wire.send(format!("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n{}\r\nab", admin()).as_bytes());
    let reply = wire.reply();
    assert!(reply.status == 408 && reply.text().contains("for 1 s"), "{reply:?}");
    assert!(wire.is_closed());
    let mut wire = rig.connect();
    wire.send(
        format!("POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n{}\r\nzz\r\n", admin()).as_bytes(),
    );
    assert_eq!(wire.reply().status, 400, "chunks that are none");
}

#[test]
fn one_network_takes_no_more_than_its_part() {
    let rig = rig_with(json!({}), json!({ "connections": 8, "connections_per_address": 4 }));
    let mut held: Vec<_> = (0..4)
        .map(|_| {
            let mut wire = rig.connect();
            wire.send(get("/who", &admin()).as_bytes());
            assert_eq!(wire.reply().status, 200);
            wire
        })
        .collect();
    assert!(rig.connect().is_closed());
    held.pop();
    latchkey_test_support::until("a free slot", || (rig.metric("connections") == 3).then_some(()));
    assert_eq!(rig.metric("connections_turned_away_total{reason=\"full\"}"), 1);
    assert_eq!(rig.ask(&get("/open", "")).status, 200);
}

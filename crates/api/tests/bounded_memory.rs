//! What hostile callers announce costs no memory. The only test of its binary: it looks at the process's own size.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "api/support/mod.rs"]
mod support;

use latchkey_api::grpc::Limits;
use smol::io::AsyncWriteExt;
use support::raw::{DATA, END_HEADERS, HEADERS, PREFACE, SETTINGS, call, frame};

const CONNECTIONS: usize = 64;
const CALLS: u32 = 32;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// 64 connections with 32 calls each, every call announcing a message of 1 MiB and sending 100 bytes of it: 2 GiB
/// announced. Everything runs on one executor until nothing moves any more.
#[test]
fn announced_messages_cost_what_was_sent_and_not_what_was_announced() {
    let executor = smol::Executor::new();
    let before = resident();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let (mut near, far) = support::pipe::pipe();
        let (peer, events, release) = support::peer();
        let server = support::services::server(Limits::default());
        let serving = executor.spawn(async move { server.serve(far, peer).await });
        let attack = executor.spawn(async move {
            near.write_all(PREFACE).await.unwrap();
            near.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
            for stream in (1..CALLS * 2).step_by(2) {
                let head = call("/latchkey.v1.Keys/GetDataKey", &[]);
                near.write_all(&frame(HEADERS, END_HEADERS, stream, &head)).await.unwrap();
                let start = [&[0, 0, 0x10, 0, 0][..], &[0x0a; 100]].concat();
                near.write_all(&frame(DATA, 0, stream, &start)).await.unwrap();
            }
            near
        });
        connections.push((serving, attack, events, release));
    }
    while executor.try_tick() {}
    assert!(connections.iter().all(|(serving, attack, ..)| !serving.is_finished() && attack.is_finished()));
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{} KiB for {CONNECTIONS} hostile connections", grown >> 10);
    println!("{} KiB for {CONNECTIONS} hostile connections with {CALLS} calls each", grown >> 10);
}

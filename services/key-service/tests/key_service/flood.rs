//! Peers that are many: whoever proves something is served all the same.

use crate::rig;

use crate::rig::client::{connect, question};
use crate::rig::{JOIN, Rig};
use latchkey_api::grpc::{Channel, Limits};
use latchkey_api::v1::KeysClient;
use latchkey_test_support::{Flood, FloodSize, connect_from, drained, first_words, open_many_files};
use serde_json::json;
use smol::future::FutureExt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// One try: TLS, a call, a key.
async fn ask(rig: &Rig, join: &rig::pki::Identity, address: SocketAddr) -> io::Result<()> {
    let stream = connect(address, &rig.servers.certificate(), join).await?;
    let (channel, driver) = Channel::open(stream, Limits::default()).await.map_err(io::Error::other)?;
    let call = async {
        let answer = KeysClient::new(channel).get_data_key(&question(), Duration::from_mins(1)).await;
        answer.map(drop).map_err(io::Error::other)
    };
    let connection = async {
        driver.await.map_err(io::Error::other)?;
        Err(io::ErrorKind::ConnectionReset.into())
    };
    call.or(connection).await
}

/// Whoever asks tries again, as the join service does.
fn served(rig: &Rig, join: &rig::pki::Identity, address: SocketAddr) {
    latchkey_test_support::block_on(async {
        while let Err(error) = ask(rig, join, address).await {
            eprintln!("once more, after: {error}");
        }
    });
}

/// The case: nobody of 300 networks says anything of worth, and handshakes may take as long as they like.
#[test]
fn a_caller_gets_its_key_while_silent_slow_and_half_handshaked_peers_of_many_networks_flood_the_service() {
    open_many_files();
    let mut rig = Rig::new();
    rig.config["limits"] = json!({ "handshake_seconds": 60, "first_byte_seconds": 60 });
    let mut service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let words = {
        let (ca, join) = (rig.servers.certificate(), join.clone());
        first_words(move |address| drop(smol::block_on(connect(address, &ca, &join))))
    };
    let flood = Flood::start(service.address(), words, FloodSize { networks: 300, connections: 2000, per_second: 500 });
    flood.wait_for(1000);
    served(&rig, &join, service.address());
    service.next_line("Connections are full");
    let health = service.page("/healthz");
    assert!(health.0.contains("200") && health.1.contains("connections were full"), "{health:?}");
    // The caller's network is known now, and has slots of its own.
    flood.wait_for(500);
    served(&rig, &join, service.address());
    drop(flood);
    let page = service.page("/metrics").1;
    assert!(page.contains("connection_slots 256") && !page.contains("reason=\"displaced\"} 0"), "{page}");
}

#[test]
fn one_host_cannot_take_more_than_its_share_of_connections() {
    let mut rig = Rig::new();
    rig.config["limits"] =
        json!({ "connections": 4, "connections_per_address": 2, "handshake_seconds": 60, "first_byte_seconds": 60 });
    let service = rig.start();
    let from = |last| connect_from(Ipv4Addr::new(127, 1, 0, last), service.address()).unwrap();
    let mut first = from(1);
    let second = from(1);
    let third = from(1);
    // Its own oldest connection gave way.
    drained(&mut first);
    // Another host has its connections beside it.
    let join = rig.client("join", &[JOIN]);
    served(&rig, &join, service.address());
    served(&rig, &join, service.address());
    let page = service.page("/metrics").1;
    assert!(page.contains("turned_away_total{reason=\"displaced\"} 1\n"), "{page}");
    assert!(page.contains("connection_slots_taken{admitted=\"no\"} 2\n"), "{page}");
    drop((second, third));
}

#[test]
fn a_peer_that_says_nothing_is_cut_off_before_its_handshake_is_due() {
    let mut rig = Rig::new();
    rig.config["limits"] = json!({ "first_byte_seconds": 1, "handshake_seconds": 60 });
    let service = rig.start();
    let mut silent = connect_from(Ipv4Addr::LOCALHOST, service.address()).unwrap();
    let begun = std::time::Instant::now();
    // Ends only because the service closes.
    drained(&mut silent);
    assert!(begun.elapsed() < Duration::from_mins(1), "that was the handshake's deadline");
    let page = service.page("/metrics").1;
    assert!(page.contains("turned_away_total{reason=\"silent\"} 1"), "{page}");
}

//! A server and a client on an in-memory pipe.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    clippy::missing_panics_doc,
    reason = "each test binary uses a part of it"
)]

pub mod pipe;
pub mod services;

use latchkey_api::grpc::{Channel, ConnectionError, Limits};
use services::Peer;
use smol::{Task, channel::Receiver};

/// A client's channel, the task that serves its connection, and what the handlers said.
pub struct Pair {
    pub channel: Channel,
    pub driver: Task<Result<(), ConnectionError>>,
    pub serving: Task<Result<(), ConnectionError>>,
    pub events: Receiver<&'static str>,
}

pub fn peer() -> (Peer, Receiver<&'static str>) {
    let (events, heard) = smol::channel::unbounded();
    (Peer { name: "test".into(), events }, heard)
}

pub async fn pair(limits: Limits) -> Pair {
    pair_with(limits, limits).await
}

pub async fn pair_with(server: Limits, client: Limits) -> Pair {
    let (near, far) = pipe::pipe();
    let (peer, events) = peer();
    let server = services::server(server);
    let serving = smol::spawn(async move { server.serve(far, peer).await });
    let (channel, driver) = Channel::open(near, client).await.unwrap();
    Pair { channel, driver: smol::spawn(driver), serving, events }
}

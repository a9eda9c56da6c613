//! A server and a client on an in-memory pipe.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "each test binary uses a part of it"
)]

pub mod pipe;
pub mod python;
pub mod raw;
pub mod services;

use latchkey_api::grpc::{Channel, ConnectionError, Limits};
use services::Peer;
use smol::{
    Task,
    channel::{Receiver, Sender, bounded},
};

/// A client's channel, the task that serves its connection, and what the handlers said.
pub struct Pair {
    pub channel: Channel,
    pub driver: Task<Result<(), ConnectionError>>,
    pub serving: Task<Result<(), ConnectionError>>,
    pub events: Receiver<&'static str>,
    /// Lets handlers go that wait for it.
    pub release: Sender<()>,
    /// Dropped to stop the server gracefully.
    pub stop: Sender<()>,
}

/// A connection's context, and the test's ends of its channels.
pub fn peer() -> (Peer, Receiver<&'static str>, Sender<()>) {
    let (events, heard) = smol::channel::unbounded();
    let (release, released) = smol::channel::unbounded();
    (Peer { name: "test".into(), events, released }, heard, release)
}

pub async fn pair(limits: Limits) -> Pair {
    pair_with(limits, limits).await
}

pub async fn pair_with(server: Limits, client: Limits) -> Pair {
    let (near, far) = pipe::pipe();
    let (peer, events, release) = peer();
    let (stop, stopped) = bounded::<()>(1);
    let server = services::server(server);
    let serving = smol::spawn(async move {
        let stop = async move { stopped.recv().await.unwrap_or_default() };
        server.serve_until(far, peer, stop).await
    });
    let (channel, driver) = Channel::open(near, client).await.unwrap();
    Pair { channel, driver: smol::spawn(driver), serving, events, release, stop }
}

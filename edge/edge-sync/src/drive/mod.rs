//! Carries out what is decided: two loops, of which one tells and the other deploys.

mod centre;
mod cluster;
mod deploy;
mod report;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use latchkey_factory_plus_client::Client;
use latchkey_kubernetes_client::{Connection, Standing, View};
use smol::Timer;
use smol::channel::bounded;
use smol::future::FutureExt as _;

use crate::deployments::Site;
use crate::status::Source;

/// Edge Sync, running.
#[derive(Debug)]
pub struct EdgeSync {
    connection: Arc<Connection>,
    client: Client,
    site: Site,
    keys_namespace: String,
}

/// What is wrong of one source now; nothing, where it works.
type Wrong = (Source, Vec<String>);

impl EdgeSync {
    /// For one cluster: the way to its API server, a client of its centre, and the namespace of the keys of sealed-secrets.
    pub fn new(connection: Connection, client: &Client, site: Site, keys_namespace: &str) -> Self {
        let keys_namespace = keys_namespace.to_owned();
        Self { connection: Arc::new(connection), client: client.clone(), site, keys_namespace }
    }

    /// Works for as long as it is polled. While centre or API server do not answer, what was known last holds.
    pub async fn run(self) -> Infallible {
        // Told rarely, and taken whenever the other loop does not speak to the centre.
        let (tell, told) = bounded(16);
        self.report(told).or(self.deploy(tell)).await
    }
}

/// Time since the start.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    /// In milliseconds.
    fn now(self) -> u64 {
        millis(self.0.elapsed())
    }

    /// Returns at this time, in milliseconds since the start; never, where there is none.
    async fn at(self, time: Option<u64>) {
        match time {
            Some(time) => drop(Timer::at(self.0 + Duration::from_millis(time)).await),
            None => std::future::pending().await,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Since 1970.
fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// What is wrong with following something.
fn wrong<T>(view: &View<T>) -> Option<String> {
    match &view.standing {
        Standing::Stale(error) => Some(error.to_string()),
        Standing::Waiting | Standing::Fresh => None,
    }
}

//! Who this monitor is, as the centre says and goes on saying.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::time::Duration;

use latchkey_connection_limits::Backoff;
use latchkey_factory_plus::cluster::SparkplugAddress;
use latchkey_factory_plus::{Upn, Uuid, uuids};
use latchkey_factory_plus_client::notify::{Reading, State};
use latchkey_factory_plus_client::{Auth, CallError, Client, ConfigDb, WhoAmI};
use latchkey_sparkplug::NodeAddress;
use smol::Timer;
use smol::future::FutureExt as _;

use crate::birth::Identity;
use crate::latest::Latest;

/// Why nothing is published yet, or any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unknown {
    /// The centre cannot be asked.
    #[error("{0}")]
    Call(CallError),
    /// It knows the password, and no object.
    #[error(
        "the centre has no object for the principal of this account ({}); give the cluster's account its Kerberos identity", 
        .0.as_ref().map_or("no name", Upn::as_str)
    )]
    NoObject(Option<Upn>),
    /// There is no address, or it is not ours to read.
    #[error(
        "the configuration database has no Sparkplug address of the account {account} ({status}); the cluster manager writes it, \
         and the role of a Sparkplug node reads it"
    )]
    NoAddress {
        /// The account's object.
        account: Uuid,
        /// What the database answers.
        status: u16,
    },
    /// The address cannot be used.
    #[error("the Sparkplug address of the account {account} is none: {why}")]
    BadAddress {
        /// The account's object.
        account: Uuid,
        /// What is wrong with it.
        why: String,
    },
}

/// How often somebody without an address asks whether the account is another one now.
const ANOTHER: Duration = Duration::from_mins(1);

/// Follows who this monitor is: its account's object, and its address by change notification. What was known stays while the
/// centre is away.
pub(crate) async fn follow(client: &Client, cluster: Uuid, known: &Latest<Option<Identity>>) -> Infallible {
    let mut account = account(client).await;
    loop {
        account = follow_address(client, account, cluster, known).await;
    }
}

/// Follows the address of an account, until the principal has another account: which one.
async fn follow_address(client: &Client, account: Uuid, cluster: Uuid, known: &Latest<Option<Identity>>) -> Uuid {
    let mut watch = ConfigDb::of(client).watch_entry(uuids::application::SPARKPLUG_ADDRESS, account);
    let mut told = None;
    loop {
        match (watch.state(), watch.reading()) {
            (State::Fresh, Some(reading)) => {
                let found = address(account, &reading).map(|address| Identity { address, account, cluster });
                let problem = found.as_ref().err().cloned();
                if let Some(problem) = problem.as_ref().filter(|problem| told.as_ref() != Some(*problem)) {
                    tracing::warn!(%problem, "This monitor has no address");
                }
                told = problem;
                known.set(found.ok());
            }
            (State::Stale { reason, .. }, _) => tracing::warn!(%reason, "Changes at the centre are not heard"),
            _ => {}
        }
        let again = async {
            Timer::after(ANOTHER).await;
            true
        };
        let changed = async {
            watch.changed().await;
            false
        };
        if told.is_none() {
            changed.await;
        } else if changed.or(again).await
            && let Ok(Some(WhoAmI { uuid: Some(other), .. })) = Auth::of(client).whoami().await
            && other != account
        {
            return other;
        }
    }
}

/// The object of our account, once the centre tells.
async fn account(client: &Client) -> Uuid {
    let mut pauses = Backoff::new(seed()).up_to(30_000);
    let mut told = None;
    loop {
        let problem = match Auth::of(client).whoami().await {
            Ok(Some(WhoAmI { uuid: Some(uuid), .. })) => return uuid,
            Ok(known) => Unknown::NoObject(known.and_then(|known| known.kerberos)),
            Err(error) => Unknown::Call(error),
        };
        if told.as_ref() != Some(&problem) {
            tracing::warn!(%problem, "The centre does not say who this monitor is");
            told = Some(problem);
        }
        Timer::after(Duration::from_millis(pauses.next_ms())).await;
    }
}

fn address(account: Uuid, reading: &Reading) -> Result<NodeAddress, Unknown> {
    let bad = |why: &dyn std::fmt::Display| Unknown::BadAddress { account, why: why.to_string() };
    let body = match (reading.status, &reading.body) {
        (200, Some(body)) => body.as_ref().clone(),
        (status, _) => return Err(Unknown::NoAddress { account, status }),
    };
    let address: SparkplugAddress = serde_json::from_value(body).map_err(|error| bad(&error))?;
    let node = address.node_id.ok_or_else(|| bad(&"it names a group and no node"))?;
    NodeAddress::new(&address.group_id, &node).map_err(|error| bad(&error))
}

/// A number that other processes hardly have: for pauses that differ.
pub(crate) fn seed() -> u64 {
    let bytes = Uuid::random();
    bytes.as_bytes().iter().take(8).fold(0, |seed, byte| (seed << 8) | u64::from(*byte))
}

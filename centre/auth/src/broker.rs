//! Answers the MQTT broker's plugin: whose a password is, and which topics its principal may use.
//!
//! A line of an access list whose permission has an entry of the application *MQTT permission template* gives topics, filled with
//! the Sparkplug address of its target. What has no entry, or no address that fills it, gives nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchkey_broker::Grants;
use latchkey_broker::server::{Authority, Limits, Refusal, Server};
use latchkey_broker::template::{Address, expand};
use latchkey_factory_plus::{Upn, Uuid, uuids};
use latchkey_factory_plus_client::notify::{Event, Search};
use latchkey_factory_plus_client::{Client, ConfigDb};
use latchkey_kerberos::Kerberos;
use latchkey_reason::{ReasonCode as _, reason_codes};
use serde::Deserialize;
use serde_json::Value;
use smol::Task;
use zeroize::Zeroizing;

use crate::keeper::Keeper;

reason_codes! {
    /// Why the broker is not told what a client may do. The codes of passwords are Kerberos' own.
    pub enum BrokerCode {
        /// A name that no principal here can have.
        NameNotAccepted = "auth-name-not-accepted": "connect as a principal of letters, digits, '-', '_', '.' and '/'";
        /// The configuration database has not told about classes yet.
        ClassesUnknown = "auth-classes-unknown": "see that the configuration database runs and lets the authorisation service read; then connect again";
        /// Nor about permission templates and Sparkplug addresses.
        TemplatesUnknown = "auth-templates-unknown": "see that the configuration database runs and lets the authorisation service read; then connect again";
    }
}

/// How long a password is taken without asking the KDC again.
const REMEMBERED: Duration = Duration::from_mins(1);
/// Wrong passwords of a name from an address, and in which time.
const FAILURES: (u32, Duration) = (10, Duration::from_mins(1));

/// What the broker's plugin asks.
pub struct Broker {
    keeper: Keeper,
    kerberos: Kerberos,
    entries: Arc<Mutex<Entries>>,
    _following: [Task<()>; 2],
}

/// Entries of the configuration database.
#[derive(Debug, Default)]
struct Entries {
    templates: Known<BTreeMap<String, String>>,
    addresses: Known<SparkplugAddress>,
}

/// Entries of one application, when all of them were heard.
type Known<T> = Option<BTreeMap<Uuid, T>>;

/// As much of an address as there is; other edges write more fields.
#[derive(Debug, Deserialize)]
struct SparkplugAddress {
    group_id: Option<String>,
    node_id: Option<String>,
}

impl Broker {
    /// Follows templates and addresses at the configuration database.
    pub fn following(keeper: Keeper, client: &Client, kerberos: Kerberos) -> Self {
        let (config_db, entries) = (ConfigDb::of(client), Arc::<Mutex<Entries>>::default());
        let templates = config_db.search_entries(uuids::application::MQTT_PERMISSION_TEMPLATE, None);
        let addresses = config_db.search_entries(uuids::application::SPARKPLUG_ADDRESS, None);
        let following = [
            smol::spawn(follow(templates, Arc::clone(&entries), |entries| &mut entries.templates)),
            smol::spawn(follow(addresses, Arc::clone(&entries), |entries| &mut entries.addresses)),
        ];
        Self { keeper, kerberos, entries, _following: following }
    }

    /// Listens for the plugin of processes of these users; the future answers until it is dropped.
    ///
    /// # Errors
    /// It cannot listen there.
    pub fn listen(
        self,
        path: &Path,
        users: BTreeSet<u32>,
    ) -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
        let (failures, window) = FAILURES;
        let limits = Limits { users: users.into_iter().collect(), remember: REMEMBERED, failures, window };
        let server = Server::bind(path, self, limits)?;
        Ok(async move {
            if let Err(error) = server.run().await {
                tracing::error!(%error, "The broker's plugin is not answered any more");
            }
        })
    }
}

async fn follow<T: for<'de> Deserialize<'de>>(
    mut search: Search,
    entries: Arc<Mutex<Entries>>,
    part: fn(&mut Entries) -> &mut Known<T>,
) {
    loop {
        let event = search.next().await;
        let mut entries = lock(&entries);
        let known = part(&mut entries);
        match event {
            Event::Complete(children) => {
                *known = Some(children.iter().filter_map(|(object, entry)| Some((*object, read(entry)?))).collect());
            }
            Event::Set(object, entry) => match (known, read(&entry)) {
                (Some(known), Some(entry)) => drop(known.insert(object, entry)),
                (Some(known), None) => drop(known.remove(&object)),
                (None, _) => {}
            },
            Event::Gone(object) => drop(known.as_mut().and_then(|known| known.remove(&object))),
            Event::Stale(..) | Event::Fresh => {}
        }
    }
}

/// An entry; one of another shape gives nothing.
fn read<T: for<'de> Deserialize<'de>>(entry: &Value) -> Option<T> {
    T::deserialize(entry).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refusal(code: BrokerCode) -> Refusal {
    Refusal { code: code.reason().code.into(), outage: code != BrokerCode::NameNotAccepted }
}

impl Authority for Broker {
    async fn verify(&self, username: &str, password: &Zeroizing<Vec<u8>>) -> Result<String, Refusal> {
        let name = Upn::in_realm(username, self.kerberos.realm()).map_err(|_| refusal(BrokerCode::NameNotAccepted))?;
        match self.kerberos.verify_password(&name, password).await {
            Ok(verified) => Ok(verified.upn().as_str().to_owned()),
            Err(why) => Err(Refusal { code: why.code().as_str().into(), outage: why.is_outage() }),
        }
    }

    async fn grants(&self, principal: &str) -> Result<Grants, Refusal> {
        let name: Upn = principal.parse().map_err(|_| refusal(BrokerCode::NameNotAccepted))?;
        let list = match self.keeper.list_of(&name) {
            Some(Ok(list)) => list,
            // Nobody here, or not any more: nothing is granted.
            Some(Err(_)) => return Ok(Grants::default()),
            None => return Err(refusal(BrokerCode::ClassesUnknown)),
        };
        let entries = lock(&self.entries);
        let (Some(templates), Some(addresses)) = (&entries.templates, &entries.addresses) else {
            return Err(refusal(BrokerCode::TemplatesUnknown));
        };
        let mut grants = Vec::new();
        for line in list.iter() {
            let Some(template) = templates.get(&line.permission) else { continue };
            let address = addresses.get(&line.target);
            let group = address.and_then(|address| address.group_id.as_deref());
            let node = address.and_then(|address| address.node_id.as_deref());
            let (given, refused) = expand(template, Address { group, node });
            if !refused.is_empty() {
                tracing::debug!(%name, permission = %line.permission, target = %line.target, ?refused, "Topics that are not given");
            }
            grants.extend(given);
        }
        Ok(Grants(grants))
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("keeper", &self.keeper).finish_non_exhaustive()
    }
}

//! Clusters: made, waited for, looked at.

use std::collections::BTreeMap;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::cluster::{Registration, Status};
use latchkey_factory_plus::manager::{Cluster, Phase};
use latchkey_factory_plus::uuids::{application, class};
use latchkey_factory_plus_client::{Auth, CallError, ConfigDb, Precondition};
use latchkey_test_support::{block_on, until, within};
use serde_json::{Value, json};

use super::{ADMIN, ROOT, Rig};

impl Rig {
    /// Makes a cluster's object.
    pub(crate) fn object(&self) -> Uuid {
        // The configuration database hears of what the operator may from auth, a moment after both started.
        let object =
            until("the operator to be let in", || match block_on(self.db().create_object(class::EDGE_CLUSTER, None)) {
                Ok((_, object)) => Some(object),
                Err(CallError::Forbidden { .. }) => None,
                Err(error) => panic!("no object: {error}"),
            });
        object.uuid
    }

    /// Makes a cluster's object, and writes its configuration.
    pub(crate) fn configure(&self, name: &str) -> Uuid {
        let object = self.object();
        self.write(object, &self.configuration(name));
        object
    }

    pub(crate) fn configuration(&self, name: &str) -> Value {
        json!({"chart": self.local.cluster_chart, "name": name, "namespace": "fplus-edge"})
    }

    pub(crate) fn write(&self, cluster: Uuid, configuration: &Value) {
        let app = application::EDGE_CLUSTER_CONFIGURATION;
        block_on(self.db().put_entry(app, cluster, configuration, &Precondition::None)).unwrap();
    }

    pub(crate) fn delete(&self, cluster: Uuid) {
        let app = application::EDGE_CLUSTER_CONFIGURATION;
        assert!(block_on(self.db().delete_entry(app, cluster, &Precondition::None)).unwrap());
    }

    /// Deletes a configuration that somebody else may have deleted meanwhile.
    pub(crate) fn delete_if_there(&self, cluster: Uuid) {
        let app = application::EDGE_CLUSTER_CONFIGURATION;
        block_on(self.db().delete_entry(app, cluster, &Precondition::None)).unwrap();
    }

    /// Has everything of a deleted cluster removed.
    pub(crate) fn decommission(&self, cluster: Uuid) {
        self.ask_to_decommission(cluster);
        self.is_gone(cluster);
    }

    /// The same, and does not wait.
    pub(crate) fn ask_to_decommission(&self, cluster: Uuid) {
        let path = format!("v1/cluster/{cluster}/decommission");
        block_on(self.service(ADMIN).post_only(&path, &json!({}))).unwrap();
    }

    /// Waits until nothing is known of it.
    pub(crate) fn is_gone(&self, cluster: Uuid) {
        self.until("its end", |all| (!all.contains_key(&cluster)).then_some(()));
    }

    /// Follows the clusters until `wanted` says so.
    pub(crate) fn until<T>(&self, what: &str, wanted: impl Fn(&BTreeMap<Uuid, Cluster>) -> Option<T>) -> T {
        let mut search = self.service(ADMIN).notify().search("v1/cluster/", None);
        block_on(within(what.to_owned(), async {
            loop {
                search.next().await;
                let Some(children) = search.children() else { continue };
                let read = |value: &Value| serde_json::from_value(value.clone()).unwrap();
                let clusters = children.iter().map(|(uuid, value)| (*uuid, read(value))).collect();
                if let Some(found) = wanted(&clusters) {
                    return found;
                }
            }
        }))
    }

    pub(crate) fn until_phase(&self, cluster: Uuid, phase: Phase) -> Cluster {
        self.until(&format!("{phase:?}"), |all| all.get(&cluster).filter(|view| view.phase == phase).cloned())
    }

    /// A cluster that is set up.
    pub(crate) fn ready(&self, name: &str) -> Uuid {
        let cluster = self.configure(name);
        self.until_phase(cluster, Phase::Ready);
        cluster
    }

    /// What the edge says of itself, as the set-up would write it.
    pub(crate) fn report(&self, cluster: Uuid, status: &Status) {
        let app = application::EDGE_CLUSTER_STATUS;
        let root = ConfigDb::of(&self.as_user(ROOT));
        block_on(root.put_entry(app, cluster, status, &Precondition::None)).unwrap();
    }

    /// Which machine registered a cluster, as the enrol service writes it.
    pub(crate) fn register(&self, cluster: Uuid, record: &Registration) {
        let app = application::EDGE_CLUSTER_REGISTRATION;
        let root = ConfigDb::of(&self.as_user(ROOT));
        block_on(root.put_entry(app, cluster, record, &Precondition::None)).unwrap();
    }

    /// A file or directory of the manager's, for looking at what it leaves behind.
    pub(crate) fn left_in_work(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("work")).unwrap().count()
    }

    /// The accounts of a role.
    pub(crate) fn members(&self, class: Uuid) -> Vec<Uuid> {
        block_on(ConfigDb::of(&self.as_user(ROOT)).members(class)).unwrap().unwrap_or_default()
    }

    /// Whose a principal is.
    pub(crate) fn identity(&self, principal: &str) -> Option<Uuid> {
        block_on(Auth::of(&self.as_user(ROOT)).identity(&principal.parse().unwrap())).unwrap()
    }

    pub(crate) fn entry(&self, app: Uuid, object: Uuid) -> Option<Value> {
        let root = ConfigDb::of(&self.as_user(ROOT));
        block_on(root.entry(app, object)).unwrap().map(|(entry, _)| entry)
    }
}

//! All clusters of a centre.

use std::collections::BTreeMap;

use latchkey_factory_plus::Uuid;
use serde_json::Value;

use super::{Event, Machine, Moment, Names, Order, Site};

/// One machine for each cluster, and the names that they hold.
#[derive(Debug)]
pub struct Fleet {
    site: Site,
    names: Names,
    machines: BTreeMap<Uuid, Machine>,
    /// No id up to here is given again: a timer of a machine that is gone may still run out.
    last_id: u64,
}

/// What an event leads to.
#[derive(Debug, Default, PartialEq)]
pub struct FleetOrder {
    /// Effects for the cluster that the event was about.
    pub orders: Vec<Order>,
    /// Clusters that are to be told [`Event::Again`], each with a [`Moment`] of its own: a name that they want may be
    /// free, or held for another reason.
    pub again: Vec<Uuid>,
}

impl Fleet {
    /// A fleet without clusters.
    pub const fn new(site: Site, names: Names) -> Self {
        Self { site, names, machines: BTreeMap::new(), last_id: 0 }
    }

    /// Takes up a cluster whose setup status is stored, also anew when one that could not be read was mended. Every
    /// stored status is taken up before any event is handled: so a cluster that was first stays first.
    pub fn restore(&mut self, cluster: Uuid, stored: &Value) {
        let machine = Machine::new(cluster, Some(stored), self.last_id);
        if let Some(name) = machine.name() {
            self.names.claim(cluster, name, machine.held_until(&self.site));
        }
        self.machines.insert(cluster, machine);
    }

    /// Takes up that somebody deleted a stored status that could not be read. Then tell the cluster its configuration.
    pub fn lost(&mut self, cluster: Uuid) {
        let unreadable = self.machines.get(&cluster).is_some_and(|machine| machine.unreadable().is_some());
        if unreadable && let Some(machine) = self.machines.remove(&cluster) {
            self.last_id = self.last_id.max(machine.last_id());
            self.names.release(cluster, None);
        }
    }

    /// Takes an event about a cluster.
    pub fn handle(&mut self, cluster: Uuid, moment: &Moment, event: Event) -> FleetOrder {
        let machine = self.machines.entry(cluster).or_insert_with(|| Machine::new(cluster, None, self.last_id));
        let orders = machine.handle(moment, event, &self.site, &self.names);
        let mut changed = self.names.release(cluster, machine.name());
        if let Some(name) = machine.name() {
            changed |= self.names.claim(cluster, name, machine.held_until(&self.site));
        }
        if machine.is_gone() {
            self.last_id = self.last_id.max(machine.last_id());
            self.machines.remove(&cluster);
        }
        FleetOrder { orders, again: if changed { self.waiting() } else { vec![] } }
    }

    /// The machine of a cluster.
    pub fn machine(&self, cluster: Uuid) -> Option<&Machine> {
        self.machines.get(&cluster)
    }

    /// When the name of a cluster that was decommissioned is free: milliseconds since 1970.
    pub fn held_until(&self, cluster: Uuid) -> Option<u64> {
        self.machine(cluster)?.held_until(&self.site)
    }

    /// All machines, by cluster.
    pub fn machines(&self) -> impl Iterator<Item = (Uuid, &Machine)> {
        self.machines.iter().map(|(cluster, machine)| (*cluster, machine))
    }

    /// The names that are taken.
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// Takes up a changed set-up of the site. Nothing that runs ends; then tell every cluster [`Event::Refresh`].
    pub fn set_site(&mut self, site: Site) {
        self.site = site;
    }

    /// Takes up other names of the site (realm, hosts, principals); those of clusters stay. Then tell the clusters
    /// that this gives [`Event::Again`].
    pub fn set_names(&mut self, names: Names) -> Vec<Uuid> {
        self.names = names.with_clusters_of(&self.names);
        self.waiting()
    }

    fn waiting(&self) -> Vec<Uuid> {
        let waiting = self.machines.iter().filter(|(_, machine)| machine.wants_taken_name());
        waiting.map(|(cluster, _)| *cluster).collect()
    }
}

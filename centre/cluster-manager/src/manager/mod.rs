//! Runs the machines: what the configuration database says goes in, what they order is carried out.

mod follow;
mod setup;
mod view;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use event_listener::EventListener;
use latchkey_factory_plus::cluster::{Registration, Status};
use latchkey_factory_plus::manager::Cluster;
use latchkey_factory_plus::{ClusterName, Realm, Uuid};
use serde_json::Value;

use crate::keeper::now_ms;
use crate::machine::{
    Answer, DecommissionError, Effect, Event, Fleet, Machine, Moment, NameRefusal, Names, Order, RANDOM_BYTES,
    SetupStatus, Site, World as _,
};
use crate::world::Centre;
pub use setup::Charts;

/// Carries one effect out in at most this time: longer than whatever it does by itself.
const DEADLINE: Duration = Duration::from_mins(5);

/// What is the same for all clusters of a site, from this service's configuration.
#[derive(Debug, Clone)]
pub struct Place {
    /// The Kerberos realm.
    pub realm: Realm,
    /// What Sparkplug groups begin with.
    pub organisation: String,
    /// The git server's base URL as edges know it.
    pub git: String,
    /// Names of the centre's hosts: no cluster is called so.
    pub hosts: Vec<String>,
    /// How long nobody gets the name of a cluster that was decommissioned, in milliseconds.
    pub names_held_ms: u64,
}

/// All clusters of a centre, and what is done about them. Clones are one.
#[derive(Debug, Clone)]
pub struct Manager(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Place,
    centre: Centre,
    state: Mutex<State>,
    changed: event_listener::Event,
    done: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// None before the site's set-up is known and every stored status was taken up.
    fleet: Option<Fleet>,
    /// Whether the configurations were read.
    ready: bool,
    configurations: BTreeMap<Uuid, Value>,
    edges: BTreeMap<Uuid, Arc<Status>>,
    registrations: BTreeMap<Uuid, Registration>,
    charts: Charts,
    /// The repository with the edge's Helm charts.
    helm: Option<Uuid>,
}

/// A cluster as links and secrets need it.
#[derive(Debug, Clone)]
pub struct Known {
    /// How far it is set up.
    pub status: Option<SetupStatus>,
    /// What its edge says.
    pub edge: Option<Arc<Status>>,
}

impl Manager {
    /// Of a centre. It does nothing before [`Self::follow`].
    pub fn new(place: Place, centre: Centre) -> Self {
        let (state, changed) = (Mutex::default(), event_listener::Event::new());
        Self(Arc::new(Inner { place, centre, state, changed, done: AtomicU64::new(0), failed: AtomicU64::new(0) }))
    }

    /// The services that effects are carried out at.
    pub fn centre(&self) -> &Centre {
        &self.0.centre
    }

    /// What is the same for all clusters.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// Whether all clusters are known.
    pub fn is_ready(&self) -> bool {
        self.state().ready
    }

    /// What the page deploys: the site's charts.
    pub fn charts(&self) -> Charts {
        self.state().charts
    }

    /// The repository with the edge's Helm charts.
    pub fn helm(&self) -> Option<Uuid> {
        self.state().helm
    }

    /// Wakes after the next change of any cluster.
    pub fn changed(&self) -> EventListener {
        self.0.changed.listen()
    }

    /// Effects that were done, and those that were not.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.done.load(Relaxed), self.0.failed.load(Relaxed))
    }

    /// Every cluster that `may` is told of, as people see it.
    pub fn clusters(&self, may: impl Fn(Uuid) -> bool) -> BTreeMap<Uuid, Cluster> {
        let all: Vec<Uuid> = {
            let state = self.state();
            let Some(fleet) = &state.fleet else { return BTreeMap::new() };
            fleet.machines().map(|(cluster, _)| cluster).filter(|cluster| may(*cluster)).collect()
        };
        all.into_iter().filter_map(|cluster| Some((cluster, self.cluster(cluster)?))).collect()
    }

    /// One of them.
    pub fn cluster(&self, cluster: Uuid) -> Option<Cluster> {
        // Before the state is locked: redeeming asks for the state while it holds the links.
        let theft = self.0.centre.keeper.theft(cluster);
        view::of(&self.state(), &self.0.place, cluster, theft)
    }

    /// Tells whoever follows the clusters that something of their links has changed.
    pub(crate) fn links_changed(&self) {
        self.0.changed.notify(usize::MAX);
    }

    /// A cluster, if there is something of it.
    pub fn known(&self, cluster: Uuid) -> Option<Known> {
        let state = self.state();
        let machine = state.fleet.as_ref()?.machine(cluster)?;
        Some(Known { status: machine.status().cloned(), edge: state.edges.get(&cluster).cloned() })
    }

    /// Why a new cluster cannot be called so, if that is so.
    pub fn name_refusal(&self, name: &ClusterName) -> Option<NameRefusal> {
        self.state().fleet.as_ref()?.names().refusal_of_new(name)
    }

    /// Whether a cluster is set up.
    pub fn is_set_up(&self, cluster: Uuid) -> bool {
        let state = self.state();
        let machine = state.fleet.as_ref().and_then(|fleet| fleet.machine(cluster));
        machine.and_then(|machine| machine.status()).is_some_and(|status| status.ready)
    }

    /// Begins to remove everything of a deleted cluster.
    ///
    /// # Errors
    /// [`DecommissionError`].
    pub fn decommission(&self, cluster: Uuid) -> Result<(), DecommissionError> {
        {
            let state = self.state();
            let machine = state.fleet.as_ref().and_then(|fleet| fleet.machine(cluster));
            machine.ok_or(DecommissionError::Nothing)?.may_decommission()?;
        }
        self.tell(cluster, Event::Decommission);
        Ok(())
    }

    /// Waits until a decommissioning that was asked for is recorded, or done: it goes on then whatever becomes of this process.
    pub async fn decommissioning(&self, cluster: Uuid) {
        loop {
            let changed = self.changed();
            let recorded = {
                let state = self.state();
                let machine = state.fleet.as_ref().and_then(|fleet| fleet.machine(cluster));
                machine.is_none_or(Machine::is_decommissioning)
            };
            if recorded {
                return;
            }
            changed.await;
        }
    }

    /// Tells a machine what happened, and begins what it orders.
    fn tell(&self, cluster: Uuid, event: Event) {
        let mut orders = vec![];
        {
            let mut state = self.state();
            let Some(fleet) = &mut state.fleet else { return };
            let mut events = VecDeque::from([(cluster, event)]);
            while let Some((cluster, event)) = events.pop_front() {
                let ordered = fleet.handle(cluster, &moment(), event);
                orders.extend(ordered.orders.into_iter().map(|order| (cluster, order)));
                events.extend(ordered.again.into_iter().map(|waiting| (waiting, Event::Again)));
            }
        }
        self.0.changed.notify(usize::MAX);
        for (cluster, order) in orders {
            self.begin(cluster, order);
        }
    }

    /// The same of all machines.
    fn tell_all(&self, event: &Event) {
        let all: Vec<Uuid> = {
            let state = self.state();
            state.fleet.iter().flat_map(Fleet::machines).map(|(cluster, _)| cluster).collect()
        };
        for cluster in all {
            self.tell(cluster, event.clone());
        }
    }

    /// Carries an order out beside everything else, and tells its machine.
    fn begin(&self, cluster: Uuid, Order { id, effect }: Order) {
        let (centre, inner) = (self.0.centre.clone(), Arc::downgrade(&self.0));
        let carrying_out = async move {
            let event = if let Effect::SetTimer { after_ms } = effect {
                smol::Timer::after(Duration::from_millis(after_ms)).await;
                Event::Timer { id }
            } else {
                let answer = within(centre.carry_out(cluster, &effect)).await;
                if let Answer::Refused { .. } | Answer::Unreachable(_) = &answer {
                    tracing::warn!(%cluster, effect = %effect.purpose(), ?answer, "An effect was not done");
                }
                Event::Answer { id, answer }
            };
            if let Some(inner) = inner.upgrade() {
                let manager = Self(inner);
                manager.count(&event);
                manager.tell(cluster, event);
            }
        };
        smol::spawn(carrying_out).detach();
    }

    fn count(&self, event: &Event) {
        if let Event::Answer { answer, .. } = event {
            let good = matches!(answer, Answer::Done | Answer::Templates(_));
            let counter = if good { &self.0.done } else { &self.0.failed };
            counter.fetch_add(1, Relaxed);
        }
    }

    fn site(&self, classes: crate::machine::Classes, helm: Uuid) -> Site {
        let Place { realm, organisation, git, names_held_ms, .. } = &self.0.place;
        let repositories = crate::manifests::Repositories { git: git.clone(), helm };
        let (realm, prefix, names_held_ms) = (realm.clone(), organisation.clone(), *names_held_ms);
        Site { realm, prefix, classes, repositories, names_held_ms }
    }

    /// The names that no cluster has, besides those of others.
    fn names(&self, components: &[String]) -> Names {
        let Place { realm, hosts, .. } = &self.0.place;
        Names::new(realm, hosts.iter().map(String::as_str), components.iter().map(String::as_str))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn within(carrying_out: impl Future<Output = Answer>) -> Answer {
    let late = async {
        smol::Timer::after(DEADLINE).await;
        Answer::Unreachable(format!("not done within {} s", DEADLINE.as_secs()))
    };
    smol::future::or(carrying_out, late).await
}

/// Now, with random bytes: of UUIDs, which are mostly that, and are made to UUIDs again.
fn moment() -> Moment {
    let mut random = [0; RANDOM_BYTES];
    for part in random.chunks_mut(16) {
        part.copy_from_slice(&Uuid::random().as_bytes()[..part.len()]);
    }
    Moment { now: now_ms(), random }
}

//! Members of classes and owners of objects, followed at the configuration database.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use latchkey_factory_plus::{Uuid, uuids};
use serde::Deserialize as _;
use serde_json::Value;
use smol::Task;
use smol::future::FutureExt as _;

use crate::Client;
use crate::notify::{Event, Notify, Reading, Search, State, Watch};

/// What is known at one moment. Clones of the [`Arc`] stay as they are.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Of each class that is followed.
    classes: BTreeMap<Uuid, Class>,
    owners: Arc<BTreeMap<Uuid, Uuid>>,
    owners_known: bool,
    owners_stale: Option<(Instant, Arc<str>)>,
}

/// One class.
#[derive(Debug, Clone, Default)]
struct Class {
    members: Option<Arc<BTreeSet<Uuid>>>,
    stale: Option<(Instant, Arc<str>)>,
}

impl Snapshot {
    /// The members of a class, also through its subclasses; `None` while they are not known. A class that the database does
    /// not know has none.
    pub fn members(&self, class: Uuid) -> Option<&BTreeSet<Uuid>> {
        self.classes.get(&class)?.members.as_deref()
    }

    /// The classes that are followed.
    pub fn classes(&self) -> impl Iterator<Item = Uuid> {
        self.classes.keys().copied()
    }

    /// The principal that owns an object.
    pub fn owner(&self, object: Uuid) -> Option<Uuid> {
        self.owners.get(&object).copied()
    }

    /// All objects that are owned, and by whom.
    pub fn owners(&self) -> &BTreeMap<Uuid, Uuid> {
        &self.owners
    }

    /// The objects that a principal owns.
    pub fn owned_by(&self, principal: Uuid) -> impl Iterator<Item = Uuid> {
        self.owners.iter().filter(move |(_, owner)| **owner == principal).map(|(object, _)| *object)
    }

    /// Whether the members of all classes and all owners were heard once.
    pub fn is_complete(&self) -> bool {
        self.owners_known && self.classes.values().all(|class| class.members.is_some())
    }

    /// Whether all of it is up to date; since when the oldest part is not.
    pub fn state(&self) -> State {
        let stale = self.classes.values().filter_map(|class| class.stale.as_ref()).chain(&self.owners_stale);
        match stale.min_by_key(|(since, _)| *since) {
            Some((since, reason)) => State::Stale { since: *since, reason: Arc::clone(reason) },
            None if self.is_complete() => State::Fresh,
            None => State::Waiting,
        }
    }
}

/// Follows classes and owners. Clones are one.
#[derive(Clone)]
pub struct Follower(Arc<Inner>);

struct Inner {
    notify: Notify,
    shared: Arc<Shared>,
    /// What follows each class; ends with it.
    classes: Mutex<BTreeMap<Uuid, Task<()>>>,
    _owners: Task<()>,
}

#[derive(Default)]
struct Shared {
    snapshot: Mutex<Arc<Snapshot>>,
    changed: event_listener::Event,
}

impl Follower {
    /// At the configuration database of a client's centre; owners at once, classes as soon as [`Follower::follow`] names them.
    pub fn new(client: &Client) -> Self {
        let notify = client.service(uuids::service::CONFIG_DB).notify();
        let shared = Arc::new(Shared::default());
        let parent = format!("v2/app/{}/object/", uuids::application::REGISTRATION);
        let search = notify.search_reduced(&parent, None, owner_alone);
        let owners = smol::spawn(follow_owners(search, Arc::clone(&shared)));
        Self(Arc::new(Inner { notify, shared, classes: Mutex::default(), _owners: owners }))
    }

    /// Follows these classes and no others.
    pub fn follow(&self, classes: &BTreeSet<Uuid>) {
        let mut followed = lock(&self.0.classes);
        if followed.keys().eq(classes) {
            return;
        }
        followed.retain(|class, _| classes.contains(class));
        self.0.shared.change(|snapshot| {
            snapshot.classes.retain(|class, _| classes.contains(class));
            for class in classes {
                snapshot.classes.entry(*class).or_default();
            }
        });
        for class in classes {
            followed.entry(*class).or_insert_with(|| {
                let watch = self.0.notify.watch(&format!("v2/class/{class}/member/"));
                smol::spawn(follow_class(*class, watch, Arc::clone(&self.0.shared)))
            });
        }
    }

    /// What is known now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.0.shared.snapshot))
    }

    /// What is known as soon as it is another snapshot than `old`.
    pub async fn changed(&self, old: &Arc<Snapshot>) -> Arc<Snapshot> {
        loop {
            let changed = self.0.shared.changed.listen();
            let now = self.snapshot();
            if !Arc::ptr_eq(&now, old) {
                return now;
            }
            changed.await;
        }
    }

    /// What is known once all of it was heard.
    pub async fn complete(&self) -> Arc<Snapshot> {
        let mut now = self.snapshot();
        while !now.is_complete() {
            now = self.changed(&now).await;
        }
        now
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Follower(of {} classes)", lock(&self.0.classes).len())
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = lock(&self.snapshot);
        let mut next = Snapshot::clone(&snapshot);
        change(&mut next);
        *snapshot = Arc::new(next);
        drop(snapshot);
        self.changed.notify(usize::MAX);
    }
}

async fn follow_class(class: Uuid, mut watch: Watch, shared: Arc<Shared>) {
    loop {
        watch.changed().await;
        let (_, state, reading) = watch.heard();
        let told = reading.map(|reading| members(&reading));
        shared.change(|snapshot| {
            // Who does not follow it any more removed it.
            let Some(known) = snapshot.classes.get_mut(&class) else { return };
            known.stale = match (state, &told) {
                (State::Stale { since, reason }, _) => Some((since, reason)),
                (_, Some(Err(why))) => Some((Instant::now(), format!("class {class}: {why}").into())),
                _ => None,
            };
            if let Some(Ok(members)) = told {
                known.members = Some(Arc::new(members));
            }
        });
    }
}

fn members(reading: &Reading) -> Result<BTreeSet<Uuid>, String> {
    match (reading.status, &reading.body) {
        (200..=299, Some(body)) => {
            BTreeSet::deserialize(&**body).map_err(|error| format!("no list of members: {error}"))
        }
        (404, _) => Ok(BTreeSet::new()),
        (status, _) => Err(format!("the configuration database answers {status} for its members")),
    }
}

/// Of an object's registration, who owns it: the rest would take most of the memory.
fn owner_alone(mut registration: Value) -> Value {
    registration.get_mut("owner").map(Value::take).unwrap_or_default()
}

async fn follow_owners(mut search: Search, shared: Arc<Shared>) {
    loop {
        let mut events = vec![search.next().await];
        // What came together is one snapshot.
        while let Some(event) = async { Some(search.next().await) }.or(std::future::ready(None)).await {
            events.push(event);
        }
        shared.change(|snapshot| events.into_iter().for_each(|event| take(snapshot, event)));
    }
}

fn take(snapshot: &mut Snapshot, event: Event) {
    match event {
        Event::Complete(children) => {
            let owners = children.iter().filter_map(|(object, owner)| Some((*object, uuid(owner)?)));
            snapshot.owners = Arc::new(owners.collect());
            (snapshot.owners_known, snapshot.owners_stale) = (true, None);
        }
        Event::Set(object, owner) => match uuid(&owner) {
            Some(owner) => drop(Arc::make_mut(&mut snapshot.owners).insert(object, owner)),
            None => drop(Arc::make_mut(&mut snapshot.owners).remove(&object)),
        },
        Event::Gone(object) => drop(Arc::make_mut(&mut snapshot.owners).remove(&object)),
        Event::Stale(since, reason) => snapshot.owners_stale = Some((since, reason)),
        Event::Fresh => snapshot.owners_stale = None,
    }
}

fn uuid(owner: &Value) -> Option<Uuid> {
    owner.as_str()?.parse().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_complete_or_fresh_before_all_was_heard() {
        let mut snapshot = Snapshot::default();
        let (class, object, owner) = (Uuid::random(), Uuid::random(), Uuid::random());
        assert_eq!((snapshot.is_complete(), snapshot.state()), (false, State::Waiting));
        let told = BTreeMap::from([(object, Arc::new(serde_json::json!(owner)))]);
        take(&mut snapshot, Event::Complete(told));
        assert_eq!((snapshot.owner(object), snapshot.state()), (Some(owner), State::Fresh));
        snapshot.classes.insert(class, Class::default());
        assert_eq!((snapshot.is_complete(), snapshot.members(class)), (false, None));
        let since = Instant::now();
        take(&mut snapshot, Event::Stale(since, "gone".into()));
        assert_eq!(snapshot.state(), State::Stale { since, reason: "gone".into() });
        assert_eq!(snapshot.owned_by(owner).collect::<Vec<_>>(), [object], "what was heard last stays");
        take(&mut snapshot, Event::Fresh);
        take(&mut snapshot, Event::Gone(object));
        assert_eq!((snapshot.owner(object), snapshot.state()), (None, State::Waiting));
    }
}

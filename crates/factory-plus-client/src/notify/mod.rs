//! Change notification: what a service would answer, now and after each change.
//!
//! One WebSocket per service carries many subscriptions. A subscription never ends by itself: what is lost or refused is asked for
//! again with jittered back-off, and its [`State`] says since when it does not follow and why. What is kept for a reader who
//! does not read is bounded by what there is, since a change of the same thing takes the place of the one before.

mod assembly;
mod session;
mod subscription;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use latchkey_factory_plus::Uuid;
use serde_json::Value;
use smol::Task;

use assembly::Assembly;
pub use assembly::Change;
use subscription::{Known, Subscription, Want};
use table::Table;

use crate::{Etag, Service};

/// The children of a search.
pub type Children = BTreeMap<Uuid, Arc<Value>>;

/// Whether a subscription is up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing was heard yet, and nothing failed.
    Waiting,
    /// Changes are told as they happen.
    Fresh,
    /// What was heard last is kept; it may be over.
    Stale {
        /// Since when.
        since: Instant,
        /// Why, and of which service.
        reason: Arc<str>,
    },
}

/// What a service said last of what is watched.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The status that a GET would have.
    pub status: u16,
    /// Its body.
    pub body: Option<Arc<Value>>,
    /// Its version, where it is said.
    pub etag: Option<Etag>,
}

/// What a search tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// All children there are, once, as soon as they are known. The search is fresh then.
    Complete(Children),
    /// A child came or changed.
    Set(Uuid, Arc<Value>),
    /// A child is gone.
    Gone(Uuid),
    /// The search does not follow: since when, and why.
    Stale(Instant, Arc<str>),
    /// It follows again, and everything that changed meanwhile was told.
    Fresh,
}

/// A service's change notification. It ends with the last handle, subscriptions included.
#[derive(Clone)]
pub struct Notify(Arc<Running>);

struct Running {
    table: Arc<Table>,
    /// Ends with this.
    _session: Task<()>,
}

/// A [`Notify`] that does not keep it.
pub(crate) struct WeakNotify(Weak<Running>);

impl WeakNotify {
    pub(crate) fn upgrade(&self) -> Option<Notify> {
        self.0.upgrade().map(Notify)
    }
}

impl Notify {
    pub(crate) fn start(service: Service) -> Self {
        let table = Arc::new(Table::new(service.limits().clone()));
        let session = smol::spawn(session::follow(service, Arc::clone(&table)));
        Self(Arc::new(Running { table, _session: session }))
    }

    pub(crate) fn downgrade(&self) -> WeakNotify {
        WeakNotify(Arc::downgrade(&self.0))
    }

    /// Follows one resource: a path from the service's root, such as `v2/app/A/object/O`.
    pub fn watch(&self, path: &str) -> Watch {
        Watch { handle: self.subscribe(Want::Watch { url: path.to_owned() }), seen: 0 }
    }

    /// Follows everything directly below `parent`, which ends in `/`, whose bodies have what `filter` says: a merge patch that
    /// would change nothing (RFC 7396).
    pub fn search(&self, parent: &str, filter: Option<Value>) -> Search {
        self.search_reduced(parent, filter, |body| body)
    }

    /// The same; of each body only what `reduce` leaves is kept.
    pub fn search_reduced(&self, parent: &str, filter: Option<Value>, reduce: fn(Value) -> Value) -> Search {
        let want = Want::Search { parent: parent.to_owned(), filter, reduce };
        Search { handle: self.subscribe(want), complete: false, stale: None }
    }

    fn subscribe(&self, want: Want) -> Handle {
        Handle { subscription: self.0.table.add(want), notify: self.clone() }
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notify(..)")
    }
}

/// One subscription; ends it when dropped.
#[derive(Debug)]
struct Handle {
    subscription: Arc<Subscription>,
    notify: Notify,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.notify.0.table.remove(self.subscription.id());
    }
}

/// One resource that is followed.
#[derive(Debug)]
pub struct Watch {
    handle: Handle,
    seen: u64,
}

impl Watch {
    /// Waits until something was heard that this has not returned for: a value, or another state. Several changes in a row may
    /// be one.
    pub async fn changed(&mut self) {
        self.seen = self.after(self.seen).await;
    }

    /// Whether it is up to date.
    pub fn state(&self) -> State {
        self.handle.subscription.look(|known| known.state.clone())
    }

    /// What was heard last.
    pub fn reading(&self) -> Option<Reading> {
        self.handle.subscription.look(|known| known.reading().cloned())
    }

    /// Both, and the number of what was heard.
    pub(crate) fn heard(&self) -> (u64, State, Option<Reading>) {
        self.handle.subscription.look(|known| (known.number, known.state.clone(), known.reading().cloned()))
    }

    /// Waits until more was heard than number `seen`; which number that is.
    pub(crate) async fn after(&self, seen: u64) -> u64 {
        self.handle.subscription.wait(|known| (known.number > seen).then_some(known.number)).await
    }
}

/// Many resources that are followed.
#[derive(Debug)]
pub struct Search {
    handle: Handle,
    /// What the reader was told.
    complete: bool,
    stale: Option<Instant>,
}

impl Search {
    /// What comes next. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Event {
        let Self { handle, complete, stale } = self;
        handle.subscription.wait(|known| next(known, complete, stale)).await
    }

    /// Whether it is up to date.
    pub fn state(&self) -> State {
        self.handle.subscription.look(|known| known.state.clone())
    }

    /// All children, as they were heard last; `None` until they were heard once.
    pub fn children(&self) -> Option<Children> {
        self.handle.subscription.look(|known| known.assembly().and_then(Assembly::children))
    }
}

/// What a search's reader is told next, who was told of `complete` and of being stale since `told` already.
fn next(known: &mut Known, complete: &mut bool, told: &mut Option<Instant>) -> Option<Event> {
    let state = known.state.clone();
    if let State::Stale { since, reason } = &state
        && *told != Some(*since)
    {
        *told = Some(*since);
        return Some(Event::Stale(*since, Arc::clone(reason)));
    }
    let assembly = known.assembly_mut()?;
    if !*complete {
        let children = (state == State::Fresh).then(|| assembly.begin()).flatten()?;
        (*complete, *told) = (true, None);
        return Some(Event::Complete(children));
    }
    match assembly.next() {
        Some(Change::Set(child, body)) => Some(Event::Set(child, body)),
        Some(Change::Gone(child)) => Some(Event::Gone(child)),
        None if state == State::Fresh && told.take().is_some() => Some(Event::Fresh),
        None => None,
    }
}

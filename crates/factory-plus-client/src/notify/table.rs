//! The subscriptions that are wanted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::subscription::{Subscription, Want};
use crate::Limits;

/// The subscriptions that are wanted of one service. Who speaks to it compares them with those it asked for.
#[derive(Debug)]
pub(crate) struct Table {
    limits: Limits,
    wanted: Mutex<Wanted>,
    changed: event_listener::Event,
}

#[derive(Debug, Default)]
struct Wanted {
    by_id: BTreeMap<u64, Arc<Subscription>>,
    next: u64,
    /// Counts changes.
    version: u64,
}

impl Table {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, wanted: Mutex::default(), changed: event_listener::Event::new() }
    }

    /// A new subscription. One too many says so, and is asked for as soon as another one is gone.
    pub(crate) fn add(&self, want: Want) -> Arc<Subscription> {
        let mut wanted = self.lock();
        wanted.next += 1;
        wanted.version += 1;
        let subscription = Arc::new(Subscription::new(wanted.next, want, &self.limits));
        wanted.by_id.insert(subscription.id(), Arc::clone(&subscription));
        let full = wanted.by_id.len() > self.limits.subscriptions;
        drop(wanted);
        if full {
            let most = self.limits.subscriptions;
            subscription.stale(&format!("not asked yet: more than {most} subscriptions of one service"));
        }
        self.changed.notify(usize::MAX);
        subscription
    }

    pub(crate) fn remove(&self, id: u64) {
        let mut wanted = self.lock();
        if wanted.by_id.remove(&id).is_some() {
            wanted.version += 1;
            drop(wanted);
            self.changed.notify(usize::MAX);
        }
    }

    /// Those that are to be asked for: the oldest, as many as there may be.
    pub(crate) fn all(&self) -> Vec<Arc<Subscription>> {
        self.lock().by_id.values().take(self.limits.subscriptions).cloned().collect()
    }

    /// Another number after each change.
    pub(crate) fn version(&self) -> u64 {
        self.lock().version
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().by_id.is_empty()
    }

    pub(crate) fn wants(&self, id: u64) -> bool {
        self.lock().by_id.contains_key(&id)
    }

    /// Wakes when something was added or removed after this call.
    pub(crate) fn changed(&self) -> event_listener::EventListener {
        self.changed.listen()
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

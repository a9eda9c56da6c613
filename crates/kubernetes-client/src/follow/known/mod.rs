//! What a follower knows, as the watch told of it. No I/O.

use crate::error::{ApiCode, ApiError};
use kube::Resource;
use kube::runtime::watcher::Event;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where an object is: its namespace, empty for objects without one, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace; empty where it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Whether what is known is up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing was listed yet, and nothing failed.
    Waiting,
    /// Changes are told as they happen.
    Fresh,
    /// It is not: why. What was known last is kept.
    Stale(ApiError),
}

/// What is known.
#[derive(Debug)]
pub(super) struct Known<T> {
    pub(super) objects: Arc<BTreeMap<Key, Arc<T>>>,
    /// What a listing that is under way has, and whether there is more than fits.
    listing: BTreeMap<Key, Arc<T>>,
    left_out_now: bool,
    pub(super) listed: bool,
    /// Whether there were more than fit, since the last listing.
    pub(super) left_out: bool,
    pub(super) standing: Standing,
    /// Counts what was told.
    pub(super) number: u64,
}

impl<T: PartialEq> Known<T> {
    pub(super) fn new() -> Self {
        Self {
            objects: Arc::default(),
            listing: BTreeMap::new(),
            left_out_now: false,
            listed: false,
            left_out: false,
            standing: Standing::Waiting,
            number: 0,
        }
    }

    /// Takes an event over; whether there is something to tell.
    pub(super) fn take<K: Resource>(
        &mut self,
        about: &str,
        most: usize,
        event: Event<K>,
        keep: &impl Fn(K) -> Option<T>,
    ) -> bool {
        let changed = match event {
            Event::Init => {
                self.listing = BTreeMap::new();
                self.left_out_now = false;
                false
            }
            Event::InitApply(object) => {
                let key = key_of(&object);
                if let Some(value) = keep(object) {
                    self.list(key, value, most);
                }
                false
            }
            Event::InitDone => {
                let listing = std::mem::take(&mut self.listing);
                self.left_out = self.left_out_now;
                let changed = !self.listed || *self.objects != listing;
                (self.objects, self.listed) = (Arc::new(listing), true);
                self.number += u64::from(changed);
                // After a failure it is seen first whether the watch goes on.
                return matches!(self.standing, Standing::Waiting) && self.go_on(about, most) || changed;
            }
            Event::Apply(object) => {
                let key = key_of(&object);
                match keep(object) {
                    Some(value) => self.set(key, value, most),
                    None => self.remove(&key),
                }
            }
            Event::Delete(object) => self.remove(&key_of(&object)),
        };
        self.number += u64::from(changed);
        // Where one has no room from now on, that is said.
        (self.standing == Standing::Fresh && self.go_on(about, most)) || changed
    }

    fn list(&mut self, key: Key, value: T, most: usize) {
        if self.listing.len() >= most {
            self.left_out_now = true;
            return;
        }
        // One that did not change stays the same allocation.
        let before = self.objects.get(&key).filter(|before| ***before == value);
        let value = before.map_or_else(|| Arc::new(value), Arc::clone);
        self.listing.insert(key, value);
    }

    fn set(&mut self, key: Key, value: T, most: usize) -> bool {
        let is_full = self.objects.len() >= most;
        match self.objects.get(&key) {
            Some(before) if **before == value => return false,
            None if is_full => {
                self.left_out = true;
                return false;
            }
            _ => {}
        }
        Arc::make_mut(&mut self.objects).insert(key, Arc::new(value));
        true
    }

    fn remove(&mut self, key: &Key) -> bool {
        self.objects.contains_key(key) && Arc::make_mut(&mut self.objects).remove(key).is_some()
    }

    /// It is followed; whether that is news.
    pub(super) fn go_on(&mut self, about: &str, most: usize) -> bool {
        let standing = if self.left_out {
            let detail = format!("there are more than {most}; the rest is left out");
            Standing::Stale(ApiError::new(about, ApiCode::TooManyObjects, &detail))
        } else {
            Standing::Fresh
        };
        self.stand(about, standing)
    }

    /// How it does; whether that is news. Said in the log once.
    pub(super) fn stand(&mut self, about: &str, standing: Standing) -> bool {
        if self.standing == standing {
            return false;
        }
        match &standing {
            Standing::Stale(error) => {
                tracing::error!(%error, "What is known of the API server's objects is not up to date");
            }
            _ if self.standing != Standing::Waiting => {
                tracing::info!(about, "The API server's objects are followed again");
            }
            _ => {}
        }
        self.standing = standing;
        self.number += 1;
        true
    }
}

fn key_of<K: Resource>(object: &K) -> Key {
    let metadata = object.meta();
    Key { namespace: metadata.namespace.clone().unwrap_or_default(), name: metadata.name.clone().unwrap_or_default() }
}

#[cfg(test)]
mod tests;

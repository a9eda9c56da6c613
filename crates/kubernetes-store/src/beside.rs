//! What is written beside the decisions, for people. It waits for nothing, nobody waits for it, and there is only so much of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// What has not been written yet: of each key the newest.
#[derive(Debug)]
pub(crate) struct Beside<K, V> {
    most: usize,
    waiting: Mutex<Waiting<K, V>>,
    more: Notify,
}

#[derive(Debug)]
struct Waiting<K, V> {
    values: BTreeMap<K, V>,
    /// The keys of `values`, those that wait longest first.
    order: VecDeque<K>,
}

impl<K: Ord + Clone, V> Beside<K, V> {
    /// Nothing waits, and never more than `most` will.
    pub(crate) fn new(most: usize) -> Self {
        let waiting = Waiting { values: BTreeMap::new(), order: VecDeque::new() };
        Self { most, waiting: Mutex::new(waiting), more: Notify::new() }
    }

    /// Has this written later; `merge` makes one of what waits for the same key and this. Where too much waits, it is left out.
    pub(crate) fn put(&self, key: K, value: V, merge: impl FnOnce(V, V) -> V) {
        let mut waiting = self.waiting();
        let value = match waiting.values.remove(&key) {
            Some(before) => merge(before, value),
            None if waiting.values.len() >= self.most => return,
            None => {
                waiting.order.push_back(key.clone());
                value
            }
        };
        waiting.values.insert(key, value);
        drop(waiting);
        self.more.notify_one();
    }

    /// What waits longest, when there is something.
    pub(crate) async fn next(&self) -> (K, V) {
        loop {
            // Told of once, however much is put meanwhile: so what is there is taken first.
            if let Some(next) = self.take() {
                return next;
            }
            self.more.notified().await;
        }
    }

    /// The same, if there is something now.
    pub(crate) fn take(&self) -> Option<(K, V)> {
        let mut waiting = self.waiting();
        let key = waiting.order.pop_front()?;
        waiting.values.remove_entry(&key)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<K, V>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ticks for what is written so often at most.
pub(crate) fn pace(per_second: u32) -> Interval {
    let mut pace = interval(Duration::from_secs(1) / per_second);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_key_one_value_waits_and_of_keys_only_so_many() {
        let beside = Beside::new(2);
        for (key, value) in [("a", 1), ("b", 2), ("a", 4), ("c", 8)] {
            beside.put(key, value, |before, value| before + value);
        }
        assert_eq!([beside.take(), beside.take(), beside.take()], [Some(("a", 5)), Some(("b", 2)), None]);
        beside.put("c", 8, |before, _| before);
        assert_eq!(beside.take(), Some(("c", 8)));
    }
}

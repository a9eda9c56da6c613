//! What is known by the hash of a secret, for a time: bounded, the oldest goes first.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// SHA-256, keyed or not.
pub(crate) type Hash = [u8; 32];

#[derive(Debug)]
pub(crate) struct Bounded<V> {
    entries: HashMap<Hash, Entry<V>>,
    /// In the order of arrival. What was removed meanwhile is skipped: the number tells it from a later one with the same hash.
    order: VecDeque<(Hash, u64)>,
    next: u64,
    capacity: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    until: Instant,
    number: u64,
}

impl<V> Bounded<V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new(), next: 0, capacity }
    }

    /// What is known by `hash` at `now`, and until when.
    pub(crate) fn find(&self, hash: &Hash, now: Instant) -> Option<(&V, Instant)> {
        self.entries.get(hash).filter(|entry| now < entry.until).map(|entry| (&entry.value, entry.until))
    }

    /// Adds one. Where there is no room, the oldest goes: given back.
    pub(crate) fn insert(&mut self, hash: Hash, value: V, until: Instant, now: Instant) -> Vec<V> {
        let mut gone = self.make_room(now);
        let number = self.next;
        self.next += 1;
        gone.extend(self.entries.insert(hash, Entry { value, until, number }).map(|entry| entry.value));
        self.order.push_back((hash, number));
        gone
    }

    pub(crate) fn remove(&mut self, hash: &Hash) -> Option<V> {
        self.entries.remove(hash).map(|entry| entry.value)
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes off the front what is over or removed, and then whatever is there while the queue is full.
    fn make_room(&mut self, now: Instant) -> Vec<V> {
        let mut gone = Vec::new();
        while let Some((hash, number)) = self.order.front() {
            let current = self.entries.get(hash).filter(|entry| entry.number == *number);
            if current.is_some_and(|entry| now < entry.until) && self.order.len() < self.capacity {
                break;
            }
            if current.is_some() {
                gone.extend(self.entries.remove(hash).map(|entry| entry.value));
            }
            self.order.pop_front();
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn hash(n: u8) -> Hash {
        [n; 32]
    }

    #[test]
    fn the_oldest_gives_way_and_what_is_over_is_not_found() {
        let (mut bounded, now) = (Bounded::new(2), Instant::now());
        let later = now + Duration::from_secs(1);
        assert!(bounded.insert(hash(1), 1, later, now).is_empty());
        assert!(bounded.insert(hash(2), 2, later, now).is_empty());
        assert_eq!(bounded.insert(hash(3), 3, later, now), [1]);
        assert_eq!((bounded.find(&hash(1), now), bounded.find(&hash(3), now)), (None, Some((&3, later))));
        assert_eq!(bounded.find(&hash(3), later), None);
        assert_eq!(bounded.insert(hash(4), 4, later + Duration::from_secs(1), later), [2, 3], "over, and forgotten");
        assert_eq!(bounded.len(), 1);
    }

    #[test]
    fn what_is_put_in_again_is_as_young_as_its_last_time() {
        let (mut bounded, now) = (Bounded::new(3), Instant::now());
        let later = now + Duration::from_secs(1);
        for n in [1, 2, 1] {
            bounded.insert(hash(n), n, later, now);
        }
        assert!(bounded.insert(hash(3), 3, later, now).is_empty(), "the first place of 1 was empty");
        assert_eq!(bounded.insert(hash(4), 4, later, now), [2]);
    }
}

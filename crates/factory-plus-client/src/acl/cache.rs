//! What is kept while it is used: bounded, the one used longest ago goes first. No clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use latchkey_factory_plus::Upn;

/// What is kept by UPN.
#[derive(Debug)]
pub(super) struct Cache<T> {
    most: usize,
    unused: Duration,
    /// With when it was used last.
    kept: BTreeMap<Upn, (Arc<T>, Instant)>,
}

impl<T> Cache<T> {
    /// At least one is kept.
    pub(super) fn new(most: usize, unused: Duration) -> Self {
        Self { most: most.max(1), unused, kept: BTreeMap::new() }
    }

    /// What is kept of `upn`, or made now.
    pub(super) fn of(&mut self, upn: &Upn, now: Instant, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some((kept, used)) = self.kept.get_mut(upn) {
            *used = now;
            return Arc::clone(kept);
        }
        if self.kept.len() >= self.most {
            let oldest = self.kept.iter().min_by_key(|(_, (_, used))| *used).map(|(upn, _)| upn.clone());
            oldest.map(|oldest| self.kept.remove(&oldest));
        }
        let new = Arc::new(make());
        self.kept.insert(upn.clone(), (Arc::clone(&new), now));
        new
    }

    /// Drops what was not used for long.
    pub(super) fn sweep(&mut self, now: Instant) {
        let unused = self.unused;
        self.kept.retain(|_, (_, used)| now.saturating_duration_since(*used) < unused);
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_used_longest_ago_gives_way_and_the_unused_go() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut cache = Cache::new(2, Duration::from_secs(10));
        let mut made = 0;
        let mut of = |cache: &mut Cache<u32>, name: &str, seconds| {
            *cache.of(&format!("{name}@R").parse().unwrap(), at(seconds), || {
                made += 1;
                made
            })
        };
        assert_eq!((of(&mut cache, "a", 0), of(&mut cache, "b", 1), of(&mut cache, "a", 2)), (1, 2, 1));
        // b was used longest ago.
        assert_eq!((of(&mut cache, "c", 3), of(&mut cache, "a", 4), of(&mut cache, "b", 5)), (3, 1, 4));
        assert_eq!(cache.len(), 2);
        cache.sweep(at(14));
        assert_eq!(cache.len(), 1, "a was used at 4, b at 5");
        cache.sweep(at(15));
        assert_eq!(cache.len(), 0);
    }
}

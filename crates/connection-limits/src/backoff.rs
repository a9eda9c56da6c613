//! Jittered back-off for everything that tries again: from half a second, doubling to a ceiling, never in step with the others.

/// Source: "everything polls with jittered back-off from 0.5 s" (ARCHITECTURE.md, the life of a node).
const FIRST_MS: u64 = 500;

/// The longest wait between two tries, in milliseconds, where no other is said.
const CEILING_MS: u64 = 15_000;

/// Yields waits in milliseconds; pure, so that tests can drive it.
#[derive(Debug, Clone)]
pub struct Backoff {
    ceiling: u64,
    next: u64,
    seed: u64,
}

impl Backoff {
    /// `seed` makes nodes that start together differ; it needs no quality.
    pub fn new(seed: u64) -> Self {
        Self { ceiling: CEILING_MS, next: FIRST_MS, seed: seed | 1 }
    }

    /// With another longest wait, in milliseconds; never shorter than the first.
    #[must_use]
    pub fn up_to(mut self, ceiling_ms: u64) -> Self {
        self.ceiling = ceiling_ms.max(FIRST_MS);
        self
    }

    /// The next wait: uniformly between half of the present bound and all of it.
    pub fn next_ms(&mut self) -> u64 {
        let bound = self.next;
        self.next = bound.saturating_mul(2).min(self.ceiling);
        // xorshift64 (Marsaglia 2003); spreads, and is not meant to hide anything.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        bound / 2 + self.seed % (bound / 2 + 1)
    }

    /// Something answered: begin again with short waits.
    pub fn reset(&mut self) {
        self.next = FIRST_MS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_from_half_a_second_to_the_ceiling_and_differ_between_nodes() {
        let waits = |seed| {
            let mut backoff = Backoff::new(seed);
            (0..10).map(|_| backoff.next_ms()).collect::<Vec<_>>()
        };
        for seed in [1, 7, u64::MAX] {
            let mut bound = FIRST_MS;
            for wait in waits(seed) {
                assert!(wait >= bound / 2 && wait <= bound, "{wait} outside {}..={bound}", bound / 2);
                bound = (bound * 2).min(CEILING_MS);
            }
        }
        assert_ne!(waits(3), waits(5));
    }

    #[test]
    fn a_longer_ceiling_is_reached_and_kept() {
        let mut backoff = Backoff::new(3).up_to(30_000);
        let waits: Vec<u64> = (0..20).map(|_| backoff.next_ms()).collect();
        assert!(
            waits.iter().all(|wait| *wait <= 30_000) && waits[10..].iter().all(|wait| *wait >= 15_000),
            "{waits:?}"
        );
    }

    #[test]
    fn an_answer_makes_the_waits_short_again() {
        let mut backoff = Backoff::new(9);
        (0..8).for_each(|_| {
            backoff.next_ms();
        });
        backoff.reset();
        assert!(backoff.next_ms() <= FIRST_MS);
    }
}

//! Token buckets, in integers: no drift, no clock of their own.

use std::time::Duration;

/// One token, in the bucket's own units: tokens per minute times milliseconds.
const TOKEN: u64 = 60_000;

/// Lets through `burst` at once and `per_minute` in the long run.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    per_minute: u64,
    capacity: u64,
    level: u64,
    filled_until: Duration,
}

impl TokenBucket {
    pub(crate) fn new(per_minute: u32, burst: u32) -> Self {
        let capacity = u64::from(burst) * TOKEN;
        Self { per_minute: per_minute.into(), capacity, level: capacity, filled_until: Duration::ZERO }
    }

    /// Takes one token, if there is one at `now` (time since any fixed moment). Time that runs backwards adds nothing.
    pub(crate) fn take(&mut self, now: Duration) -> bool {
        let elapsed = now.saturating_sub(self.filled_until).as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        // Only whole milliseconds are credited; the rest counts next time.
        self.filled_until = self.filled_until.saturating_add(Duration::from_millis(elapsed));
        self.level = self.level.saturating_add(elapsed.saturating_mul(self.per_minute)).min(self.capacity);
        match self.level.checked_sub(TOKEN) {
            Some(rest) => {
                self.level = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn after_the_burst_the_rate_counts() {
        let mut bucket = TokenBucket::new(60, 3);
        let second = Duration::from_secs(1);
        assert_eq!([(); 4].map(|()| bucket.take(second)), [true, true, true, false]);
        assert!(!bucket.take(second + Duration::from_millis(999)));
        assert!(bucket.take(second * 2));
        assert!(!bucket.take(second), "time that runs backwards gives nothing");
    }

    proptest! {
        #[test]
        fn never_more_than_burst_plus_rate(per_minute in 1..2000_u32, burst in 1..50_u32, steps in prop::collection::vec(0..5_000_000_u64, 1..200)) {
            let mut bucket = TokenBucket::new(per_minute, burst);
            let mut now = Duration::ZERO;
            let mut taken = 0_u64;
            for step in steps {
                now += Duration::from_micros(step);
                taken += u64::from(bucket.take(now));
            }
            let earned = u64::try_from(now.as_micros()).unwrap() * u64::from(per_minute) / 60_000_000;
            prop_assert!(taken <= u64::from(burst) + earned);
        }
    }
}

//! Token buckets, in integers: no drift, no clock of their own.

use crate::slots::network_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// One token, in the bucket's own units: tokens per minute times milliseconds.
const TOKEN: u64 = 60_000;

/// Lets through `burst` at once and `per_minute` in the long run.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_minute: u64,
    capacity: u64,
    level: u64,
    filled_until: Duration,
}

impl TokenBucket {
    /// Full at first.
    pub fn new(per_minute: u32, burst: u32) -> Self {
        let capacity = u64::from(burst) * TOKEN;
        Self { per_minute: per_minute.into(), capacity, level: capacity, filled_until: Duration::ZERO }
    }

    fn is_full(&self, now: Duration) -> bool {
        let elapsed = u64::try_from(now.saturating_sub(self.filled_until).as_millis()).unwrap_or(u64::MAX);
        self.level.saturating_add(elapsed.saturating_mul(self.per_minute)) >= self.capacity
    }

    /// Takes one token, if there is one at `now` (time since any fixed moment). Time that runs backwards adds nothing.
    pub fn take(&mut self, now: Duration) -> bool {
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

/// A bucket for each peer. An IPv6 peer is the /64 its host chooses addresses from. Bounded: a peer that has been quiet
/// for long enough to have a full bucket is forgotten, and while the table is full, new peers share one bucket.
#[derive(Debug)]
pub struct PeerRates {
    fresh: TokenBucket,
    strangers: TokenBucket,
    peers: HashMap<IpAddr, TokenBucket>,
    swept: Option<Duration>,
}

/// Peers with a bucket of their own: about 1 MiB.
const MAX_PEERS: usize = 16 * 1024;

/// Looking for quiet peers costs a walk through the table; a flood must not cause one per connection.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

impl PeerRates {
    /// Each peer may come `burst` times at once and `per_minute` times in the long run.
    pub fn new(per_minute: u32, burst: u32) -> Self {
        let fresh = TokenBucket::new(per_minute, burst);
        Self { strangers: fresh.clone(), fresh, peers: HashMap::new(), swept: None }
    }

    /// Takes one token of this peer's bucket, if there is one at `now` (time since any fixed moment).
    pub fn take(&mut self, address: IpAddr, now: Duration) -> bool {
        let peer = network_of(address);
        if self.peers.len() >= MAX_PEERS && !self.peers.contains_key(&peer) {
            self.sweep(now);
            if self.peers.len() >= MAX_PEERS {
                return self.strangers.take(now);
            }
        }
        self.peers.entry(peer).or_insert_with(|| self.fresh.clone()).take(now)
    }

    fn sweep(&mut self, now: Duration) {
        if self.swept.is_none_or(|last| now.saturating_sub(last) >= SWEEP_INTERVAL) {
            self.swept = Some(now);
            self.peers.retain(|_, bucket| !bucket.is_full(now));
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

    #[test]
    fn a_flood_from_everywhere_neither_grows_the_table_nor_locks_out_those_who_were_there() {
        let mut rates = PeerRates::new(60, 2);
        let known: IpAddr = "192.0.2.1".parse().unwrap();
        assert!(rates.take(known, Duration::ZERO));
        let admitted = (0..100_000_u32).filter(|n| rates.take(IpAddr::from(n.to_be_bytes()), Duration::ZERO)).count();
        assert_eq!(admitted, MAX_PEERS - 1 + 2, "each place once, then what strangers share");
        assert_eq!(rates.peers.len(), MAX_PEERS);
        assert!(rates.take(known, Duration::ZERO));
        assert!(!rates.take(known, Duration::ZERO));
        let later = Duration::from_mins(1);
        assert!(rates.take("198.51.100.1".parse().unwrap(), later));
        assert_eq!(rates.peers.len(), 1, "quiet peers are forgotten");
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

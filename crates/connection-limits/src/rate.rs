//! Token buckets, in integers: no drift, no clock of their own.

use crate::PeerNetwork;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// One token, in the bucket's own units: tokens per minute times milliseconds.
const TOKEN: u64 = 60_000;

/// How often something may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// In the long run; at least 1.
    pub per_minute: u32,
    /// At once, after a pause.
    pub burst: u32,
}

impl Rate {
    /// So many times as much of both.
    #[must_use]
    pub const fn times(self, factor: u32) -> Self {
        Self { per_minute: self.per_minute.saturating_mul(factor), burst: self.burst.saturating_mul(factor) }
    }

    /// A part of both, at least 1.
    #[must_use]
    fn part(self, divisor: u32) -> Self {
        let part = |whole: u32| (whole / divisor).max(1);
        Self { per_minute: part(self.per_minute), burst: part(self.burst) }
    }
}

/// There is no token; the time until the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait(pub Duration);

/// Lets through a burst at once and a rate in the long run.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_minute: u64,
    capacity: u64,
    level: u64,
    filled_until: Duration,
}

impl TokenBucket {
    /// Full at first.
    pub fn new(rate: Rate) -> Self {
        let capacity = u64::from(rate.burst) * TOKEN;
        Self { per_minute: rate.per_minute.max(1).into(), capacity, level: capacity, filled_until: Duration::ZERO }
    }

    /// Takes one token, if there is one. Time that runs backwards adds nothing.
    ///
    /// # Errors
    /// [`Wait`].
    pub fn take(&mut self, now: Duration) -> Result<(), Wait> {
        self.look(now)?;
        self.level -= TOKEN;
        Ok(())
    }

    /// Whether there is a token.
    ///
    /// # Errors
    /// [`Wait`].
    pub fn look(&mut self, now: Duration) -> Result<(), Wait> {
        let elapsed = u64::try_from(now.saturating_sub(self.filled_until).as_millis()).unwrap_or(u64::MAX);
        // Only whole milliseconds are credited; the rest counts next time.
        self.filled_until = self.filled_until.saturating_add(Duration::from_millis(elapsed));
        self.level = self.level.saturating_add(elapsed.saturating_mul(self.per_minute)).min(self.capacity);
        match TOKEN.checked_sub(self.level) {
            None | Some(0) => Ok(()),
            Some(lacking) => {
                let filled = self.filled_until.saturating_add(Duration::from_millis(lacking.div_ceil(self.per_minute)));
                Err(Wait(filled.saturating_sub(now)))
            }
        }
    }

    /// Puts back a token that was taken and not used.
    pub fn give_back(&mut self) {
        self.level = self.level.saturating_add(TOKEN).min(self.capacity);
    }

    /// Whether it is as if nothing had ever been taken.
    pub fn is_full(&mut self, now: Duration) -> bool {
        // Looking fills it.
        let _ = self.look(now);
        self.level >= self.capacity
    }
}

/// A bucket for each host and each site, in two [`Rates`].
#[derive(Debug)]
pub struct PeerRates {
    hosts: Rates<PeerNetwork>,
    sites: Rates<PeerNetwork>,
}

/// What a site may, in hosts' rates: its hosts do not all come at the same time.
const SITE: u32 = 16;

impl PeerRates {
    /// Each host may come at `rate`, each site at 16 times that. At most `capacity` of each have buckets of their own.
    pub fn new(rate: Rate, capacity: usize) -> Self {
        Self { hosts: Rates::new(rate, capacity), sites: Rates::new(rate.times(SITE), capacity) }
    }

    /// Takes one token of this peer's.
    ///
    /// # Errors
    /// [`Wait`]. A host without tokens takes none of its site.
    pub fn take(&mut self, peer: PeerNetwork, now: Duration) -> Result<(), Wait> {
        // Looked at first: the hosts of a site that comes too often fill no table.
        self.sites.bucket(peer.site(), now).look(now)?;
        self.hosts.bucket(peer, now).take(now)?;
        self.sites.bucket(peer.site(), now).take(now)
    }

    /// Puts back a token of this peer's that was taken and not used.
    pub fn give_back(&mut self, peer: PeerNetwork, now: Duration) {
        self.hosts.bucket(peer, now).give_back();
        self.sites.bucket(peer.site(), now).give_back();
    }
}

/// A bucket for each of many. Bounded: who has been quiet for long enough to have a full bucket is forgotten, and while the table is
/// full, whoever is new shares one bucket.
#[derive(Debug)]
pub struct Rates<K> {
    fresh: TokenBucket,
    shared: TokenBucket,
    own: HashMap<K, TokenBucket>,
    capacity: usize,
    swept: Option<Duration>,
}

/// Looking for quiet peers costs a walk through the table; a flood must not cause one per connection.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

impl<K: Eq + Hash> Rates<K> {
    /// Each may come at `rate`. At most `capacity` have buckets of their own.
    pub fn new(rate: Rate, capacity: usize) -> Self {
        let fresh = TokenBucket::new(rate);
        Self { shared: fresh.clone(), fresh, own: HashMap::new(), capacity, swept: None }
    }

    /// Takes one token of this one's.
    ///
    /// # Errors
    /// [`Wait`].
    pub fn take(&mut self, whose: K, now: Duration) -> Result<(), Wait> {
        self.bucket(whose, now).take(now)
    }

    fn bucket(&mut self, whose: K, now: Duration) -> &mut TokenBucket {
        if self.own.len() >= self.capacity && !self.own.contains_key(&whose) {
            self.sweep(now);
            if self.own.len() >= self.capacity {
                return &mut self.shared;
            }
        }
        self.own.entry(whose).or_insert_with(|| self.fresh.clone())
    }

    fn sweep(&mut self, now: Duration) {
        if self.swept.is_none_or(|last| now.saturating_sub(last) >= SWEEP_INTERVAL) {
            self.swept = Some(now);
            self.own.retain(|_, bucket| !bucket.is_full(now));
        }
    }
}

/// What everybody shares, with a part that is only for known peers: strangers cannot use up what those need.
#[derive(Debug)]
pub struct SharedRate {
    all: TokenBucket,
    known: TokenBucket,
}

impl SharedRate {
    /// Strangers and known peers at `rate` together, and a quarter of it more for the known.
    pub fn new(rate: Rate) -> Self {
        Self { all: TokenBucket::new(rate), known: TokenBucket::new(rate.part(4)) }
    }

    /// Takes one token.
    ///
    /// # Errors
    /// [`Wait`].
    pub fn take(&mut self, known: bool, now: Duration) -> Result<(), Wait> {
        let taken = self.all.take(now);
        if !known || taken.is_ok() {
            return taken;
        }
        self.known.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::IpAddr;

    const SECOND: Duration = Duration::from_secs(1);

    fn bucket(per_minute: u32, burst: u32) -> TokenBucket {
        TokenBucket::new(Rate { per_minute, burst })
    }

    fn peer(text: &str) -> PeerNetwork {
        PeerNetwork::of(text.parse().unwrap())
    }

    #[test]
    fn after_the_burst_the_rate_counts() {
        let mut bucket = bucket(60, 3);
        assert_eq!([(); 4].map(|()| bucket.take(SECOND).is_ok()), [true, true, true, false]);
        assert_eq!(bucket.take(SECOND + Duration::from_millis(999)), Err(Wait(Duration::from_millis(1))));
        assert!(bucket.take(SECOND * 2).is_ok());
        assert!(bucket.take(SECOND).is_err(), "time that runs backwards gives nothing");
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_fills_nothing_beyond_the_burst() {
        let mut rates = PeerRates::new(Rate { per_minute: 1, burst: 2 }, 10);
        let one = peer("192.0.2.1");
        for _ in 0..100 {
            rates.take(one, SECOND).unwrap();
            rates.give_back(one, SECOND);
        }
        rates.give_back(one, SECOND);
        assert_eq!([(); 3].map(|()| rates.take(one, SECOND).is_ok()), [true, true, false]);
    }

    #[test]
    fn a_flood_from_everywhere_neither_grows_the_table_nor_locks_out_those_who_were_there() {
        let capacity = 1000;
        let mut rates = PeerRates::new(Rate { per_minute: 60, burst: 2 }, capacity);
        let known = peer("192.0.2.1");
        assert!(rates.take(known, Duration::ZERO).is_ok());
        let stranger = |n: u32| PeerNetwork::of(IpAddr::from((n << 8).to_be_bytes()));
        let admitted = (0..10_000).filter(|n| rates.take(stranger(*n), Duration::ZERO).is_ok()).count();
        assert_eq!(admitted, capacity - 1 + 2, "each place once, then what strangers share");
        assert_eq!((rates.hosts.own.len(), rates.sites.own.len()), (capacity, capacity));
        assert!(rates.take(known, Duration::ZERO).is_ok());
        assert!(rates.take(known, Duration::ZERO).is_err());
        let later = Duration::from_mins(1);
        assert!(rates.take(peer("198.51.100.1"), later).is_ok());
        assert_eq!(rates.hosts.own.len(), 1, "quiet peers are forgotten");
    }

    #[test]
    fn many_hosts_of_one_site_come_no_more_often_than_their_site_may() {
        let mut rates = PeerRates::new(Rate { per_minute: 60, burst: 2 }, 10_000);
        let host = |n: u128| PeerNetwork::of(IpAddr::from((0x2001_0db8_0001_u128 << 80 | n << 64).to_be_bytes()));
        let admitted = (0..5000).filter(|n| rates.take(host(*n), SECOND).is_ok()).count();
        assert_eq!(admitted, 2 * SITE as usize);
        assert!(rates.hosts.own.len() <= admitted, "hosts that are turned away with their site are not remembered");
        assert!(rates.take(peer("2001:db8:2::1"), SECOND).is_ok());
    }

    #[test]
    fn strangers_do_not_use_up_what_is_for_the_known() {
        let mut rate = SharedRate::new(Rate { per_minute: 60, burst: 8 });
        let strangers = (0..100).filter(|_| rate.take(false, SECOND).is_ok()).count();
        let known = (0..100).filter(|_| rate.take(true, SECOND).is_ok()).count();
        assert_eq!((strangers, known), (8, 2));
    }

    proptest! {
        #[test]
        fn never_more_than_burst_plus_rate(
            per_minute in 1..2000_u32,
            burst in 1..50_u32,
            steps in prop::collection::vec(0..5_000_000_u64, 1..200),
        ) {
            let mut bucket = bucket(per_minute, burst);
            let mut now = Duration::ZERO;
            let mut taken = 0_u64;
            for step in steps {
                now += Duration::from_micros(step);
                taken += u64::from(bucket.take(now).is_ok());
            }
            let earned = u64::try_from(now.as_micros()).unwrap() * u64::from(per_minute) / 60_000_000;
            prop_assert!(taken <= u64::from(burst) + earned);
        }

        #[test]
        fn whoever_waits_as_long_as_it_is_told_gets_a_token(per_minute in 1..2000_u32, start in 0..10_000_000_u64) {
            let mut bucket = bucket(per_minute, 1);
            let now = Duration::from_micros(start);
            prop_assert!(bucket.take(now).is_ok());
            let Err(Wait(time)) = bucket.take(now) else { panic!("the burst is 1") };
            prop_assert!(time > Duration::ZERO && bucket.take(now + time).is_ok());
        }
    }
}

//! How often somebody may be wrong, before anything is asked of the KDC.
//!
//! Each attempt takes from the allowance of its network (a host, and its site) and of the user it names; one that turns out good
//! gives that back. A user whom strangers guess at all the time can still come from a network that he came from before: the
//! user's allowance is not asked for there.

use super::bounded::{Bounded, Hash};
use latchkey_connection_limits::{PeerNetwork, PeerRates, Rate, TokenBucket, Wait};
use latchkey_factory_plus::Upn;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Networks and users with an allowance of their own: some MiB.
const CAPACITY: usize = 16 * 1024;

/// For how long a network is known as one that a user comes from.
const KNOWN: Duration = Duration::from_hours(24);

/// How much more strangers together may try one user's name than one network may try anything.
const USER: u32 = 4;

#[derive(Debug)]
pub(crate) struct Attempts {
    started: Instant,
    fresh: TokenBucket,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    networks: PeerRates,
    users: HashMap<Upn, TokenBucket>,
    /// For users who have no allowance of their own since there are too many.
    others: TokenBucket,
    swept: Duration,
    known: Bounded<()>,
}

/// An attempt under way. Dropped, it was a wrong one.
#[must_use]
pub(crate) struct Attempt<'a> {
    attempts: &'a Attempts,
    network: PeerNetwork,
    user: Option<&'a Upn>,
    charged: bool,
}

impl Attempts {
    /// Each host may be wrong at `rate`, each site and each user some times as often.
    pub(crate) fn new(rate: Rate) -> Self {
        let fresh = TokenBucket::new(rate.times(USER));
        let state = State {
            networks: PeerRates::new(rate, CAPACITY),
            users: HashMap::new(),
            others: fresh.clone(),
            swept: Duration::ZERO,
            known: Bounded::new(CAPACITY),
        };
        Self { started: Instant::now(), fresh, state: Mutex::new(state) }
    }

    /// Begins an attempt from `address`; `user` is whom it names, where it names one.
    ///
    /// # Errors
    /// [`Wait`]: how long until the next may be made.
    pub(crate) fn begin<'a>(&'a self, address: IpAddr, user: Option<&'a Upn>) -> Result<Attempt<'a>, Wait> {
        let network = PeerNetwork::of(address);
        self.with(|state, now| {
            let known = user.is_some_and(|user| state.knows(network, user));
            let charged = user.filter(|_| !known);
            if let Some(user) = charged {
                state.bucket(user, &self.fresh, now).look(now)?;
            }
            state.networks.take(network, now)?;
            if let Some(user) = charged {
                state.bucket(user, &self.fresh, now).take(now)?;
            }
            Ok(Attempt { attempts: self, network, user, charged: charged.is_some() })
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, Duration) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), self.started.elapsed())
    }
}

impl Attempt<'_> {
    /// It was right.
    pub(crate) fn succeeded(self) {
        self.attempts.with(|state, _| {
            if let Some(user) = self.user {
                let now = Instant::now();
                state.known.insert(pair(self.network, user), (), now + KNOWN, now);
            }
        });
        self.unjudged();
    }

    /// Nobody could tell whether it was.
    pub(crate) fn unjudged(self) {
        let fresh = &self.attempts.fresh;
        self.attempts.with(|state, now| {
            state.networks.give_back(self.network, now);
            if let Some(user) = self.user.filter(|_| self.charged) {
                state.bucket(user, fresh, now).give_back();
            }
        });
    }
}

impl State {
    fn knows(&self, network: PeerNetwork, user: &Upn) -> bool {
        self.known.find(&pair(network, user), Instant::now()).is_some()
    }

    fn bucket(&mut self, user: &Upn, fresh: &TokenBucket, now: Duration) -> &mut TokenBucket {
        if self.users.len() >= CAPACITY && !self.users.contains_key(user) {
            // A walk through the table; a flood must not cause one per attempt.
            if now.saturating_sub(self.swept) >= Duration::from_secs(1) {
                self.swept = now;
                self.users.retain(|_, bucket| !bucket.is_full(now));
            }
            if self.users.len() >= CAPACITY {
                return &mut self.others;
            }
        }
        self.users.entry(user.clone()).or_insert_with(|| fresh.clone())
    }
}

fn pair(network: PeerNetwork, user: &Upn) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, format!("{network} {user}").as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_minute: 1, burst: 3 };

    fn wrong(attempts: &Attempts, address: &str, user: &Upn) -> usize {
        let address = address.parse().unwrap();
        (0..100).take_while(|_| attempts.begin(address, Some(user)).is_ok()).count()
    }

    #[test]
    fn a_network_is_wrong_a_few_times_and_right_for_ever() {
        let (attempts, user) = (Attempts::new(RATE), "a@R".parse::<Upn>().unwrap());
        let address = "192.0.2.1".parse().unwrap();
        for _ in 0..100 {
            attempts.begin(address, Some(&user)).unwrap().succeeded();
            attempts.begin(address, None).unwrap().unjudged();
        }
        assert_eq!(wrong(&attempts, "192.0.2.1", &user), 3);
        assert!(attempts.begin(address, None).is_err(), "whatever it tries");
        assert!(attempts.begin("198.51.100.1".parse().unwrap(), Some(&user)).is_ok());
    }

    #[test]
    fn strangers_who_guess_at_a_user_do_not_shut_him_out_where_he_is_known() {
        let (attempts, user) = (Attempts::new(RATE), "a@R".parse::<Upn>().unwrap());
        attempts.begin("192.0.2.1".parse().unwrap(), Some(&user)).unwrap().succeeded();
        let tried: usize = (0..50).map(|n| wrong(&attempts, &format!("198.51.{n}.1"), &user)).sum();
        assert_eq!(tried, 3 * USER as usize);
        assert!(attempts.begin("203.0.113.1".parse().unwrap(), Some(&user)).is_err());
        assert!(attempts.begin("192.0.2.1".parse().unwrap(), Some(&user)).is_ok());
        assert!(attempts.begin("203.0.113.1".parse().unwrap(), Some(&"b@R".parse().unwrap())).is_ok());
    }
}

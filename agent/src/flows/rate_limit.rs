//! How often somebody may try a secret: a few times at once, then one try per refill. Counted per network, so that a
//! stranger who guesses does not lock the operator out, and for all networks together, so that many strangers do not help.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// Where a peer comes from: an IPv4 address, or the IPv6 /64 that one host can have all of (RFC 4291, section 2.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerNetwork(IpAddr);

impl PeerNetwork {
    /// Of a peer's address.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(six) => Self(Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into()),
            four @ IpAddr::V4(_) => Self(four),
        }
    }
}

/// Tries at once and milliseconds until the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) burst: u32,
    pub(crate) refill_ms: u64,
}

/// All networks together get this many times what one of them gets.
const TOGETHER: u32 = 8;
/// Origins remembered. The one that was not seen for longest is forgotten; the budget of all bounds what that is worth.
const ORIGINS: usize = 64;

/// Counts tries.
pub(crate) struct RateLimits {
    rate: Rate,
    state: Mutex<State>,
}

struct State {
    together: TokenBucket,
    /// The latest seen last.
    networks: Vec<(PeerNetwork, TokenBucket)>,
}

/// No try is left; milliseconds until the next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) wait_ms: u64,
}

impl RateLimits {
    pub(crate) fn new(rate: Rate, now_ms: u64) -> Self {
        let together = TokenBucket::full(&together(rate), now_ms);
        Self { rate, state: Mutex::new(State { together, networks: Vec::new() }) }
    }

    /// Takes one try of `network`.
    pub(crate) fn spend(&self, network: PeerNetwork, now_ms: u64) -> Result<(), Spent> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.networks.iter().position(|(known, _)| *known == network);
        let mut own = known.map_or_else(|| TokenBucket::full(&self.rate, now_ms), |at| state.networks.remove(at).1);
        // An network without tries takes none from the others.
        let spent = own.spend(&self.rate, now_ms).and_then(|()| state.together.spend(&together(self.rate), now_ms));
        if state.networks.len() >= ORIGINS {
            state.networks.remove(0);
        }
        state.networks.push((network, own));
        spent
    }
}

fn together(rate: Rate) -> Rate {
    Rate { burst: rate.burst.saturating_mul(TOGETHER), refill_ms: (rate.refill_ms / u64::from(TOGETHER)).max(1) }
}

struct TokenBucket {
    tries: u32,
    refilled_ms: u64,
}

impl TokenBucket {
    fn full(rate: &Rate, now_ms: u64) -> Self {
        Self { tries: rate.burst, refilled_ms: now_ms }
    }

    fn spend(&mut self, rate: &Rate, now_ms: u64) -> Result<(), Spent> {
        let refills = now_ms.saturating_sub(self.refilled_ms) / rate.refill_ms;
        self.tries = self.tries.saturating_add(u32::try_from(refills).unwrap_or(rate.burst)).min(rate.burst);
        self.refilled_ms += refills * rate.refill_ms;
        if self.tries == 0 {
            return Err(Spent { wait_ms: (self.refilled_ms + rate.refill_ms).saturating_sub(now_ms) });
        }
        self.tries -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { burst: 3, refill_ms: 1000 };

    fn network(last: u8) -> PeerNetwork {
        PeerNetwork::of(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn a_stranger_who_guesses_does_not_lock_the_operator_out() {
        let budgets = RateLimits::new(RATE, 0);
        for _ in 0..100 {
            let _ = budgets.spend(network(66), 0);
        }
        assert_eq!(budgets.spend(network(66), 400), Err(Spent { wait_ms: 600 }));
        assert_eq!(budgets.spend(network(1), 400), Ok(()));
    }

    #[test]
    fn many_strangers_together_are_bounded_too() {
        let budgets = RateLimits::new(RATE, 0);
        let allowed = (0..=255).filter(|last| budgets.spend(network(*last), 0).is_ok()).count();
        assert_eq!(allowed, (RATE.burst * TOGETHER) as usize);
        assert!(budgets.state.lock().unwrap().networks.len() <= ORIGINS);
    }

    #[test]
    fn tries_come_back_one_per_refill_and_never_more_than_the_burst() {
        let budgets = RateLimits::new(RATE, 0);
        (0..3).for_each(|_| budgets.spend(network(1), 0).unwrap());
        assert!(budgets.spend(network(1), 999).is_err());
        assert!(budgets.spend(network(1), 1000).is_ok());
        assert!(budgets.spend(network(1), 1001).is_err());
        let late = (0..10).filter(|_| budgets.spend(network(1), 1_000_000).is_ok()).count();
        assert_eq!(late, 3);
    }

    #[test]
    fn a_host_with_a_whole_64_is_one_origin_and_a_mapped_address_is_its_ipv4() {
        let of = |text: &str| PeerNetwork::of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), network(1));
    }
}

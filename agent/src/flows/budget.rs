//! How often somebody may try a secret: a few times at once, then one try per refill. Counted per origin, so that a
//! stranger who guesses does not lock the operator out, and for all origins together, so that many strangers do not help.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// Where a peer comes from: an IPv4 address, or the IPv6 /64 that one host can have all of (RFC 4291, section 2.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(IpAddr);

impl Origin {
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

/// All origins together get this many times what one of them gets.
const TOGETHER: u32 = 8;
/// Origins remembered. The one that was not seen for longest is forgotten; the budget of all bounds what that is worth.
const ORIGINS: usize = 64;

/// Counts tries.
pub(crate) struct Budgets {
    rate: Rate,
    state: Mutex<State>,
}

struct State {
    together: Budget,
    /// The latest seen last.
    origins: Vec<(Origin, Budget)>,
}

/// No try is left; milliseconds until the next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) wait_ms: u64,
}

impl Budgets {
    pub(crate) fn new(rate: Rate, now_ms: u64) -> Self {
        let together = Budget::full(&together(rate), now_ms);
        Self { rate, state: Mutex::new(State { together, origins: Vec::new() }) }
    }

    /// Takes one try of `origin`.
    pub(crate) fn spend(&self, origin: Origin, now_ms: u64) -> Result<(), Spent> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.origins.iter().position(|(known, _)| *known == origin);
        let mut own = known.map_or_else(|| Budget::full(&self.rate, now_ms), |at| state.origins.remove(at).1);
        // An origin without tries takes none from the others.
        let spent = own.spend(&self.rate, now_ms).and_then(|()| state.together.spend(&together(self.rate), now_ms));
        if state.origins.len() >= ORIGINS {
            state.origins.remove(0);
        }
        state.origins.push((origin, own));
        spent
    }
}

fn together(rate: Rate) -> Rate {
    Rate { burst: rate.burst.saturating_mul(TOGETHER), refill_ms: (rate.refill_ms / u64::from(TOGETHER)).max(1) }
}

struct Budget {
    tries: u32,
    refilled_ms: u64,
}

impl Budget {
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

    fn origin(last: u8) -> Origin {
        Origin::of(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn a_stranger_who_guesses_does_not_lock_the_operator_out() {
        let budgets = Budgets::new(RATE, 0);
        for _ in 0..100 {
            let _ = budgets.spend(origin(66), 0);
        }
        assert_eq!(budgets.spend(origin(66), 400), Err(Spent { wait_ms: 600 }));
        assert_eq!(budgets.spend(origin(1), 400), Ok(()));
    }

    #[test]
    fn many_strangers_together_are_bounded_too() {
        let budgets = Budgets::new(RATE, 0);
        let allowed = (0..=255).filter(|last| budgets.spend(origin(*last), 0).is_ok()).count();
        assert_eq!(allowed, (RATE.burst * TOGETHER) as usize);
        assert!(budgets.state.lock().unwrap().origins.len() <= ORIGINS);
    }

    #[test]
    fn tries_come_back_one_per_refill_and_never_more_than_the_burst() {
        let budgets = Budgets::new(RATE, 0);
        (0..3).for_each(|_| budgets.spend(origin(1), 0).unwrap());
        assert!(budgets.spend(origin(1), 999).is_err());
        assert!(budgets.spend(origin(1), 1000).is_ok());
        assert!(budgets.spend(origin(1), 1001).is_err());
        let late = (0..10).filter(|_| budgets.spend(origin(1), 1_000_000).is_ok()).count();
        assert_eq!(late, 3);
    }

    #[test]
    fn a_host_with_a_whole_64_is_one_origin_and_a_mapped_address_is_its_ipv4() {
        let of = |text: &str| Origin::of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), origin(1));
    }
}

//! How often somebody may try a secret. Counted per network, so that a stranger who guesses does not lock the operator out,
//! and for all networks together, so that many strangers do not help.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use latchkey_connection_limits::{PeerNetwork, PeerRates, Rate, TokenBucket, Wait};

/// All networks together get this many times what one of them gets.
const TOGETHER: u32 = 8;
/// Networks with a rate of their own: about 100 KiB.
const NETWORKS: usize = 1024;

/// Counts tries.
pub(crate) struct Tries(Mutex<(PeerRates, TokenBucket)>);

impl Tries {
    /// One network may try at this rate.
    pub(crate) fn new(rate: Rate) -> Self {
        Self(Mutex::new((PeerRates::new(rate, NETWORKS), TokenBucket::new(rate.times(TOGETHER)))))
    }

    /// Takes one try of `network`. A network without tries takes none from the others.
    pub(crate) fn take(&self, network: PeerNetwork, now: Duration) -> Result<(), Wait> {
        let (networks, together) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        networks.take(network, now)?;
        together.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_minute: 60, burst: 3 };

    fn network(site: u8) -> PeerNetwork {
        PeerNetwork::of([192, 0, site, 1].into())
    }

    #[test]
    fn a_stranger_who_guesses_does_not_lock_the_operator_out() {
        let tries = Tries::new(RATE);
        for _ in 0..100 {
            let _ = tries.take(network(66), Duration::ZERO);
        }
        let later = Duration::from_millis(400);
        assert_eq!(tries.take(network(66), later), Err(Wait(Duration::from_millis(600))));
        assert_eq!(tries.take(network(1), later), Ok(()));
    }

    #[test]
    fn many_strangers_together_are_bounded_too() {
        let tries = Tries::new(RATE);
        let allowed = (0..=255).filter(|site| tries.take(network(*site), Duration::ZERO).is_ok()).count();
        assert_eq!(allowed, (RATE.burst * TOGETHER) as usize);
    }
}

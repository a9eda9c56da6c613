//! The init secret: whoever makes a node the first of a cluster must know it.
//!
//! Metadata holds only its bcrypt hash. Guessing is slowed by the hash and bounded by a budget ([`RATE`]).

use bcrypt::HashParts;

use super::rate_limit::{PeerNetwork, Rate, RateLimits, Spent};
use crate::platform::metadata::COSTS;

/// Of one network's tries.
const RATE: Rate = Rate { burst: 5, refill_ms: 10_000 };
/// bcrypt reads 72 bytes and no more; a longer secret would be cut silently.
const SECRET: std::ops::RangeInclusive<usize> = 16..=72;

/// Checks init secrets against one hash.
pub(crate) struct InitAuth {
    hash: String,
    budgets: RateLimits,
}

/// Why a try is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shut {
    /// Not the secret.
    WrongSecret,
    /// Too many tries; milliseconds until the next is allowed.
    TooManyTries {
        /// How long to wait.
        wait_ms: u64,
    },
    /// Not a secret by its length, whatever the hash.
    BadLength,
}

/// The proof that the peer knew the init secret. Only [`InitAuth::check`] makes it.
#[derive(Debug)]
pub(crate) struct KnowsInitSecret(());

/// The hash in metadata is unusable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadHash(pub String);

impl std::fmt::Display for BadHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the init secret's hash in metadata is unusable: {}; make one with `latchkey init-secret`", self.0)
    }
}

impl std::error::Error for BadHash {}

impl InitAuth {
    /// For a bcrypt hash in its usual text form.
    pub(crate) fn new(hash: &str, now_ms: u64) -> Result<Self, BadHash> {
        let parts: HashParts = hash.parse().map_err(|e: bcrypt::BcryptError| BadHash(e.to_string()))?;
        if !COSTS.contains(&parts.get_cost()) {
            let why = format!("its cost is {}, expected {} to {}", parts.get_cost(), COSTS.start(), COSTS.end());
            return Err(BadHash(why));
        }
        Ok(Self { hash: hash.into(), budgets: RateLimits::new(RATE, now_ms) })
    }

    /// The hash, for the hand-over.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// Checks one try. Blocks for as long as bcrypt takes; call it off the executor.
    pub(crate) fn check(&self, secret: &[u8], network: PeerNetwork, now_ms: u64) -> Result<KnowsInitSecret, Shut> {
        self.budgets.spend(network, now_ms).map_err(|Spent { wait_ms }| Shut::TooManyTries { wait_ms })?;
        if !SECRET.contains(&secret.len()) {
            return Err(Shut::BadLength);
        }
        match bcrypt::verify(secret, &self.hash) {
            Ok(true) => Ok(KnowsInitSecret(())),
            Ok(false) | Err(_) => Err(Shut::WrongSecret),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"an init secret of the test";

    fn me() -> PeerNetwork {
        PeerNetwork::of(std::net::Ipv4Addr::LOCALHOST.into())
    }

    fn init_auth() -> InitAuth {
        InitAuth::new(&bcrypt::hash(SECRET, 8).unwrap(), 0).unwrap()
    }

    #[test]
    fn the_right_secret_opens_and_a_wrong_or_short_one_does_not() {
        let init_auth = init_auth();
        assert!(init_auth.check(SECRET, me(), 0).is_ok());
        assert_eq!(init_auth.check(b"an init secret of a guess", me(), 0).unwrap_err(), Shut::WrongSecret);
        assert_eq!(init_auth.check(b"short", me(), 0).unwrap_err(), Shut::BadLength);
        assert_eq!(init_auth.check(&[b'a'; 73], me(), 0).unwrap_err(), Shut::BadLength);
    }

    #[test]
    fn guessing_is_bounded_even_when_the_guess_would_be_right() {
        let init_auth = init_auth();
        for _ in 0..RATE.burst {
            init_auth.check(b"short", me(), 1000).unwrap_err();
        }
        let wait_ms = RATE.refill_ms;
        assert_eq!(init_auth.check(SECRET, me(), 1000).unwrap_err(), Shut::TooManyTries { wait_ms });
        assert!(init_auth.check(SECRET, me(), 1000 + wait_ms).is_ok());
        assert_eq!(init_auth.check(SECRET, me(), 1000 + wait_ms).unwrap_err(), Shut::TooManyTries { wait_ms });
    }

    #[test]
    fn a_hash_that_is_no_bcrypt_or_too_cheap_or_too_dear_is_refused() {
        let hash = bcrypt::hash(SECRET, 4).unwrap();
        for bad in ["", "plain text", &hash, &hash.replace("$04$", "$31$")] {
            assert!(InitAuth::new(bad, 0).is_err(), "{bad}");
        }
    }
}

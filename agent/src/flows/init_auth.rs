//! The init secret: whoever makes a node the first of a cluster must know it.
//!
//! Metadata holds only its bcrypt hash. Guessing is slowed by the hash and bounded by a budget ([`RATE`]).

use std::time::Duration;

use bcrypt::HashParts;
use latchkey_connection_limits::{PeerNetwork, Rate, Wait};

use super::tries::Tries;
use crate::platform::metadata::COSTS;

/// Of one network's tries.
const RATE: Rate = Rate { per_minute: 6, burst: 5 };
/// bcrypt reads 72 bytes and no more; a longer secret would be cut silently.
const SECRET: std::ops::RangeInclusive<usize> = 16..=72;

/// Checks init secrets against one hash.
pub(crate) struct InitAuth {
    hash: String,
    tries: Tries,
}

/// Why a try is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InitSecretRefusal {
    /// Not the secret.
    WrongSecret,
    /// Too many tries; the time until the next is allowed.
    TooManyTries(Duration),
    /// Not a secret by its length, whatever the hash.
    BadLength,
}

/// The proof that the peer knew the init secret. Only [`InitAuth::check`] makes it.
#[derive(Debug)]
pub(crate) struct KnowsInitSecret(());

/// The hash in metadata is unusable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the init secret's hash in metadata is unusable: {0}")]
pub(crate) struct InitSecretHashError(pub String);

impl InitAuth {
    /// For a bcrypt hash in its usual text form.
    pub(crate) fn new(hash: &str) -> Result<Self, InitSecretHashError> {
        let parts: HashParts = hash.parse().map_err(|e: bcrypt::BcryptError| InitSecretHashError(e.to_string()))?;
        if !COSTS.contains(&parts.get_cost()) {
            let why = format!("its cost is {}, expected {} to {}", parts.get_cost(), COSTS.start(), COSTS.end());
            return Err(InitSecretHashError(why));
        }
        Ok(Self { hash: hash.into(), tries: Tries::new(RATE) })
    }

    /// The hash, for the hand-over.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// Checks one try. Blocks for as long as bcrypt takes; call it off the executor.
    pub(crate) fn check(
        &self,
        secret: &[u8],
        network: PeerNetwork,
        now: Duration,
    ) -> Result<KnowsInitSecret, InitSecretRefusal> {
        self.tries.take(network, now).map_err(|Wait(time)| InitSecretRefusal::TooManyTries(time))?;
        if !SECRET.contains(&secret.len()) {
            return Err(InitSecretRefusal::BadLength);
        }
        match bcrypt::verify(secret, &self.hash) {
            Ok(true) => Ok(KnowsInitSecret(())),
            Ok(false) | Err(_) => Err(InitSecretRefusal::WrongSecret),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SECRET: &[u8] = b"an init secret of the test";

    fn me() -> PeerNetwork {
        PeerNetwork::of(std::net::Ipv4Addr::LOCALHOST.into())
    }

    fn init_auth() -> InitAuth {
        InitAuth::new(&bcrypt::hash(SECRET, 8).unwrap()).unwrap()
    }

    #[test]
    fn the_right_secret_opens_and_a_wrong_or_short_one_does_not() {
        let init_auth = init_auth();
        assert!(init_auth.check(SECRET, me(), Duration::ZERO).is_ok());
        assert_eq!(
            init_auth.check(b"an init secret of a guess", me(), Duration::ZERO).unwrap_err(),
            InitSecretRefusal::WrongSecret
        );
        assert_eq!(init_auth.check(b"short", me(), Duration::ZERO).unwrap_err(), InitSecretRefusal::BadLength);
        assert_eq!(init_auth.check(&[b'a'; 73], me(), Duration::ZERO).unwrap_err(), InitSecretRefusal::BadLength);
    }

    #[test]
    fn guessing_is_bounded_even_when_the_guess_would_be_right() {
        let init_auth = init_auth();
        for _ in 0..RATE.burst {
            init_auth.check(b"short", me(), SECOND).unwrap_err();
        }
        let wait = Duration::from_secs(10);
        assert_eq!(init_auth.check(SECRET, me(), SECOND).unwrap_err(), InitSecretRefusal::TooManyTries(wait));
        assert!(init_auth.check(SECRET, me(), SECOND + wait).is_ok());
        assert_eq!(init_auth.check(SECRET, me(), SECOND + wait).unwrap_err(), InitSecretRefusal::TooManyTries(wait));
    }

    #[test]
    fn a_hash_that_is_no_bcrypt_or_too_cheap_or_too_dear_is_refused() {
        let hash = bcrypt::hash(SECRET, 4).unwrap();
        for bad in ["", "plain text", &hash, &hash.replace("$04$", "$31$")] {
            assert!(InitAuth::new(bad).is_err(), "{bad}");
        }
    }
}

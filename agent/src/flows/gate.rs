//! The init secret: whoever makes a node the first of a cluster must know it.
//!
//! Metadata holds only its bcrypt hash. Guessing is slowed by the hash and bounded by a budget: a few tries at once, then
//! one every [`REFILL_MS`].

use std::sync::Mutex;

use bcrypt::HashParts;
use zeroize::Zeroizing;

/// Tries that are allowed at once.
const BURST: u32 = 5;
/// Milliseconds until another try is allowed.
pub(crate) const REFILL_MS: u64 = 10_000;
/// Accepted cost of the hash: below it is too weak, above it a boot would take minutes.
const COST: std::ops::RangeInclusive<u32> = 8..=14;
/// bcrypt reads 72 bytes and no more; a longer secret would be cut silently.
const SECRET: std::ops::RangeInclusive<usize> = 16..=72;

/// Checks init secrets against one hash.
pub(crate) struct Gate {
    hash: String,
    budget: Mutex<Budget>,
}

struct Budget {
    tries: u32,
    refilled_ms: u64,
}

/// Why the gate stays shut.
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

/// The proof that the peer knew the init secret. Only [`Gate::check`] makes it.
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

impl Gate {
    /// A gate for a bcrypt hash in its usual text form.
    pub(crate) fn new(hash: &str, now_ms: u64) -> Result<Self, BadHash> {
        let parts: HashParts = hash.parse().map_err(|e: bcrypt::BcryptError| BadHash(e.to_string()))?;
        if !COST.contains(&parts.get_cost()) {
            let why = format!("its cost is {}, expected {} to {}", parts.get_cost(), COST.start(), COST.end());
            return Err(BadHash(why));
        }
        Ok(Self { hash: hash.into(), budget: Mutex::new(Budget { tries: BURST, refilled_ms: now_ms }) })
    }

    /// Checks one try. Blocks for as long as bcrypt takes; call it off the executor.
    pub(crate) fn check(&self, secret: &[u8], now_ms: u64) -> Result<KnowsInitSecret, Shut> {
        self.spend(now_ms)?;
        if !SECRET.contains(&secret.len()) {
            return Err(Shut::BadLength);
        }
        let secret = Zeroizing::new(secret.to_vec());
        match bcrypt::verify(&*secret, &self.hash) {
            Ok(true) => Ok(KnowsInitSecret(())),
            Ok(false) | Err(_) => Err(Shut::WrongSecret),
        }
    }

    fn spend(&self, now_ms: u64) -> Result<(), Shut> {
        let mut budget = self.budget.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let refills = now_ms.saturating_sub(budget.refilled_ms) / REFILL_MS;
        budget.tries = budget.tries.saturating_add(u32::try_from(refills).unwrap_or(BURST)).min(BURST);
        budget.refilled_ms += refills * REFILL_MS;
        if budget.tries == 0 {
            let wait_ms = (budget.refilled_ms + REFILL_MS).saturating_sub(now_ms);
            return Err(Shut::TooManyTries { wait_ms });
        }
        budget.tries -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"an init secret of the test";

    fn gate() -> Gate {
        Gate::new(&bcrypt::hash(SECRET, 8).unwrap(), 0).unwrap()
    }

    #[test]
    fn the_right_secret_opens_and_a_wrong_or_short_one_does_not() {
        let gate = gate();
        assert!(gate.check(SECRET, 0).is_ok());
        assert_eq!(gate.check(b"an init secret of a guess", 0).unwrap_err(), Shut::WrongSecret);
        assert_eq!(gate.check(b"short", 0).unwrap_err(), Shut::BadLength);
        assert_eq!(gate.check(&[b'a'; 73], 0).unwrap_err(), Shut::BadLength);
    }

    #[test]
    fn guessing_is_bounded_even_when_the_guess_would_be_right() {
        let gate = gate();
        for _ in 0..BURST {
            gate.check(b"short", 1000).unwrap_err();
        }
        assert_eq!(gate.check(SECRET, 1000).unwrap_err(), Shut::TooManyTries { wait_ms: REFILL_MS - 1000 });
        assert!(gate.check(SECRET, REFILL_MS).is_ok());
        assert!(matches!(gate.check(SECRET, REFILL_MS).unwrap_err(), Shut::TooManyTries { .. }));
    }

    #[test]
    fn a_hash_that_is_no_bcrypt_or_too_cheap_or_too_dear_is_refused() {
        let hash = bcrypt::hash(SECRET, 4).unwrap();
        for bad in ["", "plain text", &hash, &hash.replace("$04$", "$31$")] {
            assert!(Gate::new(bad, 0).is_err(), "{bad}");
        }
    }
}

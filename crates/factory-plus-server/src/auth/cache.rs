//! Names and passwords that were good a moment ago: git and Flux send them with every request.
//!
//! Known by a keyed hash alone. The key is this process's; nothing in memory can be tried against lists of passwords without it.

use super::Password;
use super::bounded::{Bounded, Hash};
use latchkey_factory_plus::Upn;
use ring::hmac;
use ring::rand::SystemRandom;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most that are remembered.
const CAPACITY: usize = 4096;

#[derive(Debug)]
pub(crate) struct Cache {
    /// `None` when the system had no random numbers: nothing is remembered then.
    key: Option<hmac::Key>,
    life: Duration,
    known: Mutex<Bounded<()>>,
}

impl Cache {
    /// Remembers for `life`; zero switches it off.
    pub(crate) fn new(life: Duration) -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        Self { key, life, known: Mutex::new(Bounded::new(CAPACITY)) }
    }

    pub(crate) fn knows(&self, upn: &Upn, password: &Password) -> bool {
        let Some(hash) = self.hash(upn, password) else { return false };
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.find(&hash, Instant::now()).is_some()
    }

    pub(crate) fn remember(&self, upn: &Upn, password: &Password) {
        let Some(hash) = self.hash(upn, password) else { return };
        let now = Instant::now();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(hash, (), now + self.life, now);
    }

    pub(crate) fn clear(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn hash(&self, upn: &Upn, password: &Password) -> Option<Hash> {
        let key = self.key.as_ref().filter(|_| self.life > Duration::ZERO)?;
        let mut context = hmac::Context::with_key(key);
        context.update(upn.as_str().as_bytes());
        // No upn has it, so that the two texts have one boundary.
        context.update(&[0]);
        context.update(password.expose().as_bytes());
        let mut hash = [0; 32];
        hash.copy_from_slice(context.sign().as_ref());
        Some(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    fn password(text: &str) -> Password {
        Password::new(Zeroizing::new(text.into())).unwrap()
    }

    #[test]
    fn only_the_same_name_and_password_are_known_and_only_for_a_while() {
        let [a, b] = ["a@R", "b@R"].map(|name| name.parse::<Upn>().unwrap());
        let cache = Cache::new(Duration::from_hours(1));
        cache.remember(&a, &password("x"));
        assert!(cache.knows(&a, &password("x")));
        assert!(!cache.knows(&a, &password("y")) && !cache.knows(&b, &password("x")));
        cache.clear();
        assert!(!cache.knows(&a, &password("x")));
        let off = Cache::new(Duration::ZERO);
        off.remember(&a, &password("x"));
        assert!(!off.knows(&a, &password("x")));
        let short = Cache::new(Duration::from_nanos(1));
        short.remember(&a, &password("x"));
        assert!(!short.knows(&a, &password("x")));
    }
}

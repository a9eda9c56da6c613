//! Tokens: random, known here by their hash alone, and good for three hours.

use super::bounded::{Bounded, Hash};
use super::{Authenticated, Means};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_factory_plus::Upn;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use zeroize::Zeroizing;

/// Random bytes of a token: 88 characters of base64 without padding, as clients know them.
const RANDOM_BYTES: usize = 66;

/// How long a token is good by what the client is told.
const LIFE: Duration = Duration::from_hours(3);

/// How much earlier it is refused: a request may be on its way.
const MARGIN: Duration = Duration::from_mins(1);

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenLimits {
    pub(crate) total: usize,
    pub(crate) per_principal: usize,
}

/// The tokens of a service. Clones are the same tokens.
#[derive(Clone, Debug)]
pub struct Tokens(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: TokenLimits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tokens: Bounded<Upn>,
    /// The hashes of each principal's tokens, oldest first.
    held: HashMap<Upn, Vec<Hash>>,
}

/// What `POST /token` answers.
#[derive(Serialize)]
pub(crate) struct Issued {
    /// The token.
    #[serde(serialize_with = "text")]
    pub(crate) token: Zeroizing<String>,
    /// When it ends, in milliseconds since 1970.
    pub(crate) expiry: u64,
}

/// A token that is good.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) who: Authenticated,
    /// From when on it is refused.
    pub(crate) until: Instant,
    hash: Hash,
}

impl Tokens {
    pub(crate) fn new(limits: TokenLimits) -> Self {
        let state = State { tokens: Bounded::new(limits.total), held: HashMap::new() };
        Self(Arc::new(Shared { limits, state: Mutex::new(state) }))
    }

    /// A new token of `upn`, good until `not_after` at most: a token that is got by a token ends with it.
    /// `None` when the system has no random numbers.
    pub(crate) fn issue(&self, upn: &Upn, not_after: Option<Instant>) -> Option<Issued> {
        let mut random = Zeroizing::new([0; RANDOM_BYTES]);
        SystemRandom::new().fill(&mut *random).ok()?;
        let token = Zeroizing::new(STANDARD.encode(*random));
        let now = Instant::now();
        let last = now + LIFE.saturating_sub(MARGIN);
        let until = not_after.map_or(last, |end| end.min(last));
        self.state().insert(hash_of(&token), upn, (until, now), self.0.limits.per_principal);
        let ends = SystemTime::now() + until.saturating_duration_since(now) + MARGIN;
        let expiry = ends.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        Some(Issued { token, expiry: u64::try_from(expiry).unwrap_or(u64::MAX) })
    }

    /// Whose token it is, if it is good. Whatever is no token is none.
    pub(crate) fn find(&self, token: &str) -> Option<Ticket> {
        let hash = hash_of(token);
        let state = self.state();
        let (upn, until) = state.tokens.find(&hash, Instant::now())?;
        let who = Authenticated { upn: upn.clone(), means: Means::Token };
        Some(Ticket { who, until, hash })
    }

    /// Whether it is still good.
    pub(crate) fn holds(&self, ticket: &Ticket) -> bool {
        self.state().tokens.find(&ticket.hash, Instant::now()).is_some()
    }

    /// No token is good any more: everybody has to authenticate anew.
    pub fn revoke_all(&self) {
        let mut state = self.state();
        state.tokens.clear();
        state.held.clear();
    }

    /// No token of `upn` is good any more.
    pub fn revoke(&self, upn: &Upn) {
        let mut state = self.state();
        for hash in state.held.remove(upn).unwrap_or_default() {
            state.tokens.remove(&hash);
        }
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.state().tokens.len()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, hash: Hash, upn: &Upn, (until, now): (Instant, Instant), per_principal: usize) {
        for gone in self.tokens.insert(hash, upn.clone(), until, now) {
            self.forget_ended(&gone, now);
        }
        let held = self.held.entry(upn.clone()).or_default();
        held.push(hash);
        if held.len() > per_principal {
            let oldest = held.remove(0);
            self.tokens.remove(&oldest);
        }
    }

    fn forget_ended(&mut self, upn: &Upn, now: Instant) {
        if let Some(held) = self.held.get_mut(upn) {
            held.retain(|hash| self.tokens.find(hash, now).is_some());
            if held.is_empty() {
                self.held.remove(upn);
            }
        }
    }
}

fn text<S: Serializer>(token: &Zeroizing<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(token)
}

fn hash_of(token: &str) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upn(name: &str) -> Upn {
        format!("{name}@R").parse().unwrap()
    }

    fn tokens() -> Tokens {
        Tokens::new(TokenLimits { total: 4, per_principal: 2 })
    }

    #[test]
    fn a_token_is_its_principals_and_looks_as_clients_expect() {
        let (tokens, before) = (tokens(), SystemTime::now());
        let Issued { token, expiry } = tokens.issue(&upn("a"), None).unwrap();
        assert!(token.len() == 88 && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte)));
        let told = SystemTime::UNIX_EPOCH + Duration::from_millis(expiry);
        let life = told.duration_since(before).unwrap();
        assert!(life <= LIFE + Duration::from_mins(1) && life + Duration::from_secs(1) > LIFE, "{life:?}");
        let ticket = tokens.find(&token).unwrap();
        assert_eq!(ticket.who.upn(), &upn("a"));
        assert!(ticket.until <= Instant::now() + LIFE.saturating_sub(MARGIN), "refused one minute early");
        for wrong in ["", "a.b.c", &token[1..], &format!("{}x", &**token)] {
            assert!(tokens.find(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn one_principal_holds_a_few_and_all_hold_some() {
        let tokens = tokens();
        let mut issued: Vec<_> = (0..3).map(|_| tokens.issue(&upn("a"), None).unwrap().token).collect();
        assert!(tokens.find(&issued[0]).is_none() && tokens.find(&issued[2]).is_some());
        for name in ["b", "c", "d", "e"] {
            issued.push(tokens.issue(&upn(name), None).unwrap().token);
        }
        assert!(tokens.len() <= 4 && tokens.find(&issued[2]).is_none() && tokens.find(&issued[6]).is_some());
        let state = tokens.state();
        assert!(state.held.values().all(|held| !held.is_empty()) && state.held.len() <= 4);
    }

    #[test]
    fn revoked_tokens_are_none() {
        let tokens = tokens();
        let [a, b] = ["a", "b"].map(|name| tokens.issue(&upn(name), None).unwrap().token);
        let ticket = tokens.find(&a).unwrap();
        tokens.revoke(&upn("a"));
        assert!(!tokens.holds(&ticket) && tokens.find(&a).is_none() && tokens.find(&b).is_some());
        tokens.revoke_all();
        assert!(tokens.find(&b).is_none() && tokens.len() == 0);
    }

    #[test]
    fn a_token_got_by_a_token_ends_with_it() {
        let tokens = tokens();
        let first = tokens.find(&tokens.issue(&upn("a"), None).unwrap().token).unwrap();
        let soon = first.until.checked_sub(Duration::from_hours(2)).unwrap();
        let second = tokens.find(&tokens.issue(&upn("a"), Some(soon)).unwrap().token).unwrap();
        assert_eq!(second.until, soon);
        let ended = tokens.issue(&upn("a"), Some(Instant::now())).unwrap().token;
        assert!(tokens.find(&ended).is_none());
    }
}

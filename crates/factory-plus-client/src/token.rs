//! The token of one service: got once, by one at a time, renewed before it expires.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderValue, Method};
use serde::Deserialize;
use smol::lock::Mutex;
use zeroize::Zeroizing;

use crate::error::{CallError, Place};

/// A token, in hand.
#[derive(Clone)]
pub(crate) struct Token {
    text: Arc<Zeroizing<String>>,
    renew: Option<Instant>,
    /// Which of this service's tokens it is.
    number: u64,
}

/// What a service answers to `POST /token`.
#[derive(Deserialize)]
pub(crate) struct Granted {
    #[serde(deserialize_with = "secret")]
    token: Zeroizing<String>,
    /// Milliseconds since 1970, by the service's clock.
    expiry: u64,
}

fn secret<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(deserializer).map(Zeroizing::new)
}

/// Longest token, bytes: those of identity providers are long.
const LONGEST: usize = 16 << 10;
/// Services refuse a token a minute before it expires; this leaves time for the call, and for clocks that differ.
const EARLY: Duration = Duration::from_mins(5);

impl Token {
    fn new(granted: Granted, number: u64, now: Instant, clock_ms: u64, place: &Place) -> Result<Self, CallError> {
        let text = granted.token;
        // Also what keeps a token from ending a header, or a frame.
        if text.is_empty() || text.len() > LONGEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(CallError::bad_answer(
                place,
                &"the token is empty, too long, or has characters that no token has",
            ));
        }
        let renew = renew_in(granted.expiry, clock_ms).and_then(|wait| now.checked_add(wait));
        Ok(Self { text: Arc::new(text), renew, number })
    }

    /// `Bearer TOKEN`, as a header and as the first frame of change notification.
    pub(crate) fn bearer(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("Bearer {}", self.text.as_str()))
    }

    pub(crate) fn header(&self, place: &Place) -> Result<HeaderValue, CallError> {
        sensitive(&self.bearer(), place)
    }
}

/// A header that nobody prints.
pub(crate) fn sensitive(text: &str, place: &Place) -> Result<HeaderValue, CallError> {
    let mut value = HeaderValue::try_from(text).map_err(|_| CallError::NoCredentials {
        place: place.clone(),
        why: "they have characters that no header has".into(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// How long a token is used: until [`EARLY`] before its end, or half its life where it is short. A token that is over by our
/// clock is used until the service refuses it: one of the clocks is wrong, and the service's is what counts.
fn renew_in(expiry_ms: u64, clock_ms: u64) -> Option<Duration> {
    let left = Duration::from_millis(expiry_ms.checked_sub(clock_ms)?);
    Some(left.checked_sub(EARLY).unwrap_or_default().max(left / 2))
}

/// The place of a service's token.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<State>);

#[derive(Default)]
struct State {
    token: Option<Token>,
    made: u64,
    failed: Option<(Instant, CallError)>,
}

impl Tokens {
    /// The token, or a new one from `fetch` where there is none, it is time, or `spoiled` was refused. Those who ask while it is
    /// fetched wait for that one, and share its failure.
    pub(crate) async fn token<F>(&self, spoiled: Option<&Token>, place: &Place, fetch: F) -> Result<Token, CallError>
    where
        F: AsyncFnOnce() -> Result<Granted, CallError>,
    {
        let asked = Instant::now();
        let mut state = self.0.lock().await;
        let good = |token: &&Token| {
            token.renew.is_none_or(|renew| Instant::now() < renew)
                && spoiled.is_none_or(|old| old.number < token.number)
        };
        if let Some(token) = state.token.as_ref().filter(good) {
            return Ok(token.clone());
        }
        if let Some((_, error)) = state.failed.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(error.clone());
        }
        let made = state.made + 1;
        let token = match fetch().await {
            Ok(granted) => Token::new(granted, made, Instant::now(), clock_ms(), place),
            Err(error) => Err(error),
        };
        match &token {
            Ok(token) => (state.made, state.token, state.failed) = (made, Some(token.clone()), None),
            Err(error) => (state.token, state.failed) = (None, Some((Instant::now(), error.clone()))),
        }
        token
    }
}

/// The call that gets a token.
pub(crate) const TOKEN: (Method, &str) = (Method::POST, "token");

fn clock_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use latchkey_factory_plus::Uuid;

    use super::*;

    fn granted(expiry: u64) -> Granted {
        Granted { token: Zeroizing::new("abc".into()), expiry }
    }

    fn place() -> Place {
        Place::new(Uuid::NIL, &Method::POST, &"https://h/token")
    }

    #[test]
    fn a_token_is_renewed_before_its_end() {
        let minutes = |minutes: u64| minutes * 60_000;
        assert_eq!(renew_in(minutes(180), 0), Some(Duration::from_mins(175)));
        assert_eq!(renew_in(minutes(4), 0), Some(Duration::from_mins(2)));
        assert_eq!(renew_in(minutes(5), minutes(9)), None);
    }

    #[test]
    fn a_token_whose_time_has_come_is_renewed_by_the_next_who_asks() {
        smol::block_on(async {
            let (tokens, place) = (Tokens::default(), place());
            let ask = || tokens.token(None, &place, async || Ok(granted(u64::MAX)));
            assert_eq!((ask().await.unwrap().number, ask().await.unwrap().number), (1, 1));
            tokens.0.lock().await.token.as_mut().unwrap().renew = Some(Instant::now());
            assert_eq!((ask().await.unwrap().number, ask().await.unwrap().number), (2, 2));
        });
    }

    #[test]
    fn many_who_ask_at_once_share_one_token_and_one_failure() {
        smol::block_on(async {
            let (tokens, fetched, place) = (Tokens::default(), AtomicU64::new(0), place());
            let ask = async |result: Result<Granted, CallError>, spoiled: Option<&Token>| {
                tokens
                    .token(spoiled, &place, async || {
                        fetched.fetch_add(1, Ordering::Relaxed);
                        // Lets the other come in between.
                        smol::future::yield_now().await;
                        result
                    })
                    .await
            };
            let refused = || Err(CallError::Unauthenticated(place.clone()));
            let (one, two) = smol::future::zip(ask(refused(), None), ask(refused(), None)).await;
            assert!(one.is_err() && two.is_err() && fetched.load(Ordering::Relaxed) == 1);
            let (one, two) =
                smol::future::zip(ask(Ok(granted(u64::MAX)), None), ask(Ok(granted(u64::MAX)), None)).await;
            let (one, two) = (one.unwrap(), two.unwrap());
            assert_eq!((one.number, two.number, fetched.load(Ordering::Relaxed)), (1, 1, 2));
            let (three, four) =
                smol::future::zip(ask(Ok(granted(u64::MAX)), Some(&one)), ask(Ok(granted(u64::MAX)), Some(&two))).await;
            assert_eq!((three.unwrap().number, four.unwrap().number, fetched.load(Ordering::Relaxed)), (2, 2, 3));
        });
    }

    #[test]
    fn a_token_cannot_end_a_header() {
        for text in ["", "a b", "a\r\nHost: x", "é", &"a".repeat(LONGEST + 1)] {
            let granted = Granted { token: Zeroizing::new(text.into()), expiry: 0 };
            assert!(Token::new(granted, 1, Instant::now(), 0, &place()).is_err());
        }
    }
}

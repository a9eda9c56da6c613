//! From the header `Authorization` to somebody who is authenticated.

use super::attempts::Attempts;
use super::cache::Cache;
use super::tokens::{Ticket, TokenLimits, Tokens};
use super::{Authenticated, Means, Password, Verifier, VerifyError};
use crate::metrics::Metrics;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::{AUTHORIZATION, HeaderMap};
use latchkey_connection_limits::{Rate, Wait};
use latchkey_factory_plus::{Realm, Upn};
use smol::lock::Semaphore;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The longest credentials of Basic, decoded: a name, a colon and a password.
const MAX_BASIC: usize = Upn::LONGEST + 1 + Password::MAX;

/// Longer than any token of this service.
const MAX_TOKEN: usize = 8192;

/// How many proofs are verified at a time; more wait.
const VERIFICATIONS: usize = 64;

/// What guards a service.
pub(crate) struct Gate {
    realm: Realm,
    verifier: Arc<dyn Verifier>,
    pub(crate) tokens: Tokens,
    cache: Cache,
    attempts: Attempts,
    turns: Semaphore,
    metrics: Arc<Metrics>,
}

/// Bounds of a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GateLimits {
    pub(crate) tokens: TokenLimits,
    /// How often a host may be wrong.
    pub(crate) wrong: Rate,
    /// For how long a name and password that were good are good without asking.
    pub(crate) remember: Duration,
}

/// Somebody came in.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) who: Authenticated,
    /// What proves the service to the client, for `WWW-Authenticate`.
    pub(crate) reply: Option<HeaderValue>,
    /// When the token ends that was shown.
    pub(crate) until: Option<Instant>,
}

/// Why nobody came in. Texts are for the log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// Nothing was shown.
    #[error("no credentials")]
    Nothing,
    /// What was shown is no good.
    #[error("{0}")]
    Wrong(String),
    /// Wrong too often.
    #[error("too many failed attempts from this network, or for this user")]
    TooOften(Duration),
    /// Nobody could tell.
    #[error("{0}")]
    Unavailable(String),
}

impl From<VerifyError> for Denied {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Denied(why) => Self::Wrong(why),
            VerifyError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl From<Wait> for Denied {
    fn from(Wait(time): Wait) -> Self {
        Self::TooOften(time)
    }
}

fn wrong(why: &str) -> Denied {
    Denied::Wrong(why.to_owned())
}

impl Gate {
    pub(crate) fn new(realm: Realm, verifier: Arc<dyn Verifier>, limits: GateLimits, metrics: Arc<Metrics>) -> Self {
        Self {
            realm,
            verifier,
            tokens: Tokens::new(limits.tokens),
            cache: Cache::new(limits.remember),
            attempts: Attempts::new(limits.wrong),
            turns: Semaphore::new(VERIFICATIONS),
            metrics,
        }
    }

    /// Who sends these headers, from `peer`.
    ///
    /// # Errors
    /// [`Denied`].
    pub(crate) async fn enter(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Entered, Denied> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let value = values.next().ok_or(Denied::Nothing)?;
        let entered = if values.next().is_some() {
            Err(wrong("more than one header Authorization"))
        } else {
            self.judge(value, peer).await
        };
        match &entered {
            Ok(entered) => self.metrics.entered(entered.who.means),
            Err(_) => self.metrics.denied(),
        }
        entered
    }

    /// Who has this token.
    ///
    /// # Errors
    /// [`Denied`].
    pub(crate) fn ticket(&self, token: &str) -> Result<Ticket, Denied> {
        let ticket = Some(token).filter(|token| token.len() <= MAX_TOKEN).and_then(|token| self.tokens.find(token));
        ticket.ok_or_else(|| wrong("the token is none of this service, or has ended"))
    }

    /// Asks about every password anew.
    pub(crate) fn forget_passwords(&self) {
        self.cache.clear();
    }

    async fn judge(&self, value: &HeaderValue, peer: IpAddr) -> Result<Entered, Denied> {
        let text = value.to_str().map_err(|_| wrong("the header Authorization is no visible ASCII"))?;
        let (scheme, credentials) = text.split_once(' ').unwrap_or((text, ""));
        let credentials = credentials.trim();
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" => {
                let Ticket { who, until, .. } = self.ticket(credentials)?;
                Ok(Entered { who, reply: None, until: Some(until) })
            }
            "basic" => self.basic(credentials, peer).await,
            "negotiate" => self.negotiate(credentials, peer).await,
            _ => Err(wrong("a scheme of authentication that is not known here")),
        }
    }

    async fn basic(&self, credentials: &str, peer: IpAddr) -> Result<Entered, Denied> {
        let (upn, password) = self.name_and_password(credentials)?;
        let entered =
            |upn| Ok(Entered { who: Authenticated { upn, means: Means::Password }, reply: None, until: None });
        if self.cache.knows(&upn, &password) {
            return entered(upn);
        }
        let attempt = self.attempts.begin(peer, Some(&upn))?;
        let _turn = self.turns.acquire().await;
        match self.verifier.password(&upn, &password).await {
            Ok(()) => {
                attempt.succeeded();
                self.cache.remember(&upn, &password);
                entered(upn)
            }
            Err(error) => {
                if matches!(error, VerifyError::Unavailable(_)) {
                    attempt.unjudged();
                }
                Err(error.into())
            }
        }
    }

    fn name_and_password(&self, credentials: &str) -> Result<(Upn, Password), Denied> {
        if credentials.len() > MAX_BASIC.div_ceil(3) * 4 {
            return Err(wrong("name and password are too long"));
        }
        let bytes = Zeroizing::new(STANDARD.decode(credentials).map_err(|_| wrong("Basic without base64"))?);
        let text = str::from_utf8(&bytes).map_err(|_| wrong("name and password are no UTF-8"))?;
        let (user, password) = text.split_once(':').ok_or_else(|| wrong("Basic without a colon"))?;
        let upn = Upn::in_realm(user, &self.realm).map_err(|error| Denied::Wrong(error.to_string()))?;
        let password = Password::new(Zeroizing::new(password.to_owned()));
        Ok((upn, password.ok_or_else(|| wrong("the password is empty, too long, or has a NUL in it"))?))
    }

    async fn negotiate(&self, credentials: &str, peer: IpAddr) -> Result<Entered, Denied> {
        let token = STANDARD.decode(credentials).map_err(|_| wrong("Negotiate without base64"))?;
        if token.is_empty() {
            return Err(wrong("Negotiate without a token"));
        }
        let attempt = self.attempts.begin(peer, None)?;
        let _turn = self.turns.acquire().await;
        match self.verifier.negotiate(&token).await {
            Ok(negotiated) => {
                attempt.succeeded();
                let reply = HeaderValue::try_from(format!("Negotiate {}", STANDARD.encode(negotiated.reply)));
                let who = Authenticated { upn: negotiated.upn, means: Means::Negotiate };
                Ok(Entered { who, reply: reply.ok(), until: None })
            }
            Err(error) => {
                if matches!(error, VerifyError::Unavailable(_)) {
                    attempt.unjudged();
                }
                Err(error.into())
            }
        }
    }
}

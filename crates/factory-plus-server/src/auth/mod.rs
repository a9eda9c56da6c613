//! Authentication: section "Authentication" of the contract. Names and passwords, one step of GSSAPI, and tokens of this service.
//!
//! 1. [`Verifier`]: whoever asks the KDC; the crate that speaks Kerberos implements it.
//! 2. [`gate`]: from the header `Authorization` to an [`Authenticated`], the witness that only this module makes.
//! 3. [`tokens`]: what `POST /token` gives; [`cache`]: names and passwords that were good a moment ago; [`attempts`]: how often
//!    somebody may be wrong.

pub(crate) mod attempts;
pub(crate) mod bounded;
pub(crate) mod cache;
pub(crate) mod gate;
pub(crate) mod tokens;

use latchkey_factory_plus::Upn;
use std::fmt;
use std::pin::Pin;
use zeroize::Zeroizing;

/// What a [`Verifier`] finds, some time later.
pub type Verdict<'a, T> = Pin<Box<dyn Future<Output = Result<T, VerifyError>> + Send + 'a>>;

/// Whoever can tell whether somebody is who he says he is: asks the KDC, or reads tickets with the service's own key.
pub trait Verifier: Send + Sync + 'static {
    /// Whether this is the password of `upn`: an AS exchange, and the ticket that it gives, verified against the service's
    /// own key, so that a false KDC is found out.
    fn password<'a>(&'a self, upn: &'a Upn, password: &'a Password) -> Verdict<'a, ()>;

    /// Accepts a GSSAPI token (SPNEGO or Kerberos; RFC 4559) in one step.
    fn negotiate<'a>(&'a self, token: &'a [u8]) -> Verdict<'a, Negotiated>;
}

/// What accepting a GSSAPI token gives.
#[derive(Debug)]
pub struct Negotiated {
    /// Whose ticket it was.
    pub upn: Upn,
    /// The token that proves the service to the client.
    pub reply: Vec<u8>,
}

/// Why nobody was authenticated. The texts go into the log, never to the peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The proof is no good: answered as 401.
    #[error("{0}")]
    Denied(String),
    /// Nobody could tell, since the KDC did not answer, say: answered as 503.
    #[error("{0}")]
    Unavailable(String),
}

/// A password that somebody sent; wiped when it is dropped.
pub struct Password(Zeroizing<String>);

impl Password {
    /// The longest password, bytes.
    pub const MAX: usize = 1024;

    /// `None` when it is empty (a KDC may take that for something else than a password), too long, or has a NUL in it, which
    /// ends it early for libraries written in C.
    pub(crate) fn new(text: Zeroizing<String>) -> Option<Self> {
        let good = !text.is_empty() && text.len() <= Self::MAX && !text.contains('\0');
        good.then_some(Self(text))
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// How somebody was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Name and password, now or a moment ago.
    Password,
    /// A Kerberos ticket.
    Negotiate,
    /// A token of this service.
    Token,
}

impl Means {
    /// All, in the order of the enum.
    pub(crate) const ALL: [Self; 3] = [Self::Password, Self::Negotiate, Self::Token];

    /// The word in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Negotiate => "negotiate",
            Self::Token => "token",
        }
    }
}

/// Somebody who is who he says he is: a witness, made by this module alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    upn: Upn,
    means: Means,
}

impl Authenticated {
    /// Who it is.
    pub fn upn(&self) -> &Upn {
        &self.upn
    }

    /// How that was shown.
    pub fn means(&self) -> Means {
        self.means
    }

    /// Without any proof, for tests of services.
    ///
    /// # Panics
    /// If it is no UPN.
    #[cfg(feature = "testing")]
    pub fn fake(upn: &str) -> Self {
        Self { upn: upn.parse().expect("a UPN"), means: Means::Password }
    }
}

/// Whose request it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Nobody said: only where the terms of a request allow it.
    Anonymous,
    /// Somebody who was authenticated.
    Known(Authenticated),
}

impl Caller {
    /// Who it is, if that is known.
    pub fn upn(&self) -> Option<&Upn> {
        match self {
            Self::Anonymous => None,
            Self::Known(who) => Some(who.upn()),
        }
    }

    /// The witness.
    ///
    /// # Errors
    /// The answer 401 for somebody who did not say who he is.
    pub fn known(&self) -> Result<&Authenticated, crate::Refusal> {
        match self {
            Self::Anonymous => Err(crate::Refusal::unauthenticated()),
            Self::Known(who) => Ok(who),
        }
    }
}

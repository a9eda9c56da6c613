//! What can go wrong between a client and a service.

use latchkey_reason::printable;
use std::fmt;
use std::sync::Arc;

use http::Method;
use latchkey_factory_plus::{Uuid, uuids};

/// Which call of which service failed: the service's name, the method and the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(Arc<str>);

impl Place {
    pub(crate) fn new(service: Uuid, method: &Method, url: &dyn fmt::Display) -> Self {
        Self(format!("{}: {method} {url}", service_name(service)).into())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What can go wrong, and what helps. Texts of services are shortened and have no control characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing answered in time, or the connection broke.
    #[error(
        "{place}: no answer: {why}; see that the service runs, and that this machine resolves and reaches its address"
    )]
    Unreachable {
        /// The call.
        place: Place,
        /// What happened.
        why: Arc<str>,
    },
    /// The directory knows no URL of the service.
    #[error("the directory names no URL of the {}; load the centre's directory dump, or configure its URL", service_name(*.0))]
    NotAdvertised(Uuid),
    /// The URL may not be used as the client is configured.
    #[error("{place}: not asked: {why}")]
    NotTrusted {
        /// The call.
        place: Place,
        /// What must be changed.
        why: Arc<str>,
    },
    /// Our own credentials could not be made.
    #[error("{place}: not asked: no credentials: {why}")]
    NoCredentials {
        /// The call.
        place: Place,
        /// Why, and what helps.
        why: Arc<str>,
    },
    /// 401, also with a new token.
    #[error("{0}: it does not accept who we are; check the principal and its password, and that the KDC knows them")]
    Unauthenticated(Place),
    /// 403.
    #[error("{place}: it forbids this; grant our principal the permission{}", after(text))]
    Forbidden {
        /// The call.
        place: Place,
        /// What the service said.
        text: Arc<str>,
    },
    /// 404, where something must be there.
    #[error("{0}: it knows no such thing; check the UUIDs, and that the centre's dumps were loaded")]
    NotFound(Place),
    /// 409.
    #[error("{place}: it contradicts what is there{}", after(body))]
    Conflict {
        /// The call.
        place: Place,
        /// The body, shortened to 64 kB: some services say here what is in the way.
        body: Arc<str>,
    },
    /// 412.
    #[error("{0}: somebody else changed it meanwhile; read it again, and decide anew")]
    PreconditionFailed(Place),
    /// Any other status that is no success.
    #[error("{place}: it answers {status}{}", after(text))]
    Refused {
        /// The call.
        place: Place,
        /// The status.
        status: u16,
        /// What the service said.
        text: Arc<str>,
    },
    /// An answer that is too large, or not what the contract says.
    #[error("{place}: a wrong answer: {why}; see that this URL is that service's, and look into its log")]
    BadAnswer {
        /// The call.
        place: Place,
        /// What is wrong with it.
        why: Arc<str>,
    },
    /// A call that cannot be written as HTTP.
    #[error("{place}: not asked: {why}")]
    BadCall {
        /// The call.
        place: Place,
        /// What is wrong with it.
        why: Arc<str>,
    },
}

impl CallError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotAdvertised(_) | Self::NoCredentials { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            _ => false,
        }
    }

    pub(crate) fn unreachable(place: &Place, why: &dyn fmt::Display) -> Self {
        Self::Unreachable { place: place.clone(), why: why.to_string().into() }
    }

    pub(crate) fn bad_answer(place: &Place, why: &dyn fmt::Display) -> Self {
        Self::BadAnswer { place: place.clone(), why: why.to_string().into() }
    }

    pub(crate) fn bad_call(place: &Place, why: &dyn fmt::Display) -> Self {
        Self::BadCall { place: place.clone(), why: why.to_string().into() }
    }
}

/// Characters of a service's text that are shown.
const SHOWN: usize = 300;
/// Bytes of a conflict's body that are kept.
const KEPT: usize = 64 << 10;

/// What a service said, fit for a log: short, without control characters.
pub(crate) fn shown(body: &[u8]) -> Arc<str> {
    let start = &body[..body.len().min(4 * SHOWN)];
    let text = String::from_utf8_lossy(start);
    printable(text.trim()).take(SHOWN).collect::<String>().into()
}

/// The body of a conflict.
pub(crate) fn kept(body: &[u8]) -> Arc<str> {
    let text = String::from_utf8_lossy(&body[..body.len().min(KEPT)]);
    printable(text.trim()).collect::<String>().into()
}

fn after(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).collect();
    if short.is_empty() { short } else { format!(": {short}") }
}

/// A service, in words.
pub(crate) fn service_name(service: Uuid) -> String {
    let known = [
        (uuids::service::DIRECTORY, "directory"),
        (uuids::service::CONFIG_DB, "configuration database"),
        (uuids::service::AUTH, "authorisation service"),
        (uuids::service::CLUSTER_MANAGER, "cluster manager"),
        (uuids::service::GIT, "git server"),
    ];
    let name = known.iter().find(|(uuid, _)| *uuid == service).map(|(_, name)| (*name).to_owned());
    name.unwrap_or_else(|| format!("service {service}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_says_cannot_write_into_a_log() {
        let text = shown(&[b"a\r\nb\x1b[0m".as_slice(), &[b'x'; 5000]].concat());
        assert!(text.starts_with("a  b\u{fffd}[0m") && text.chars().count() == SHOWN);
        assert_eq!(&*shown(&[0xff, 0xfe]), "\u{fffd}\u{fffd}");
    }
}

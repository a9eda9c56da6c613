//! The HTTP side.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use rustls::crypto::ring::default_provider;
use ureq::http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName, RANGE};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Timeout};

use super::error::FetchError;
use super::part::{Part, Stop};
use super::{Limits, Progress};

/// Connections for one file: a mirror that breaks off is asked to continue, but not for ever.
const TRIES: u32 = 5;
/// More than official addresses need: one, to where GitHub keeps releases.
const MAX_REDIRECTS: u32 = 5;

/// An HTTP client.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    limits: Limits,
}

/// What one connection came to.
enum Answer {
    /// The source came to its end.
    Ended,
    /// What is there cannot be continued; it was forgotten.
    Again,
    /// The connection broke.
    Cut(String),
}

impl Client {
    /// For a mirror, or for official addresses, which are all of HTTPS.
    pub(super) fn new(mirror: Option<&str>, limits: Limits) -> Result<Self, FetchError> {
        let secure = mirror.is_none_or(|address| address.starts_with("https://"));
        let authorities = rustls_native_certs::load_native_certs().certs;
        if secure && authorities.is_empty() {
            return Err(FetchError::NoAuthorities);
        }
        let roots = RootCerts::from(authorities.iter().map(|der| Certificate::from_der(der).to_owned()));
        let tls = TlsConfig::builder()
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
            .build();
        let mut config = Agent::config_builder()
            .tls_config(tls)
            // What began with a proven server goes on with one.
            .https_only(secure)
            .http_status_as_error(false)
            .max_redirects(MAX_REDIRECTS)
            .user_agent("latchkey")
            .timeout_connect(Some(limits.connect))
            .timeout_per_read(Some(limits.silence))
            .timeout_per_write(Some(limits.silence));
        if mirror.is_some_and(is_loopback) {
            config = config.proxy(None);
        }
        Ok(Self { agent: config.build().new_agent(), limits })
    }

    /// Gets a file, continuing what is there.
    pub(super) fn get(
        &self,
        place: &str,
        part: &mut Part<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), FetchError> {
        let begun = Instant::now();
        let mut cut = None;
        for _ in 0..TRIES {
            match self.once(place, begun, part, progress)? {
                // What an earlier connection left may have been of another file.
                Answer::Ended if !part.is_right() && part.is_resumed() => part.restart()?,
                Answer::Ended => return part.judge(place),
                Answer::Again => {}
                Answer::Cut(reason) => cut = Some(reason),
            }
        }
        match cut {
            Some(reason) => {
                Err(FetchError::Interrupted { place: place.to_owned(), times: TRIES, got: part.len(), reason })
            }
            None => part.judge(place),
        }
    }

    fn once(
        &self,
        place: &str,
        begun: Instant,
        part: &mut Part<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Answer, FetchError> {
        let left = self.limits.whole.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(self.slow(place, Timeout::Global));
        }
        let mut request = self.agent.get(place).config().timeout_global(Some(left)).build();
        request = request.header(ACCEPT_ENCODING, "identity");
        let have = part.len();
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        let response = match request.call() {
            Ok(response) => response,
            Err(ureq::Error::Timeout(which)) => return Err(self.slow(place, which)),
            Err(error) => return Err(FetchError::Request { place: place.to_owned(), reason: error.to_string() }),
        };
        match response.status().as_u16() {
            200 => part.restart()?,
            206 if have > 0 && begins(response.headers()) == Some(have) => part.continues(),
            // Another piece than the one asked for, or none that begins there.
            206 | 416 if have > 0 => return part.restart().map(|()| Answer::Again),
            404 | 410 => return Err(FetchError::Missing(place.to_owned())),
            status => return Err(FetchError::Status { place: place.to_owned(), status }),
        }
        let of = number(response.headers(), &CONTENT_LENGTH).and_then(|length| length.checked_add(part.len()));
        if of.is_some_and(|of| of > part.max()) {
            return Err(FetchError::TooLarge { place: place.to_owned(), max: part.max() });
        }
        match part.take(response.into_body().into_reader(), of, place, progress) {
            Ok(()) => Ok(Answer::Ended),
            Err(Stop::Final(error)) => Err(error),
            Err(Stop::Source(error)) => match timeout(&error) {
                Some(which) => Err(self.slow(place, which)),
                None => Ok(Answer::Cut(error.to_string())),
            },
        }
    }

    fn slow(&self, place: &str, which: Timeout) -> FetchError {
        let (what, limit) = match which {
            Timeout::PerRead | Timeout::PerWrite => ("nothing came", self.limits.silence),
            Timeout::Resolve | Timeout::Connect => ("no connection", self.limits.connect),
            _ => ("not done", self.limits.whole),
        };
        FetchError::Slow { place: place.to_owned(), what, limit }
    }
}

/// Whether reading ended because of a limit.
fn timeout(error: &io::Error) -> Option<Timeout> {
    match error.get_ref()?.downcast_ref::<ureq::Error>()? {
        ureq::Error::Timeout(which) => Some(*which),
        _ => None,
    }
}

/// Where a piece begins: `bytes FIRST-LAST/SIZE` (RFC 9110, section 14.4).
fn begins(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

/// Nobody asks a proxy for this very machine.
fn is_loopback(address: &str) -> bool {
    let host = address.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    let name = host.strip_prefix('[').map_or_else(|| host.split(':').next(), |host| host.split(']').next());
    let name = name.unwrap_or_default();
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

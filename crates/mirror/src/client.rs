//! The HTTP side.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::ring::default_provider;
use ureq::http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName, RANGE, RETRY_AFTER};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, BodyReader, Timeout};

/// More than official addresses need: one, to where GitHub keeps releases.
pub const MAX_REDIRECTS: u32 = 5;
/// Longest head of an answer, in bytes.
pub const MAX_HEAD: usize = 64 * 1024;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until there is a connection.
    pub connect: Duration,
    /// Until the next byte comes.
    pub silence: Duration,
    /// One whole file, continued connections included.
    pub whole: Duration,
}

/// Slow mirrors are waited for, silent ones are not.
impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(15), silence: Duration::from_secs(30), whole: Duration::from_hours(1) }
    }
}

/// Why a mirror did not give a file. Texts name the address.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// This machine trusts no certificate authority.
    #[error("this machine has no certificate authorities to trust, which HTTPS needs")]
    NoAuthorities,
    /// It is not there.
    #[error("{0} is not there")]
    Missing(String),
    /// The server cannot be reached, or says what is not HTTP.
    #[error("{place}: {reason}")]
    Request {
        /// The address.
        place: String,
        /// What went wrong.
        reason: String,
    },
    /// The server answers something else than the file.
    #[error("{place}: the server answers {status}")]
    Status {
        /// The address.
        place: String,
        /// The status.
        status: u16,
        /// How many seconds it wants to be left alone, if it says so.
        retry_after: Option<u64>,
    },
    /// Nothing came for a while, or it took too long as a whole.
    #[error("{place}: {what} in {} seconds", .limit.as_secs_f32())]
    Slow {
        /// The address.
        place: String,
        /// What did not happen.
        what: &'static str,
        /// How long it was waited for.
        limit: Duration,
    },
}

/// An HTTP client.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    limits: Limits,
}

/// What a mirror gives.
#[derive(Debug)]
pub enum Answer {
    /// The file from its beginning.
    Whole(Body),
    /// What follows the bytes that are there.
    Rest(Body),
    /// Another piece than the one asked for, or none that begins there.
    OtherPiece,
}

/// Bytes of a file as they come. Nothing bounds them but the time.
pub struct Body {
    reader: BodyReader<'static>,
    length: Option<u64>,
    headers: HeaderMap,
}

/// Why there are no more bytes.
#[derive(Debug)]
pub enum Broken {
    /// A limit.
    Slow(MirrorError),
    /// The connection broke.
    Cut(String),
}

impl Client {
    /// For a mirror, or for official addresses, which are all of HTTPS.
    ///
    /// # Errors
    /// [`MirrorError::NoAuthorities`], where HTTPS is needed.
    pub fn new(mirror: Option<&str>, limits: Limits) -> Result<Self, MirrorError> {
        let secure = mirror.is_none_or(|address| address.starts_with("https://"));
        let authorities = rustls_native_certs::load_native_certs().certs;
        if secure && authorities.is_empty() {
            return Err(MirrorError::NoAuthorities);
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
            .max_response_header_size(MAX_HEAD)
            .user_agent("latchkey")
            .timeout_connect(Some(limits.connect))
            .timeout_per_read(Some(limits.silence))
            .timeout_per_write(Some(limits.silence));
        if mirror.is_some_and(is_loopback) {
            config = config.proxy(None);
        }
        Ok(Self { agent: config.build().new_agent(), limits })
    }

    /// Asks for a file of which `have` bytes are there already. `begun` is when the first connection for it was made.
    ///
    /// # Errors
    /// [`MirrorError`].
    pub fn ask(&self, place: &str, have: u64, begun: Instant) -> Result<Answer, MirrorError> {
        let left = self.limits.whole.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(self.slow(place, Timeout::Global));
        }
        let mut request = self.agent.get(place).config().timeout_global(Some(left)).build();
        request = request.header(ACCEPT_ENCODING, "identity");
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        let response = match request.call() {
            Ok(response) => response,
            Err(ureq::Error::Timeout(which)) => return Err(self.slow(place, which)),
            Err(error) => return Err(MirrorError::Request { place: place.to_owned(), reason: error.to_string() }),
        };
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status.as_u16(), head.headers);
        let length = number(&headers, &CONTENT_LENGTH);
        let (retry_after, continues) = (number(&headers, &RETRY_AFTER), begins(&headers) == Some(have));
        let body = Body { reader: body.into_reader(), length, headers };
        match status {
            200 => Ok(Answer::Whole(body)),
            206 if have > 0 && continues => Ok(Answer::Rest(body)),
            206 | 416 if have > 0 => Ok(Answer::OtherPiece),
            404 | 410 => Err(MirrorError::Missing(place.to_owned())),
            status => Err(MirrorError::Status { place: place.to_owned(), status, retry_after }),
        }
    }

    /// What an error is that reading a [`Body`] ended with.
    pub fn broken(&self, place: &str, error: &io::Error) -> Broken {
        match timeout(error) {
            Some(which) => Broken::Slow(self.slow(place, which)),
            None => Broken::Cut(error.to_string()),
        }
    }

    fn slow(&self, place: &str, which: Timeout) -> MirrorError {
        let (what, limit) = match which {
            Timeout::PerRead | Timeout::PerWrite => ("nothing came", self.limits.silence),
            Timeout::Resolve | Timeout::Connect => ("no connection", self.limits.connect),
            _ => ("not done", self.limits.whole),
        };
        MirrorError::Slow { place: place.to_owned(), what, limit }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("length", &self.length).finish_non_exhaustive()
    }
}

impl Body {
    /// How many bytes are to come, as the server says.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// What the answer's header of this name says, if there is one of it, and not several, in visible ASCII. All headers together have
    /// [`MAX_HEAD`] bytes at most.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let (first, second) = (values.next()?, values.next());
        second.is_none().then_some(first)?.to_str().ok()
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
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

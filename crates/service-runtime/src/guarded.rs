//! `/metrics` and `/healthz` for other machines: over TLS 1.3, for whoever shows the credential that the configuration demands.
//!
//! The same pages as on loopback, but for `POST /backup`. Certificate, key, authorities and token are read for each connection: scrapes
//! are rare, and a certificate that was renewed counts without a reload.

use crate::admin::{self, Admin, Response};
use crate::config::MetricsConfig;
use crate::connections::{ConnectionLimits, ConnectionTable};
use crate::log_limiter::LogLimiter;
use crate::pem::{PemError, authorities, certificates, check_authorities, check_identity, private_key};
use crate::serve::{Connections, Stop, Visit};
use futures_rustls::TlsAcceptor;
use latchkey_connection_limits::Rate;
use latchkey_keys::{KeyError, SecretVec, read_private_file};
use rustls::ServerConfig;
use rustls::pki_types::UnixTime;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use smol::Timer;
use smol::future::FutureExt;
use smol::io::{AsyncRead, AsyncWrite};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// The one protocol that is spoken.
const ALPN: &[u8] = b"http/1.1";
/// From the connection to the end of the answer, the handshake included.
const DEADLINE: Duration = Duration::from_secs(10);
/// Characters of a token. Shorter ones could be guessed.
const TOKEN: RangeInclusive<usize> = 32..=512;
/// A token and what editors put behind it.
const MAX_TOKEN_FILE: usize = 1024;

/// A few monitors, each of which comes some times a minute.
const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 32,
    per_host: 8,
    host_rate: Rate { per_minute: 120, burst: 30 },
    handshake_rate: Rate { per_minute: 600, burst: 60 },
    first_byte: Duration::from_secs(3),
};

/// Why the files of a section `metrics` are refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// A file is unsafe, unreadable or holds nothing usable.
    #[error("{0}")]
    File(#[from] PemError),
    /// The token's file is unsafe or unreadable.
    #[error("{error}; {remedy}", error = .0, remedy = .0.code().remedy())]
    TokenFile(KeyError),
    /// The token could be guessed, or is none.
    #[error(
        "{}: not one token of {} to {} letters, digits and -._~+/=; make one with: openssl rand -hex 32",
        .0.display(), TOKEN.start(), TOKEN.end()
    )]
    Token(PathBuf),
    /// The client authorities make no verifier.
    #[error("`metrics.client_ca` cannot be used: {0}")]
    Verifier(VerifierBuilderError),
    /// Certificate and key do not belong together, or are of a kind that TLS 1.3 cannot use.
    #[error("`metrics.certificate` and `metrics.private_key` cannot be used: {0}")]
    Identity(rustls::Error),
}

/// Reads the files of a section `metrics`, where there is one, so that what is wrong is said before anything is served.
///
/// # Errors
/// [`GuardError`].
pub fn check(config: Option<&MetricsConfig>) -> Result<(), GuardError> {
    config.map_or(Ok(()), |config| Guard::read(config).map(drop))
}

/// What the files hold.
struct Guard {
    acceptor: TlsAcceptor,
    token: Option<SecretVec>,
}

impl Guard {
    fn read(config: &MetricsConfig) -> Result<Self, GuardError> {
        let MetricsConfig { listen: _, certificate, private_key: key, token_file, client_ca } = config;
        let now = UnixTime::now();
        let (chain, key) = (certificates(certificate)?, private_key(key)?);
        check_identity(certificate, &chain, &key, webpki::KeyUsage::server_auth(), now)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(GuardError::Identity)?;
        let tls = match client_ca {
            None => tls.with_no_client_auth(),
            Some(path) => {
                check_authorities(path, now)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities(path)?, provider).build();
                tls.with_client_cert_verifier(verifier.map_err(GuardError::Verifier)?)
            }
        };
        let mut tls = tls.with_single_cert(chain, key).map_err(GuardError::Identity)?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        // Every connection shows its certificate.
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
        let token = token_file.as_deref().map(token).transpose()?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(tls)), token })
    }
}

/// Whether a request shows the token, if one is demanded.
fn lets_in(token: Option<&SecretVec>, head: &[u8]) -> bool {
    let Some(token) = token else { return true };
    shown(head).is_some_and(|shown| shown.ct_eq(token.expose()).into())
}

fn token(path: &Path) -> Result<SecretVec, GuardError> {
    let file = read_private_file(path, MAX_TOKEN_FILE).map_err(GuardError::TokenFile)?;
    let text = file.expose().trim_ascii();
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    if TOKEN.contains(&text.len()) && text.iter().all(is_of_token) {
        return Ok(SecretVec::from_slice(text));
    }
    Err(GuardError::Token(path.to_owned()))
}

/// The bearer token of a request, if it has one, and one `Authorization`.
fn shown(head: &[u8]) -> Option<&[u8]> {
    let mut found = None;
    for line in head.split(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.and_then(|at| line.split_at_checked(at)) else { continue };
        if name.eq_ignore_ascii_case(b"authorization") && found.replace(value.get(1..)?.trim_ascii()).is_some() {
            return None;
        }
    }
    let (scheme, token) = found?.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// The pages behind it.
pub(crate) struct Guarded {
    config: MetricsConfig,
    admin: Arc<dyn Admin>,
    noise: LogLimiter,
}

impl Guarded {
    pub(crate) fn new(config: MetricsConfig, admin: Arc<dyn Admin>) -> Self {
        Self { config, admin, noise: LogLimiter::new() }
    }

    /// Its connections are counted by themselves: whoever is turned away here takes no node's place.
    pub(crate) fn table() -> ConnectionTable {
        ConnectionTable::new(LIMITS)
    }

    async fn answer(&self, visit: Visit) -> Result<(), String> {
        let Visit { stream, address: _, shown } = visit;
        let config = self.config.clone();
        let guard = smol::unblock(move || Guard::read(&config)).await.map_err(|error| error.to_string())?;
        let stream = guard.acceptor.accept(stream).await.map_err(|error| error.to_string())?;
        answer(stream, guard.token.as_ref(), &*self.admin).await.map_err(|error| error.to_string())??;
        shown.admitted();
        Ok(())
    }
}

/// Answers one request; why it was not let in.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    token: Option<&SecretVec>,
    admin: &dyn Admin,
) -> io::Result<Result<(), &'static str>> {
    let (response, let_in) = match admin::read_head(&mut stream).await? {
        None => (Response::too_large(), Err("the request's head is too large")),
        Some(head) if lets_in(token, &head) => (admin::respond(&head, admin), Ok(())),
        Some(_) => (Response::unauthorised(), Err("the request shows no token, or a wrong one")),
    };
    admin::send(stream, &response).await?;
    Ok(let_in)
}

impl Connections for Guarded {
    async fn connection(self: Arc<Self>, visit: Visit, stop: Stop) {
        let peer = visit.address;
        let late = async {
            Timer::after(DEADLINE).await;
            Err("too slow".to_owned())
        };
        let stopped = async {
            stop.wait().await;
            Ok(())
        };
        if let Err(error) = self.answer(visit).or(late).or(stopped).await
            && let Some(left_out) = self.noise.write_now()
        {
            tracing::warn!(%peer, error, left_out, "A request for the metrics was not answered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn a_token_is_found_where_the_protocol_has_it_and_nowhere_else() {
        let found = |head: &str| shown(head.as_bytes()).map(<[u8]>::to_vec);
        let get = "GET /metrics HTTP/1.1\r\nHost: a:1\r\n";
        for (header, expected) in [
            ("Authorization: Bearer abc", Some("abc")),
            ("authorization:bearer  abc ", Some("abc")),
            ("Authorization: Basic abc", None),
            ("Authorization: Bearer", None),
            ("Authorization: Bearerabc", None),
            ("X-Authorization: Bearer abc", None),
            ("X: Authorization: Bearer abc", None),
            ("Authorization: Bearer abc\r\nAuthorization: Bearer abc", None),
        ] {
            let head = format!("{get}{header}\r\n\r\n");
            assert_eq!(found(&head), expected.map(|token| token.as_bytes().to_vec()), "{header}");
        }
    }

    struct Nothing;

    impl Admin for Nothing {
        fn metrics(&self) -> String {
            String::new()
        }

        fn health(&self) -> Result<Vec<String>, String> {
            Ok(Vec::new())
        }
    }

    /// Whoever is let in has a place of its own from then on.
    #[test]
    fn only_a_whole_request_with_the_token_is_let_in() {
        let token = SecretVec::from_slice(&[b'a'; 32]);
        let right = format!("GET /healthz HTTP/1.1\r\nAuthorization: Bearer {}\r\n\r\n", "a".repeat(32));
        let large = format!("GET /healthz HTTP/1.1\r\nX: {}", "x".repeat(9 * 1024));
        for (request, token, status, let_in) in [
            (&right, Some(&token), "200", true),
            (&"GET /healthz HTTP/1.1\r\n\r\n".to_owned(), Some(&token), "401", false),
            (&"GET /healthz HTTP/1.1\r\n\r\n".to_owned(), None, "200", true),
            (&large, Some(&token), "431", false),
            (&large, None, "431", false),
        ] {
            let (mut ours, theirs) = smol::net::unix::UnixStream::pair().unwrap();
            let (answered, said) = smol::block_on(async {
                ours.write_all(request.as_bytes()).await.unwrap();
                let answered = answer(theirs, token, &Nothing).await.unwrap();
                let mut said = vec![0; b"HTTP/1.1 200".len()];
                ours.read_exact(&mut said).await.unwrap();
                (answered, String::from_utf8(said).unwrap())
            });
            assert_eq!((answered.is_ok(), said), (let_in, format!("HTTP/1.1 {status}")), "{} bytes", request.len());
        }
    }

    proptest! {
        #[test]
        fn a_token_is_a_part_of_what_was_sent(head: Vec<u8>) {
            prop_assert!(shown(&head).is_none_or(|token| head.windows(token.len().max(1)).any(|part| part == token) || token.is_empty()));
        }
    }
}

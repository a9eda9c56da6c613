//! TLS of the service: certificate and key, read anew on request.

use futures_rustls::TlsAcceptor;
use latchkey_service_runtime::pem::{PemError, certificates, check_identity, private_key};
use rustls::ServerConfig;
use rustls::pki_types::UnixTime;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// The one protocol that is spoken.
const ALPN: &[u8] = b"http/1.1";

/// Why certificate and key are refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is unsafe, unreadable or holds nothing usable.
    #[error("{0}")]
    File(#[from] PemError),
    /// Certificate and key do not belong together, or are of a kind that TLS 1.3 cannot use.
    #[error("`certificate` and `private_key` cannot be used: {0}")]
    Identity(rustls::Error),
}

/// Where certificate and key are.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) private_key: PathBuf,
}

/// What is in force.
pub(crate) struct Tls {
    files: TlsFiles,
    current: RwLock<TlsAcceptor>,
}

impl Tls {
    pub(crate) fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self { current: RwLock::new(acceptor(&files)?), files })
    }

    /// For the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the files hold now, not yet in force.
    pub(crate) fn read_again(&self) -> Result<TlsAcceptor, TlsError> {
        acceptor(&self.files)
    }

    pub(crate) fn replace(&self, acceptor: TlsAcceptor) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
    }
}

fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let (chain, key) = (certificates(&files.certificate)?, private_key(&files.private_key)?);
    check_identity(&files.certificate, &chain, &key, webpki::KeyUsage::server_auth(), UnixTime::now())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(TlsError::Identity)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(TlsError::Identity)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

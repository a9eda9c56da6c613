//! rustls set up for one connection: everything that could carry over from another is off.

use std::sync::Arc;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::provider::{ConnectionKey, ConnectionKeyError, P256Key, provider};
use super::verifier::AnyHolder;
use super::{ALPN, Spki, SpkiHash};
use crate::purpose::Side;

/// A connection about to begin with this key, and the key's hash.
pub(super) fn connection(side: Side, key: P256Key) -> Result<(Connection, SpkiHash), SetupError> {
    let (certified, spki) = certified(key)?;
    let certified = Arc::new(certified);
    let connection = match side {
        Side::Client => client(certified)?.into(),
        Side::Server => server(certified)?.into(),
    };
    Ok((connection, spki.hash()))
}

/// The key with what shows it to the peer. rustls keeps a raw public key where a certificate would be.
pub(super) fn certified(key: P256Key) -> Result<(CertifiedKey, Spki), ConnectionKeyError> {
    let spki = Spki::from_point(key.point()?);
    let shown = vec![CertificateDer::from(spki.as_der().to_vec())];
    Ok((CertifiedKey::new(shown, Arc::new(ConnectionKey(Arc::new(key)))), spki))
}

fn client(certified: Arc<CertifiedKey>) -> Result<ClientConnection, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyHolder))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    // A raw key says nothing about names, so there is none to ask for.
    config.enable_sni = false;
    let nobody = ServerName::try_from("latchkey.invalid").map_err(|_| rustls::Error::UnsupportedNameType)?;
    ClientConnection::new(Arc::new(config), nobody)
}

fn server(certified: Arc<CertifiedKey>) -> Result<ServerConnection, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(AnyHolder))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    ServerConnection::new(Arc::new(config))
}

/// A connection cannot even begin: no randomness.
#[derive(Debug)]
pub(super) struct SetupError;

impl From<ConnectionKeyError> for SetupError {
    fn from(ConnectionKeyError: ConnectionKeyError) -> Self {
        Self
    }
}

impl From<rustls::Error> for SetupError {
    fn from(_: rustls::Error) -> Self {
        Self
    }
}

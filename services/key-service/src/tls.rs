//! Mutual TLS 1.3: what the service shows, what it demands, and whose certificate it saw.

use crate::callers::CallerName;
use crate::config::TlsFiles;
use futures_rustls::TlsAcceptor;
use latchkey_service_runtime::pem::{
    PemError, authorities, certificates, check_authorities, check_identity, private_key,
};
use rustls::pki_types::UnixTime;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ServerConfig, ServerConnection};
use std::sync::Arc;

/// gRPC needs HTTP/2, and ALPN keeps any other protocol's bytes away from it.
const ALPN: &[u8] = b"h2";

/// Why the TLS files are refused. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// A file is unsafe, unreadable or holds nothing usable.
    #[error("{0}")]
    File(#[from] PemError),
    /// The client authorities make no verifier.
    #[error("`tls.client_ca` cannot be used: {0}")]
    Verifier(VerifierBuilderError),
    /// Certificate and key do not belong together, or are of a kind that TLS 1.3 cannot use.
    #[error("`tls.certificate` and `tls.private_key` cannot be used: {0}")]
    Identity(rustls::Error),
}

/// Loads the files. The result takes TLS 1.3 from clients with a certificate by one of the authorities, and nothing else:
/// no resumption, so that every connection shows its certificate, and no early data.
///
/// # Errors
/// [`TlsError`].
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let now = UnixTime::now();
    check_authorities(&files.client_ca, now)?;
    let (chain, key) = (certificates(&files.certificate)?, private_key(&files.private_key)?);
    check_identity(&files.certificate, &chain, &key, webpki::KeyUsage::server_auth(), now)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(authorities(&files.client_ca)?, provider.clone())
        .build()
        .map_err(TlsError::Verifier)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(TlsError::Identity)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(TlsError::Identity)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The names in the client's certificate. rustls has verified it by now; without one there are no names.
pub(crate) fn peer_names(connection: &ServerConnection) -> Vec<CallerName> {
    let Some(leaf) = connection.peer_certificates().and_then(<[_]>::first) else { return Vec::new() };
    let Ok(certificate) = webpki::EndEntityCert::try_from(leaf) else { return Vec::new() };
    let dns = certificate.valid_dns_names().map(|name| CallerName::Dns(name.to_ascii_lowercase()));
    let uris = certificate.valid_uri_names().map(|name| CallerName::Uri(name.to_owned()));
    dns.chain(uris).collect()
}

//! Latchkey's own client, as the join service uses it.

use super::pki::Identity;
use futures_rustls::TlsConnector;
use futures_rustls::client::TlsStream;
use latchkey_api::v1::GetDataKeyRequest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use smol::net::TcpStream;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

pub async fn connect(address: SocketAddr, ca: &Path, identity: &Identity) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_file(&identity.certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let mut config = config.with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::from(address.ip()), stream).await
}

pub fn question() -> GetDataKeyRequest {
    GetDataKeyRequest { key_id: "measurement-secret".to_owned(), length: 32, version: 0 }
}

//! Plain mutual TLS 1.3 with rustls: what an ordinary service pays for certificates on both sides.

use std::io::{Read, Write};
use std::sync::Arc;

use latchkey_bench::{Bench, Figure};
use rcgen::{CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

/// A handshake with one authority, a certificate of it on each side, and one byte of data. No asynchronous I/O, no
/// buffers between: the least that rustls can take.
pub(crate) fn mutual() -> Figure {
    let (client, server) = configurations().expect("certificates made here are good");
    let what = "rustls: mutual TLS 1.3 handshake, P-256 certificates, both ends";
    Bench::quiet().measure("rustls/mutual", what, || handshake(&client, &server))
}

fn handshake(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) {
    let name = ServerName::try_from(NAME).expect("a name");
    let mut client = Connection::from(ClientConnection::new(Arc::clone(client), name).expect("a configuration"));
    let mut server = Connection::from(ServerConnection::new(Arc::clone(server)).expect("a configuration"));
    while client.is_handshaking() || server.is_handshaking() {
        carry(&mut client, &mut server);
        carry(&mut server, &mut client);
    }
    client.writer().write_all(b"!").expect("room for a byte");
    carry(&mut client, &mut server);
    server.reader().read_exact(&mut [0]).expect("the byte");
}

fn carry(from: &mut Connection, to: &mut Connection) {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).expect("memory takes everything");
    }
    let mut wire = &wire[..];
    while !wire.is_empty() {
        to.read_tls(&mut wire).expect("memory gives everything");
        to.process_new_packets().expect("an honest peer");
    }
}

const NAME: &str = "join.example";

fn configurations() -> Result<(Arc<ClientConfig>, Arc<ServerConfig>), Box<dyn std::error::Error>> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "authority");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone())?;
    let roots = Arc::new(roots);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider)).build()?;

    let (certificate, key) = certified(&authority)?;
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificate, key)?;
    server.send_tls13_tickets = 0;
    let (certificate, key) = certified(&authority)?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificate, key)?;
    client.resumption = rustls::client::Resumption::disabled();
    Ok((Arc::new(client), Arc::new(server)))
}

type Certified = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn certified(authority: &CertifiedIssuer<'_, KeyPair>) -> Result<Certified, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![NAME.to_owned()])?.signed_by(&key, authority)?;
    Ok((vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

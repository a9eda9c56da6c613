//! Below the frames: a peer whose TLS is not the channel's.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream as Wire;
use std::sync::Arc;

use latchkey_channel::rig::{self, SharedKey};
use latchkey_channel::tls::{ALPN, TlsError};
use latchkey_channel::{Blame, ChannelError, Purpose, Side, accept, connect};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ResolvesClientCert};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, HandshakeKind, ServerConfig,
    ServerConnection, SignatureScheme,
};
use smol::future::zip;
use smol::net::unix::UnixStream;

use crate::support::world::{TIME, join_terms, wire};

/// Lets `attack` loose on an honest server; gives the server's error and what the attack saw.
fn attack_server<T: Send + 'static>(attack: impl FnOnce(Wire) -> T + Send + 'static) -> (ChannelError, T) {
    let (_, server) = join_terms();
    let (near, far) = Wire::pair().unwrap();
    let reception = move |_| Some(server.clone());
    let far = UnixStream::try_from(far).unwrap();
    let (server, seen) =
        latchkey_test_support::block_on(zip(accept(far, &reception, TIME), smol::unblock(move || attack(near))));
    (server.unwrap_err(), seen)
}

/// Lets `attack` loose on an honest client.
fn attack_client<T: Send + 'static>(attack: impl FnOnce(Wire) -> T + Send + 'static) -> (ChannelError, T) {
    let (client, _) = join_terms();
    let (near, far) = Wire::pair().unwrap();
    let near = UnixStream::try_from(near).unwrap();
    let (client, seen) = latchkey_test_support::block_on(zip(
        connect(near, Purpose::Join, client, TIME),
        smol::unblock(move || attack(far)),
    ));
    (client.unwrap_err(), seen)
}

/// An alert record, fatal (RFC 8446 section 6).
fn alert(description: u8) -> Vec<u8> {
    vec![0x15, 0x03, 0x03, 0x00, 0x02, 0x02, description]
}

const PROTOCOL_VERSION: u8 = 70;

fn sized(width: usize, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&length[4 - width..], body].concat()
}

fn handshake_record(kind: u8, body: &[u8]) -> Vec<u8> {
    let message = [&[kind][..], &sized(3, body)].concat();
    [&[0x16, 0x03, 0x03][..], &sized(2, &message)].concat()
}

#[test]
fn a_tls_1_2_client_is_refused() {
    let extension = |kind: u16, body: &[u8]| [&kind.to_be_bytes()[..], &sized(2, body)].concat();
    let extensions = [
        extension(10, &sized(2, &[0x00, 0x17])),
        extension(11, &sized(1, &[0x00])),
        extension(13, &sized(2, &[0x04, 0x03])),
        extension(16, &sized(2, &sized(1, ALPN))),
        extension(23, &[]),
    ]
    .concat();
    let hello = [
        &[0x03, 0x03][..],
        &[0x42; 32],
        &[0],
        // TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, and in case it helps the TLS 1.3 suite.
        &sized(2, &[0xc0, 0x2b, 0x13, 0x01]),
        &sized(1, &[0]),
        &sized(2, &extensions),
    ]
    .concat();
    let (error, answer) = attack_server(move |mut wire| {
        wire.write_all(&handshake_record(1, &hello)).unwrap();
        let mut answer = Vec::new();
        wire.read_to_end(&mut answer).unwrap();
        answer
    });
    assert_eq!(error.code().as_str(), "tls-refused");
    assert_eq!(error.blame(), Blame::Peer);
    assert_eq!(answer, alert(PROTOCOL_VERSION));
}

#[test]
fn a_tls_1_2_server_is_refused() {
    let (error, answer) = attack_client(|mut wire| {
        let mut hello = [0; 5];
        wire.read_exact(&mut hello).unwrap();
        let mut rest = vec![0; usize::from(u16::from_be_bytes([hello[3], hello[4]]))];
        wire.read_exact(&mut rest).unwrap();
        let session = rest[38..][1..=usize::from(rest[38])].to_vec();
        let server_hello = [&[0x03, 0x03][..], &[0x42; 32], &sized(1, &session), &[0xc0, 0x2b], &[0], &[0, 0]].concat();
        wire.write_all(&handshake_record(2, &server_hello)).unwrap();
        let mut answer = Vec::new();
        wire.read_to_end(&mut answer).unwrap();
        answer
    });
    assert_eq!(error.code().as_str(), "tls-refused");
    assert_eq!(answer, alert(PROTOCOL_VERSION));
}

#[test]
fn something_that_is_not_tls_is_refused() {
    let (error, ()) = attack_server(|mut wire| wire.write_all(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n").unwrap());
    assert_eq!(error.code().as_str(), "tls-refused");
    let (error, ()) = attack_server(drop);
    assert_eq!((error.code().as_str(), error.blame()), ("transport-failed", Blame::Network));
}

/// What the attacker's rustls believes of anybody.
#[derive(Debug)]
struct Gullible {
    raw_keys: bool,
}

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw_keys
    }
}

impl ClientCertVerifier for Gullible {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.raw_keys
    }
}

/// What a side shows for a certificate.
enum Shows {
    Nothing,
    RawKey(CertifiedKey),
    Certificate(CertifiedKey),
}

fn client_config(shows: Shows, alpn: &[&[u8]]) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(rig::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible { raw_keys: true }));
    let mut config = match shows {
        Shows::Nothing => builder.with_client_cert_resolver(Arc::new(Nothing)),
        Shows::RawKey(key) => {
            builder.with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::new(key))))
        }
        Shows::Certificate(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

/// Speaks of raw keys and shows none.
#[derive(Debug)]
struct Nothing;

impl ResolvesClientCert for Nothing {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        true
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

fn server_config(shows: Shows, takes_raw_keys: bool, alpn: &[&[u8]]) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(rig::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::new(Gullible { raw_keys: takes_raw_keys }));
    let mut config = match shows {
        Shows::Nothing => unreachable!("a TLS 1.3 server must show something"),
        Shows::RawKey(key) => {
            builder.with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(key))))
        }
        Shows::Certificate(key) => builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

fn fresh() -> CertifiedKey {
    SharedKey::new().for_rustls()
}

/// Runs a client's TLS as far as it goes, closes, and listens until the other end is gone.
fn run_client(config: &Arc<ClientConfig>, wire: Wire) -> rustls::Connection {
    let nobody = ServerName::try_from("latchkey.invalid").unwrap();
    run(ClientConnection::new(config.clone(), nobody).unwrap().into(), wire)
}

/// The same for a server's TLS.
fn run_server(config: &Arc<ServerConfig>, wire: Wire) -> rustls::Connection {
    run(ServerConnection::new(config.clone()).unwrap().into(), wire)
}

fn run(mut tls: rustls::Connection, mut wire: Wire) -> rustls::Connection {
    while tls.is_handshaking() || tls.wants_write() {
        if tls.complete_io(&mut wire).is_err() {
            return tls;
        }
    }
    wire.shutdown(std::net::Shutdown::Write).unwrap();
    while matches!(tls.read_tls(&mut wire), Ok(len) if len > 0) {
        if tls.process_new_packets().is_err() {
            break;
        }
    }
    tls
}

fn attack_with(config: ClientConfig) -> ChannelError {
    attack_server(move |wire| drop(run_client(&Arc::new(config), wire))).0
}

#[test]
fn a_client_without_a_key_is_refused() {
    let error = attack_with(client_config(Shows::Nothing, &[ALPN]));
    assert!(matches!(&error, ChannelError::Tls(TlsError::Protocol(rustls::Error::NoCertificatesPresented))), "{error}");
}

#[test]
fn another_application_protocol_is_refused() {
    for (offered, code) in [
        (&[][..], "tls-protocol-name"),
        (&[&b"h2"[..]][..], "tls-refused"),
        (&[&b"latchkey/2"[..], b"http/1.1"][..], "tls-refused"),
    ] {
        assert_eq!(attack_with(client_config(Shows::RawKey(fresh()), offered)).code().as_str(), code);
    }
    let (error, ()) = attack_client(|wire| {
        drop(run_server(&Arc::new(server_config(Shows::RawKey(fresh()), true, &[])), wire));
    });
    assert_eq!(error.code().as_str(), "tls-protocol-name");
    // The right name among others is the right name.
    let error = attack_with(client_config(Shows::RawKey(fresh()), &[b"h2", ALPN]));
    assert_eq!(error.code().as_str(), "frame-truncated");
}

/// An X.509 certificate, whatever is in it, is not even read: raw keys are all that either side negotiates.
#[test]
fn an_x509_certificate_is_refused() {
    let negotiated = |error: &ChannelError| {
        let incompatible = rustls::PeerIncompatible::IncorrectCertificateTypeExtension;
        matches!(error, ChannelError::Tls(TlsError::Protocol(rustls::Error::PeerIncompatible(got))) if *got == incompatible)
    };
    let error = attack_with(client_config(Shows::Certificate(fresh()), &[ALPN]));
    assert!(negotiated(&error), "{error}");
    for (shows, takes_raw_keys) in [(Shows::Certificate(fresh()), true), (Shows::RawKey(fresh()), false)] {
        let config = Arc::new(server_config(shows, takes_raw_keys, &[ALPN]));
        let (error, ()) = attack_client(move |wire| drop(run_server(&config, wire)));
        assert_eq!((error.code().as_str(), error.blame()), ("tls-refused", Blame::Peer), "{error}");
    }
}

#[test]
fn more_than_one_key_is_refused() {
    let mut two = fresh();
    two.cert.push(fresh().cert[0].clone());
    let error = attack_with(client_config(Shows::RawKey(two), &[ALPN]));
    assert_eq!((error.code().as_str(), error.blame()), ("tls-refused", Blame::Peer), "{error}");
}

#[test]
fn a_key_of_another_form_or_size_is_refused() {
    let genuine = fresh();
    let changed = |position: usize, bit: u8| {
        let mut der = genuine.cert[0].to_vec();
        der[position] ^= bit;
        der
    };
    let forms = [
        // Another curve's name, a compressed point, a point beside the curve.
        changed(22, 1),
        changed(26, 0x04 ^ 0x02),
        changed(90, 1),
        vec![0x30; 60_000],
        vec![0x30, 0x00],
        genuine.cert[0][..90].to_vec(),
    ];
    for der in forms {
        let certified = CertifiedKey::new(vec![CertificateDer::from(der)], genuine.key.clone());
        let error = attack_with(client_config(Shows::RawKey(certified.clone()), &[ALPN]));
        assert_eq!((error.code().as_str(), error.blame()), ("tls-refused", Blame::Peer), "{error}");
        let config = Arc::new(server_config(Shows::RawKey(certified), true, &[ALPN]));
        let (error, ()) = attack_client(move |wire| drop(run_server(&config, wire)));
        assert_eq!((error.code().as_str(), error.blame()), ("tls-refused", Blame::Peer), "{error}");
    }
}

#[test]
fn a_key_that_the_peer_does_not_hold_is_refused() {
    let bad_signature = |error: &ChannelError| {
        let wrong = rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature);
        matches!(error, ChannelError::Tls(TlsError::Protocol(got)) if *got == wrong)
    };
    let thief = CertifiedKey::new(fresh().cert, fresh().key);
    let error = attack_with(client_config(Shows::RawKey(thief.clone()), &[ALPN]));
    assert!(bad_signature(&error), "{error}");
    let config = Arc::new(server_config(Shows::RawKey(thief), true, &[ALPN]));
    let (error, ()) = attack_client(move |wire| drop(run_server(&config, wire)));
    assert!(bad_signature(&error), "{error}");
}

/// Both ends are the same party, or one mirrors the other.
#[test]
fn our_own_key_at_the_other_end_is_refused() {
    let key = SharedKey::new();
    let (near, far) = wire();
    let (client, server) = latchkey_test_support::block_on(zip(
        rig::unproven(&key, near, Side::Client),
        rig::unproven(&key, far, Side::Server),
    ));
    assert!(matches!(client, Err(TlsError::OwnKey)));
    assert!(matches!(server, Err(TlsError::OwnKey)));
}

/// A client that keeps whatever it is given and would resume gets nothing to resume with.
#[test]
fn resumption_is_never_offered_to_a_client() {
    let config = Arc::new(client_config(Shows::RawKey(fresh()), &[ALPN]));
    for _ in 0..2 {
        let config = config.clone();
        let (error, tls) = attack_server(move |wire| run_client(&config, wire));
        assert_eq!(error.code().as_str(), "frame-truncated", "TLS itself was fine");
        let rustls::Connection::Client(tls) = tls else { unreachable!() };
        assert_eq!(tls.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(tls.tls13_tickets_received(), 0);
    }
}

/// A server that hands out tickets never sees one again.
#[test]
fn resumption_is_never_asked_of_a_server() {
    let mut config = server_config(Shows::RawKey(fresh()), true, &[ALPN]);
    config.send_tls13_tickets = 4;
    config.max_early_data_size = 16_384;
    config.session_storage = rustls::server::ServerSessionMemoryCache::new(64);
    let config = Arc::new(config);
    for _ in 0..2 {
        let config = config.clone();
        let (error, tls) = attack_client(move |wire| run_server(&config, wire));
        assert_eq!(error.code().as_str(), "frame-truncated", "TLS itself was fine");
        assert_eq!(tls.handshake_kind(), Some(HandshakeKind::Full));
    }
}

/// The connection is cut at every byte of the client's first flight.
#[test]
fn a_truncated_tls_handshake_is_an_error() {
    let config = Arc::new(client_config(Shows::RawKey(fresh()), &[ALPN]));
    let mut tls = ClientConnection::new(config, ServerName::try_from("latchkey.invalid").unwrap()).unwrap();
    let mut flight = Vec::new();
    tls.write_tls(&mut flight).unwrap();
    for len in 0..flight.len() {
        let part = flight[..len].to_vec();
        let (error, ()) = attack_server(move |mut wire| wire.write_all(&part).unwrap());
        assert_eq!(error.code().as_str(), "transport-failed", "{len} bytes");
    }
}

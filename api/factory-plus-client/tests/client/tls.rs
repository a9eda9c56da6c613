//! TLS: whose certificate is believed.

use std::sync::Arc;

use futures_rustls::TlsAcceptor;
use latchkey_factory_plus_client::{CallError, Services, Trust};
use latchkey_test_support::block_on;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::TcpListener;

use crate::support::{SERVICE, client, limits};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Answers every request with a token that is a body, too; for one name.
fn serve(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (u16, smol::Task<()>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = smol::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut bytes = [0; 4096];
            while let Ok(1..) = stream.read(&mut bytes).await {
                let body = json!({"token": "abc", "expiry": u64::MAX / 2}).to_string();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    });
    (port, task)
}

fn ask(port: u16, trust: Trust) -> Result<Option<Value>, CallError> {
    let services = Services::fixed([(SERVICE, format!("https://localhost:{port}").parse().unwrap())]);
    block_on(client(services, trust, limits()).service(SERVICE).read("v2/x"))
}

#[test]
fn a_service_is_known_by_its_authority_and_its_name() {
    let (ours, other) = (authority(), authority());
    let (port, _task) = serve(&ours, "localhost");
    let trusting = |authority: &CertifiedIssuer<'static, KeyPair>| Trust::pem(authority.pem().as_bytes()).unwrap();
    assert_eq!(ask(port, trusting(&ours)).unwrap().unwrap()["token"], "abc");
    let error = ask(port, trusting(&other)).unwrap_err();
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    let (port, _task) = serve(&ours, "elsewhere.example");
    let error = ask(port, trusting(&ours)).unwrap_err();
    assert!(error.to_string().contains("not valid for name"), "{error}");
    assert!(matches!(ask(port, Trust::none()), Err(CallError::NotTrusted { .. })));
}

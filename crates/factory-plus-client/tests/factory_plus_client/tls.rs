//! TLS: whose certificate is believed.

use std::sync::Arc;

use async_tungstenite::accept_async;
use async_tungstenite::tungstenite::Message;
use futures_rustls::TlsAcceptor;
use futures_rustls::server::TlsStream;
use latchkey_factory_plus_client::notify::State;
use latchkey_factory_plus_client::{CallError, Client, Services, Trust};
use latchkey_test_support::block_on;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::{TcpListener, TcpStream};
use smol::stream::StreamExt as _;

use crate::support::{SERVICE, client, limits};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Answers with a token that is a body, too, on its first connection, and to change notification on all others; for one name.
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
        let mut connections = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            connections.push(if connections.is_empty() {
                smol::spawn(http(stream))
            } else {
                smol::spawn(notify(stream))
            });
        }
    });
    (port, task)
}

async fn http(mut stream: TlsStream<TcpStream>) {
    let mut bytes = [0; 4096];
    while let Ok(1..) = stream.read(&mut bytes).await {
        let body = json!({"token": "abc", "expiry": u64::MAX / 2}).to_string();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Tells every subscription the token that it was given.
async fn notify(stream: TlsStream<TcpStream>) {
    let Ok(mut socket) = accept_async(stream).await else { return };
    let mut token = None;
    while let Some(Ok(Message::Text(frame))) = socket.next().await {
        let answer = if token.is_none() {
            token = Some(frame.to_string());
            "200".into()
        } else {
            let request: Value = serde_json::from_str(&frame).unwrap();
            json!({"uuid": request["uuid"], "status": 201, "response": {"status": 200, "body": token}}).to_string()
        };
        if socket.send(Message::text(answer)).await.is_err() {
            return;
        }
    }
}

fn of(port: u16, trust: Trust) -> Client {
    let services = Services::fixed([(SERVICE, format!("https://localhost:{port}").parse().unwrap())]);
    client(services, trust, limits())
}

fn ask(port: u16, trust: Trust) -> Result<Option<Value>, CallError> {
    block_on(of(port, trust).service(SERVICE).read("v2/x"))
}

#[test]
fn change_notification_is_spoken_with_tls_and_with_those_who_are_trusted_only() {
    let (ours, other) = (authority(), authority());
    let (port, _task) = serve(&ours, "localhost");
    let watching = |authority: &CertifiedIssuer<'static, KeyPair>| {
        let client = of(port, Trust::pem(authority.pem().as_bytes()).unwrap());
        let mut watch = client.service(SERVICE).notify().watch("v2/x");
        block_on(watch.changed());
        watch
    };
    let State::Stale { reason, .. } = watching(&other).state() else { panic!("it believes anybody") };
    assert!(reason.contains("invalid peer certificate"), "{reason}");
    assert_eq!(watching(&ours).reading().unwrap().body.as_deref(), Some(&json!("Bearer abc")));
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

//! Latchkey's own client over mutual TLS, as the join service uses it.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod rig;

use futures_rustls::TlsConnector;
use latchkey_api::grpc::{Channel, Code, Limits};
use latchkey_api::v1::{GetDataKeyRequest, KeysClient};
use rig::pki::Identity;
use rig::{JOIN, Rig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use smol::future::FutureExt;
use smol::net::TcpStream;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn connect(address: SocketAddr, ca: &Path, identity: &Identity) -> futures_rustls::client::TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_file(&identity.certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let mut config = config.with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    TlsConnector::from(Arc::new(config)).connect(ServerName::from(address.ip()), stream).await.unwrap()
}

fn question() -> GetDataKeyRequest {
    GetDataKeyRequest { key_id: "measurement-secret".to_owned(), length: 32, version: 0 }
}

#[test]
fn our_own_client_gets_the_derived_key() {
    let rig = Rig::new();
    let service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let expected = rig.master.measurement_secret(rig.master.current()).unwrap();
    latchkey_test_support::block_on(async {
        let stream = connect(service.address(), &rig.servers.certificate(), &join).await;
        let (channel, driver) = Channel::open(stream, Limits::default()).await.unwrap();
        let calls = async {
            let client = KeysClient::new(channel);
            let mut answer = client.get_data_key(&question(), Duration::from_mins(1)).await.unwrap();
            assert_eq!(answer.take_data_key().as_slice(), expected.expose());
            let wrong = GetDataKeyRequest { length: 8, ..question() };
            let status = client.get_data_key(&wrong, Duration::from_mins(1)).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
        };
        let connection = async {
            panic!("the connection ended: {:?}", driver.await);
        };
        calls.or(connection).await;
    });
}

/// A connection that rests must not use up the time that calls get to finish.
#[test]
fn sigterm_closes_resting_connections_at_once() {
    let mut rig = Rig::new();
    rig.config["limits"] = json!({ "shutdown_seconds": 300 });
    let service = rig.start();
    let join = rig.client("join", &[JOIN]);
    latchkey_test_support::block_on(async {
        let stream = connect(service.address(), &rig.servers.certificate(), &join).await;
        let (channel, driver) = Channel::open(stream, Limits::default()).await.unwrap();
        let stopping = async {
            let client = KeysClient::new(channel);
            client.get_data_key(&question(), Duration::from_mins(1)).await.unwrap();
            let begun = Instant::now();
            let (status, log) = smol::unblock(|| service.stop()).await;
            assert!(status.success(), "{log}");
            assert!(begun.elapsed() < Duration::from_mins(1), "the resting connection was waited for");
        };
        let connection = async {
            // The service says goodbye while the other future waits for its process.
            let _ended = driver.await;
            std::future::pending::<()>().await;
        };
        stopping.or(connection).await;
    });
}

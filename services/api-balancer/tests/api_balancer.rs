//! The balancer on loopback, before API servers that are fakes: they hold connections, fail, lie and come back.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use futures_rustls::TlsAcceptor;
use latchkey_api_balancer::Config;
use latchkey_api_balancer::serve::{Balancer, Pace};
use latchkey_api_balancer::targets::Targets;
use latchkey_test_support::{Lines, block_on, output, until, wait};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const QUICK: Pace = Pace { probe: Duration::from_millis(20), rounds: 1 };

/// A fake API server without TLS: sends its name to whoever comes, then whatever it is sent.
struct Plain {
    address: SocketAddr,
    listener: smol::Task<()>,
    connections: Arc<Mutex<Vec<smol::net::TcpStream>>>,
}

impl Plain {
    fn start(name: u8) -> Self {
        let connections = Arc::new(Mutex::new(Vec::new()));
        let bound = smol::block_on(smol::net::TcpListener::bind(LOOPBACK)).unwrap();
        let address = bound.local_addr().unwrap();
        let kept = Arc::clone(&connections);
        let listener = smol::spawn(async move {
            while let Ok((stream, _)) = bound.accept().await {
                let mut answering = stream.clone();
                kept.lock().unwrap().push(stream);
                smol::spawn(async move {
                    // Probes go before they are answered.
                    if answering.write_all(&[name]).await.is_ok() {
                        let _ = smol::io::copy(answering.clone(), answering.clone()).await;
                        let _ = answering.shutdown(std::net::Shutdown::Write);
                    }
                })
                .detach();
            }
        });
        Self { address, listener, connections }
    }

    /// As a machine that loses its network: no new connections, and silence on those that are there.
    fn vanish(self) -> Arc<Mutex<Vec<smol::net::TcpStream>>> {
        let Self { listener, connections, .. } = self;
        smol::block_on(listener.cancel());
        connections
    }
}

struct Rig {
    files: tempfile::TempDir,
    address: SocketAddr,
    _serving: smol::Task<()>,
}

impl Rig {
    fn start(targets: &[SocketAddr], prepare: impl FnOnce(&Path)) -> Self {
        let files = tempfile::tempdir().unwrap();
        prepare(files.path());
        let config = config(files.path(), targets);
        let balancer = block_on(Balancer::bind(config, QUICK)).unwrap();
        let address = balancer.address().unwrap();
        Self { files, address, _serving: smol::spawn(balancer.serve()) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(latchkey_test_support::PATIENCE)).unwrap();
        stream
    }

    /// Who answers a new connection.
    fn answered_by(&self) -> Option<u8> {
        let mut name = [0];
        self.connect().read_exact(&mut name).ok().map(|()| name[0])
    }

    fn list(&self) -> Vec<SocketAddr> {
        Targets::read(&self.files.path().join("api-servers.json")).unwrap().iter().collect()
    }
}

fn config(files: &Path, targets: &[SocketAddr]) -> Config {
    let api_servers = files.join("api-servers.json");
    Targets::new(targets.iter().copied()).unwrap().write(&api_servers).unwrap();
    let (authority, client) = (files.join("ca.crt"), files.join("client.pem"));
    Config { schema: 1, listen: LOOPBACK, api_servers, authority, client, pages: None }
}

#[test]
fn bytes_go_both_ways_and_both_ends_hear_of_the_end() {
    let server = Plain::start(b'a');
    let rig = Rig::start(&[server.address], |_| ());
    let mut stream = rig.connect();
    let sent: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let (copy, expected) = (stream.try_clone().unwrap(), [b"a", &sent[..]].concat());
    let writing = std::thread::spawn(move || {
        (&copy).write_all(&sent).unwrap();
        copy.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    writing.join().unwrap();
    assert!(got == expected, "{} bytes", got.len());
}

#[test]
fn a_node_outlives_a_control_plane_and_finds_it_again_when_it_is_back() {
    let (a, b) = (Plain::start(b'a'), Plain::start(b'b'));
    let address = a.address;
    let rig = Rig::start(&[address, b.address], |_| ());
    for wanted in *b"ab" {
        until("both to be used", || rig.answered_by().filter(|name| *name == wanted));
    }
    let mut held = until("a connection to a", || {
        let (mut stream, mut name) = (rig.connect(), [0]);
        stream.read_exact(&mut name).unwrap();
        (name == *b"a").then_some(stream)
    });
    let silent = a.vanish();
    // Whoever waits for an answer that never comes is told to come again.
    let end = held.read(&mut [0]);
    assert!(
        matches!(&end, Ok(0)) || end.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset),
        "{end:?}"
    );
    for _ in 0..10 {
        assert_eq!(rig.answered_by(), Some(b'b'));
    }
    drop(silent);
    let back = smol::block_on(smol::net::TcpListener::bind(address)).unwrap();
    until("a to be used again", || {
        drop(rig.connect());
        smol::block_on(async {
            let (mut stream, _) = back.accept().await.ok()?;
            stream.write_all(b"x").await.ok()
        })
    });
}

#[test]
fn without_any_api_server_connections_end_and_the_balancer_stays() {
    let gone = {
        let listener = std::net::TcpListener::bind(LOOPBACK).unwrap();
        listener.local_addr().unwrap()
    };
    let rig = Rig::start(&[gone], |_| ());
    assert_eq!(rig.answered_by(), None);
    assert_eq!(rig.answered_by(), None);
}

/// A cluster's authority, and what it issues.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A fake API server with TLS: says that it is ready or not, and gives the list to whoever has a certificate.
struct Tls {
    address: SocketAddr,
    ready: Arc<AtomicBool>,
    probes: smol::channel::Receiver<()>,
    _serving: smol::Task<()>,
}

impl Tls {
    fn start(authority: &Authority, name: &str, list: &'static str) -> Self {
        let (certificate, key) = authority.issue(name, ExtendedKeyUsagePurpose::ServerAuth);
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.allow_unauthenticated().build().unwrap())
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let bound = smol::block_on(smol::net::TcpListener::bind(LOOPBACK)).unwrap();
        let (address, ready) = (bound.local_addr().unwrap(), Arc::new(AtomicBool::new(true)));
        let (note, probes) = smol::channel::unbounded();
        let says = Arc::clone(&ready);
        let serving = smol::spawn(async move {
            while let Ok((stream, _)) = bound.accept().await {
                let (acceptor, says, note) = (acceptor.clone(), Arc::clone(&says), note.clone());
                smol::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let knows = stream.get_ref().1.peer_certificates().is_some();
                    let mut request = [0; 512];
                    let length = stream.read(&mut request).await?;
                    let request = String::from_utf8_lossy(&request[..length]).into_owned();
                    let answer = match request.split(' ').nth(1) {
                        Some("/readyz") if says.load(Ordering::SeqCst) => "HTTP/1.0 200 OK\r\n\r\nok".to_owned(),
                        Some("/api/v1/namespaces/default/endpoints/kubernetes") if knows => {
                            format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{list}")
                        }
                        Some("/readyz") => "HTTP/1.0 500 Internal Server Error\r\n\r\n".to_owned(),
                        _ => "HTTP/1.0 403 Forbidden\r\n\r\n".to_owned(),
                    };
                    stream.write_all(answer.as_bytes()).await?;
                    stream.close().await?;
                    let _ = note.try_send(());
                    Ok::<_, std::io::Error>(())
                })
                .detach();
            }
        });
        Self { address, ready, probes, _serving: serving }
    }

    /// Blocks until it answered so often from now on.
    fn await_answers(&self, count: usize) {
        while self.probes.try_recv().is_ok() {}
        block_on(async {
            for _ in 0..count {
                self.probes.recv().await.unwrap();
            }
        });
    }
}

/// What a client sees: whose certificate answers at the other end.
fn reached(rig: &Rig, authority: &Authority) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = futures_rustls::TlsConnector::from(Arc::new(config));
    block_on(async {
        let Ok(stream) = smol::net::TcpStream::connect(rig.address).await else { return false };
        connector.connect("kubernetes".try_into().unwrap(), stream).await.is_ok()
    })
}

#[test]
fn whoever_is_not_of_the_cluster_or_not_ready_gets_no_connection_while_another_is_ready() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (good, impostor) = (Tls::start(&ours, "kubernetes", ""), Tls::start(&theirs, "kubernetes", ""));
    let (unready, misnamed) = (Tls::start(&ours, "kubernetes", ""), Tls::start(&ours, "other", ""));
    unready.ready.store(false, Ordering::SeqCst);
    let targets = [good.address, impostor.address, unready.address, misnamed.address];
    let rig = Rig::start(&targets, |files| fs::write(files.join("ca.crt"), &ours.certificate).unwrap());
    good.await_answers(3);
    for _ in 0..8 {
        assert!(reached(&rig, &ours));
    }
    while unready.probes.try_recv().is_ok() {}
    // Not ready any more: the other one is, and is used.
    good.ready.store(false, Ordering::SeqCst);
    unready.ready.store(true, Ordering::SeqCst);
    good.await_answers(4);
    unready.await_answers(2);
    assert!(reached(&rig, &ours));
}

const LIST: &str = r#"{"kind":"Endpoints","apiVersion":"v1","metadata":{"name":"kubernetes"},"subsets":[
    {"addresses":[{"ip":"192.0.2.1"},{"ip":"192.0.2.2"}],"ports":[{"name":"https","port":6443,"protocol":"TCP"}]}]}"#;

#[test]
fn the_clusters_own_list_takes_the_place_of_the_first_one_once_the_kubelet_has_its_certificate() {
    let ours = Authority::new();
    let server = Tls::start(&ours, "kubernetes", LIST);
    let rig = Rig::start(&[server.address], |files| fs::write(files.join("ca.crt"), &ours.certificate).unwrap());
    server.await_answers(4);
    assert_eq!(rig.list(), [server.address], "nobody may read the list without a certificate");
    let (certificate, key) = ours.issue("node", ExtendedKeyUsagePurpose::ClientAuth);
    // As the kubelet keeps it: a link to the current one, which has both.
    let current = rig.files.path().join("client-1.pem");
    fs::write(&current, certificate + &key).unwrap();
    fs::set_permissions(&current, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&current, rig.files.path().join("client.pem")).unwrap();
    let wanted: [SocketAddr; 2] = ["192.0.2.1:6443".parse().unwrap(), "192.0.2.2:6443".parse().unwrap()];
    until("the list to be the cluster's", || (rig.list() == wanted).then_some(()));
}

#[test]
fn a_list_that_leads_nowhere_is_not_taken() {
    for list in [
        r#"{"subsets":[]}"#,
        r#"{"subsets":[{"addresses":[{"ip":"127.0.0.1"}],"ports":[{"name":"https","port":1}]}]}"#,
        "{",
    ] {
        let ours = Authority::new();
        let server = Tls::start(&ours, "kubernetes", list);
        let rig = Rig::start(&[server.address], |files| {
            let (certificate, key) = ours.issue("node", ExtendedKeyUsagePurpose::ClientAuth);
            fs::write(files.join("ca.crt"), &ours.certificate).unwrap();
            fs::write(files.join("client.pem"), certificate + &key).unwrap();
            fs::set_permissions(files.join("client.pem"), fs::Permissions::from_mode(0o600)).unwrap();
        });
        server.await_answers(6);
        assert_eq!(rig.list(), [server.address]);
        assert!(reached(&rig, &ours));
    }
}

#[test]
fn the_program_says_where_it_listens_and_ends_when_asked() {
    let files = tempfile::tempdir().unwrap();
    config(files.path(), &["192.0.2.1:6443".parse().unwrap()]);
    let file = files.path().join("config.json");
    let text = include_str!("../api-balancer.example.json").replace("7445", "0").replace("7446", "0");
    let text = text.replace("/etc/kubernetes/latchkey/api-servers.json", "api-servers.json");
    fs::write(&file, text).unwrap();
    let program = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey-api-balancer"));
        command.arg("--config").arg(&file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    let mut running = latchkey_test_support::spawn(program()).unwrap();
    let ready = Lines::of(running.stdout.take().unwrap()).next("READY").unwrap();
    assert!(ready.starts_with("READY listen=127.0.0.1:"), "{ready}");
    let (_, admin) = ready.split_once(" admin=").unwrap();
    let mut page = TcpStream::connect(admin).unwrap();
    write!(page, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let page = String::from_utf8(latchkey_test_support::drained(&mut page)).unwrap();
    let version = concat!("latchkey_api_balancer_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1");
    for line in ["latchkey_api_balancer_targets{health=\"ready\"} 0", version] {
        assert!(page.lines().any(|found| found == line), "{line} in {page}");
    }
    assert!(page.contains("\nprocess_start_time_seconds "), "{page}");
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    assert!(wait("the balancer", &mut running).success());
    assert!(output(program().arg("--check")).unwrap().status.success());
    fs::write(files.path().join("api-servers.json"), "{}").unwrap();
    assert_eq!(output(program().arg("--check")).unwrap().status.code(), Some(2));
}

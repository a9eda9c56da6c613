//! A network that does harm: stands between a store and the real API server, passes on what is said, and does to chosen requests
//! what a test tells it.

use futures_rustls::rustls::pki_types::pem::PemObject as _;
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use futures_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::ring::default_provider};
use futures_rustls::{TlsAcceptor, TlsConnector};
use latchkey_api_server_rig::{ApiServer, Credentials};
use serde_json::json;
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::{TcpListener, TcpStream};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What is done to a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// This is answered, and the API server never hears of the request.
    Answer(Vec<u8>),
    /// A body that does not end, of a length that no answer has.
    Endless,
    /// Nothing is answered.
    Silence,
    /// The API server does what is asked, and its answer is lost.
    LoseAnswer,
    /// It waits until this is told.
    Held(Receiver<()>),
}

/// Faults for requests whose first line has these words, so often.
#[derive(Clone, Debug)]
struct Armed {
    words: [&'static str; 2],
    fault: Fault,
    times: usize,
}

pub(crate) struct Proxy {
    state: Arc<State>,
    pub(crate) kubeconfig: PathBuf,
    _files: tempfile::TempDir,
    _serving: smol::Task<()>,
}

struct State {
    armed: Mutex<Option<Armed>>,
    cut: Mutex<(Sender<()>, Receiver<()>)>,
    upstream: SocketAddr,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

/// An answer of the API server with this status.
pub(crate) fn status(code: u16) -> Vec<u8> {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "as told", "reason": "" });
    answer(code, &body.to_string())
}

pub(crate) fn answer(code: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

impl Proxy {
    pub(crate) fn before(server: &ApiServer) -> Self {
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let serving = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let state = Arc::new(State {
            armed: Mutex::default(),
            cut: Mutex::new(unbounded()),
            upstream: server.url().strip_prefix("https://").unwrap().parse().unwrap(),
            acceptor: TlsAcceptor::from(Arc::new(serving)),
            connector: TlsConnector::from(Arc::new(asking(
                server.authority(),
                &server.user(crate::cluster::SERVICE, None),
            ))),
        });
        let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&state);
        let serving = smol::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                smol::spawn(serve(Arc::clone(&shared), stream)).detach();
            }
        });
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = files.path().join("kubeconfig");
        let base64 = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        let user = server.user(crate::cluster::SERVICE, None);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": {
                "server": format!("https://{address}"), "certificate-authority-data": base64(&own.cert.pem()),
            }}],
            "users": [{ "name": "u", "user": {
                "client-certificate-data": base64(user.certificate()), "client-key-data": base64(user.key()),
            }}],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&kubeconfig).unwrap();
        file.write_all(config.to_string().as_bytes()).unwrap();
        Self { state, kubeconfig, _files: files, _serving: serving }
    }

    /// Does this to the next requests whose first line has both words, so often.
    pub(crate) fn arm(&self, words: [&'static str; 2], fault: Fault, times: usize) {
        *self.state.armed.lock().unwrap() = Some(Armed { words, fault, times });
    }

    /// Whether what was armed has not happened as often as it was to.
    pub(crate) fn is_armed(&self) -> bool {
        self.state.armed.lock().unwrap().is_some()
    }

    pub(crate) fn disarm(&self) {
        *self.state.armed.lock().unwrap() = None;
    }

    /// Breaks every connection there is.
    pub(crate) fn cut(&self) {
        let (before, _) = std::mem::replace(&mut *self.state.cut.lock().unwrap(), unbounded());
        before.close();
    }
}

fn asking(authority: &str, credentials: &Credentials) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let certificate = CertificateDer::from_pem_slice(credentials.certificate().as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(credentials.key().as_bytes()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .unwrap()
}

/// One connection, until one side ends it or it is cut.
async fn serve(state: Arc<State>, stream: TcpStream) {
    let cut = state.cut.lock().unwrap().1.clone();
    let cutting = async {
        let _ = cut.recv().await;
    };
    async {
        let _ = pass(&state, stream).await;
    }
    .or(cutting)
    .await;
}

async fn pass(state: &State, stream: TcpStream) -> std::io::Result<()> {
    let asking = state.acceptor.accept(stream).await?;
    let (mut from_client, mut to_client) = smol::io::split(asking);
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let upstream = state.connector.connect(name, TcpStream::connect(state.upstream).await?).await?;
    let (mut from_server, mut to_server) = smol::io::split(upstream);
    let mut lose = false;
    let mut buffers = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let asked = async { from_client.read(&mut buffers.0).await.map(|n| (true, n)) };
        let answered = async { from_server.read(&mut buffers.1).await.map(|n| (false, n)) };
        match asked.or(answered).await? {
            (_, 0) => return Ok(()),
            (true, length) => {
                match state.fault_for(&buffers.0[..length]) {
                    None => to_server.write_all(&buffers.0[..length]).await?,
                    Some(Fault::LoseAnswer) => {
                        lose = true;
                        to_server.write_all(&buffers.0[..length]).await?;
                    }
                    Some(Fault::Held(until)) => {
                        let _ = until.recv().await;
                        to_server.write_all(&buffers.0[..length]).await?;
                    }
                    Some(Fault::Silence) => std::future::pending().await,
                    Some(Fault::Answer(answer)) => {
                        to_client.write_all(&answer).await?;
                        return to_client.close().await;
                    }
                    Some(Fault::Endless) => {
                        to_client.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").await?;
                        let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
                        loop {
                            to_client.write_all(&chunk).await?;
                        }
                    }
                }
            }
            (false, _) if lose => return Ok(()),
            (false, length) => to_client.write_all(&buffers.1[..length]).await?,
        }
    }
}

impl State {
    fn fault_for(&self, bytes: &[u8]) -> Option<Fault> {
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut armed = self.armed.lock().unwrap();
        let found = armed.as_mut().filter(|armed| armed.words.iter().all(|word| line.contains(word)))?;
        let fault = found.fault.clone();
        found.times -= 1;
        if found.times == 0 {
            *armed = None;
        }
        Some(fault)
    }
}

//! A network that does harm: stands between a program and the real API server, passes on what is said, and does to chosen requests
//! what a test tells it.

use crate::{ApiServer, Credentials, kubeconfig};
use futures_rustls::rustls::pki_types::pem::PemObject as _;
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use futures_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::ring::default_provider};
use futures_rustls::{TlsAcceptor, TlsConnector};
use serde_json::json;
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::{TcpListener, TcpStream};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is done to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This is answered, and the API server never hears of the request.
    Answer(Vec<u8>),
    /// A body that does not end, of a length that no answer has.
    Endless,
    /// Nothing is answered.
    Silence,
    /// The API server does what is asked, and its answer is lost.
    LoseAnswer,
    /// The same, and half of the beginning of its answer comes.
    HalfAnswer,
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

/// The network. Dropping it ends every connection.
#[derive(Debug)]
pub struct Proxy {
    state: Arc<State>,
    kubeconfig: PathBuf,
    _serving: smol::Task<()>,
}

struct State {
    armed: Mutex<Option<Armed>>,
    cut: Mutex<(Sender<()>, Receiver<()>)>,
    upstream: SocketAddr,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

/// An answer of the API server with this status.
pub fn status(code: u16) -> Vec<u8> {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "as told", "reason": "" });
    answer(code, &body.to_string())
}

/// An answer with this body.
pub fn answer(code: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

impl Proxy {
    /// For who asks this API server with these credentials.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn before(server: &ApiServer, credentials: &Credentials) -> Self {
        let state = Arc::new(State {
            armed: Mutex::default(),
            cut: Mutex::new(unbounded()),
            upstream: server.address(),
            acceptor: TlsAcceptor::from(Arc::new(serving(&server.authority.server(&["127.0.0.1"])))),
            connector: TlsConnector::from(Arc::new(asking(server.authority(), credentials))),
        });
        let listener = smol::block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("a port");
        let shared = Arc::clone(&state);
        let serving = smol::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                smol::spawn(serve(Arc::clone(&shared), stream)).detach();
            }
        });
        let text = kubeconfig::with_certificate(&format!("https://{address}"), server.authority(), credentials);
        let kubeconfig = server.write(&format!("proxy-{}.kubeconfig", address.port()), &text);
        Self { state, kubeconfig, _serving: serving }
    }

    /// The path of a kubeconfig that leads here, in the directory that goes with the API server.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Does this to the next requests whose first line has both words, so often.
    pub fn arm(&self, words: [&'static str; 2], fault: Fault, times: usize) {
        *self.state.armed() = Some(Armed { words, fault, times });
    }

    /// Whether what was armed has not happened as often as it was to.
    pub fn is_armed(&self) -> bool {
        self.state.armed().is_some()
    }

    /// Does nothing any more.
    pub fn disarm(&self) {
        *self.state.armed() = None;
    }

    /// Breaks every connection there is.
    pub fn cut(&self) {
        let (before, _) = std::mem::replace(&mut *self.state.cut(), unbounded());
        before.close();
    }
}

fn serving(own: &Credentials) -> ServerConfig {
    let (certificate, key) = identity(own);
    ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a certificate and its key")
}

fn asking(authority: &str, credentials: &Credentials) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM")).expect("an authority");
    let (certificate, key) = identity(credentials);
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .expect("a certificate and its key")
}

fn identity(credentials: &Credentials) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_slice(credentials.certificate().as_bytes()).expect("PEM");
    (certificate, PrivateKeyDer::from_pem_slice(credentials.key().as_bytes()).expect("PEM"))
}

/// One connection, until one side ends it or it is cut.
async fn serve(state: Arc<State>, stream: TcpStream) {
    let cut = state.cut().1.clone();
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
    let name = ServerName::try_from("127.0.0.1").map_err(std::io::Error::other)?;
    let upstream = state.connector.connect(name, TcpStream::connect(state.upstream).await?).await?;
    let (mut from_server, mut to_server) = smol::io::split(upstream);
    let (mut lose, mut halve) = (false, false);
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
                    Some(Fault::HalfAnswer) => {
                        halve = true;
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
            (false, length) if halve => {
                to_client.write_all(&buffers.1[..length / 2]).await?;
                to_client.flush().await?;
                return std::future::pending().await;
            }
            (false, length) => to_client.write_all(&buffers.1[..length]).await?,
        }
    }
}

impl State {
    fn armed(&self) -> MutexGuard<'_, Option<Armed>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) -> MutexGuard<'_, (Sender<()>, Receiver<()>)> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault_for(&self, bytes: &[u8]) -> Option<Fault> {
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut armed = self.armed();
        let found = armed.as_mut().filter(|armed| armed.words.iter().all(|word| line.contains(word)))?;
        let fault = found.fault.clone();
        found.times -= 1;
        if found.times == 0 {
            *armed = None;
        }
        Some(fault)
    }
}

//! Asks API servers: whether they are ready, and which there are. TLS by the cluster's authority, HTTP/1.0 because one answer and
//! the connection's end is all that is wanted.

use crate::config::Config;
use crate::targets::{Targets, TargetsError};
use futures_rustls::TlsConnector;
use latchkey_service_runtime::pem::{self, PemError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use smol::future::FutureExt as _;
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};
use smol::net::TcpStream;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A name that kubeadm puts into every API server's certificate: targets are addresses, and come and go.
const NAME: &str = "kubernetes";
/// Longer than an API server takes that anybody should be sent to.
const WITHIN: Duration = Duration::from_secs(5);
/// Far more than a list of control planes.
const MAX_ANSWER: u64 = 256 * 1024;
const READY: &str = "/readyz";
/// What every kubelet may read.
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";

/// Why an API server gave no usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    #[error("{0}")]
    File(#[from] PemError),
    #[error("certificate and key cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {} s", WITHIN.as_secs())]
    Late,
    #[error("it answers {0:?}")]
    Status(String),
    #[error("{0}")]
    List(#[from] TargetsError),
}

/// Whether the API server at `address` is ready. Before there is an authority to know it by, whether somebody takes a connection.
pub(crate) async fn is_ready(config: &Config, address: SocketAddr) -> Result<(), ProbeError> {
    if !config.authority.exists() {
        return in_time(async { TcpStream::connect(address).await.map(drop).map_err(ProbeError::from) }).await;
    }
    let tls = connector(config, false)?;
    in_time(get(&tls, address, READY)).await.map(drop)
}

/// The API servers, as the cluster lists them; `None` while this node has no certificate to ask with.
pub(crate) async fn published(config: &Config, address: SocketAddr) -> Result<Option<Targets>, ProbeError> {
    if !config.authority.exists() || !config.client.exists() {
        return Ok(None);
    }
    let tls = connector(config, true)?;
    let body = in_time(get(&tls, address, ENDPOINTS)).await?;
    Ok(Some(Targets::published(&body)?))
}

async fn in_time<T>(answer: impl Future<Output = Result<T, ProbeError>>) -> Result<T, ProbeError> {
    let late = async {
        smol::Timer::after(WITHIN).await;
        Err(ProbeError::Late)
    };
    answer.or(late).await
}

/// Files are read each time: certificates are renewed.
fn connector(config: &Config, with_certificate: bool) -> Result<TlsConnector, ProbeError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(pem::authorities(&config.authority)?);
    let tls = if with_certificate {
        // The kubelet's name for its current certificate is a link.
        let file = fs::canonicalize(&config.client)?;
        builder.with_client_auth_cert(pem::certificates(&file)?, pem::private_key(&file)?)?
    } else {
        builder.with_no_client_auth()
    };
    Ok(TlsConnector::from(Arc::new(tls)))
}

/// The body of an answer of 200.
async fn get(tls: &TlsConnector, address: SocketAddr, path: &str) -> Result<Vec<u8>, ProbeError> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    let mut stream = tls.connect(name, stream).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {NAME}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    if let Err(error) = stream.take(MAX_ANSWER).read_to_end(&mut answer).await {
        // Some end a connection without saying so in TLS. What came is judged by its form.
        if error.kind() != io::ErrorKind::UnexpectedEof {
            return Err(error.into());
        }
    }
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let head = answer.get(..end.unwrap_or(0)).unwrap_or_default();
    let status = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
    if status.split(' ').nth(1) != Some("200") {
        return Err(ProbeError::Status(latchkey_reason::printable(&status).take(80).collect()));
    }
    Ok(answer.get(end.unwrap_or(0) + 4..).unwrap_or_default().to_vec())
}

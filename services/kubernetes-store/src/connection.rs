//! The way to the API server: a kubeconfig, and a runtime for the client on a thread of its own.
//!
//! kube's own way from a kubeconfig to a client brings what no service may do: programs that give tokens, identity providers, proxies,
//! other trust than the cluster's authority. So the parts are put together here.

use crate::authorization::Authorization;
use crate::bounded::BoundAnswers;
use crate::error::{ApiCode, elsewhere, one_line};
use crate::kubeconfig::{Certificate, Way};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Client;
use kube::client::middleware::BaseUriLayer;
use kube::client::{Body, ClientBuilder};
use latchkey_cluster_store::StoreError;
use latchkey_cluster_store::certificate::end_of_pem;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How long one request may take. A write takes milliseconds; a node waits some seconds for its ticket.
const REQUEST: Duration = Duration::from_secs(3);
const CONNECT: Duration = Duration::from_secs(2);

/// A client of one API server, and the thread that drives it. The services run on smol; kube needs tokio's runtime.
pub struct Connection {
    client: Client,
    /// When the client certificate ends, in seconds since the Unix epoch; `None` where there is a token.
    certificate_ends: Option<u64>,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads a kubeconfig; nobody is asked yet.
    ///
    /// # Errors
    /// [`ApiCode::KubeconfigUnusable`].
    pub fn open(kubeconfig: &Path) -> Result<Self, StoreError> {
        let unusable =
            |detail: String| elsewhere(&kubeconfig.to_string_lossy(), ApiCode::KubeconfigUnusable, one_line(&detail));
        let way = Way::read(kubeconfig).map_err(unusable)?;
        let certificate_ends = way.certificate.as_ref().and_then(|certificate| end_of_pem(&certificate.pem));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| unusable(format!("no runtime for the client: {error}")))?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("api-client".to_owned()).spawn(move || {
            // Ends with the sender.
            drop(runtime.block_on(stopped));
        });
        let thread = thread.map_err(|error| unusable(format!("no thread for the client: {error}")))?;
        // What the client spawns, it spawns there.
        let client = handle.block_on(async { client(way) }).map_err(unusable)?;
        Ok(Self { client, certificate_ends, handle, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// When the certificate by which this service is known to the API server ends, in seconds since the Unix epoch; `None` where it is
    /// known by a token.
    pub fn certificate_ends(&self) -> Option<u64> {
        self.certificate_ends
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for what a request is answered, not longer than one may take. Blocks: never on the client's own thread.
    pub(crate) fn wait<T>(
        &self,
        about: &str,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.handle.block_on(in_time(about, request))
    }
}

/// The answer, if it comes in time.
pub(crate) async fn in_time<T>(
    about: &str,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answer = tokio::time::timeout(REQUEST, request).await;
    answer.unwrap_or_else(|_| {
        Err(elsewhere(about, ApiCode::TooSlow, format!("no answer within {} s", REQUEST.as_secs())))
    })
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there was told.
            let _ended = thread.join();
        }
    }
}

/// One that asks one server, once for each question: whoever asks decides whether to ask again.
fn client(way: Way) -> Result<Client, String> {
    let mut roots = RootCertStore::empty();
    for authority in way.authorities {
        roots.add(authority).map_err(|error| format!("`certificate-authority`: {error}"))?;
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let tls = match way.certificate {
        Some(Certificate { chain, key, .. }) => tls
            .with_client_auth_cert(chain, key)
            .map_err(|error| format!("`client-certificate` and `client-key` cannot be used: {error}"))?,
        None => tls.with_no_client_auth(),
    };
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let mut connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_only();
    if let Some(name) = way.name {
        connector = connector.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut connector = TimeoutConnector::new(connector.enable_http1().wrap_connector(tcp));
    connector.set_connect_timeout(Some(CONNECT));
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let authorized = Authorization::of(way.token)?.before(http);
    Ok(ClientBuilder::new(authorized, "default")
        .with_layer(&BaseUriLayer::new(way.server))
        .with_layer(&BoundAnswers)
        .build())
}

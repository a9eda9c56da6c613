//! The way to the API server: who asks, and a runtime for the client on a thread of its own.
//!
//! kube's own way from a kubeconfig to a client brings what no service may do: programs that give tokens, identity providers, proxies,
//! other trust than the cluster's authority. So the parts are put together here.

use crate::authorization::Authorization;
use crate::bounded::BoundAnswers;
use crate::error::{ApiCode, ApiError, failed};
use crate::kubeconfig::{Certificate, Way};
use crate::pod::SERVICE_ACCOUNT;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Client;
use kube::client::middleware::BaseUriLayer;
use kube::client::{Body, ClientBuilder};
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task;

/// How long one request may take. A write takes milliseconds; a node waits some seconds for its ticket.
const REQUEST: Duration = Duration::from_secs(3);
const CONNECT: Duration = Duration::from_secs(2);

/// A client of one API server, and the thread that drives it. The services run on smol; kube needs tokio's runtime.
pub struct Connection {
    client: Client,
    /// In PEM; `None` where there is a token.
    certificate: Option<String>,
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
    pub fn open(kubeconfig: &Path) -> Result<Self, ApiError> {
        Self::by(&kubeconfig.to_string_lossy(), Way::read(kubeconfig))
    }

    /// The same by what a pod is given: the address in its environment, and the files of its service account.
    ///
    /// # Errors
    /// [`ApiCode::KubeconfigUnusable`].
    pub fn in_pod() -> Result<Self, ApiError> {
        Self::by(SERVICE_ACCOUNT, Way::of_pod())
    }

    fn by(about: &str, way: Result<Way, String>) -> Result<Self, ApiError> {
        let unusable = |detail: String| ApiError::new(about, ApiCode::KubeconfigUnusable, &detail);
        let mut way = way.map_err(unusable)?;
        let certificate = way.certificate.as_mut().map(|certificate| std::mem::take(&mut certificate.pem));
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
        Ok(Self { client, certificate, handle, stop: Some(stop), thread: Some(thread) })
    }

    /// kube's client, for requests on the client's own thread: in [`Self::run`], [`Self::wait`], [`Self::handle`].
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The certificate by which who asks is known to the API server, in PEM; `None` where it is known by a token.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// The runtime of the client's thread.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for what a request comes to, not longer than one may take. Blocks: never on the client's own thread.
    ///
    /// # Errors
    /// [`ApiCode::TooSlow`].
    pub fn wait<T>(&self, about: &str, request: impl Future<Output = T>) -> Result<T, ApiError> {
        self.handle.block_on(Self::in_time(about, request))
    }

    /// What a request comes to, if it does so in time: for who is on the client's thread.
    ///
    /// # Errors
    /// [`ApiCode::TooSlow`].
    pub async fn in_time<T>(about: &str, request: impl Future<Output = T>) -> Result<T, ApiError> {
        tokio::time::timeout(REQUEST, request).await.map_err(|_| too_slow(about, REQUEST))
    }

    /// The same for whoever is on another runtime, or on none: the request runs on the client's thread, and ends when the future is
    /// dropped. `about` names what is asked for in an error.
    ///
    /// # Errors
    /// What the API server says, by its reason code; [`ApiCode::TooSlow`]; [`ApiCode::Closed`] while the program stops.
    pub async fn run<T, F>(&self, about: &str, request: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: Future<Output = kube::Result<T>> + Send + 'static,
    {
        // The clock of the time limit is the runtime's: it begins there.
        let mut running = Running(self.handle.spawn(async { tokio::time::timeout(REQUEST, request).await }));
        match (&mut running.0).await {
            Ok(Ok(answer)) => answer.map_err(|error| failed(about, &error)),
            Ok(Err(_)) => Err(too_slow(about, REQUEST)),
            Err(_) => Err(ApiError::new(about, ApiCode::Closed, "nobody waits for the answer any more")),
        }
    }
}

/// A task that ends when nobody waits for it.
struct Running<T>(task::JoinHandle<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// No answer within this time.
pub(crate) fn too_slow(about: &str, time: Duration) -> ApiError {
    ApiError::new(about, ApiCode::TooSlow, &format!("no answer within {} s", time.as_secs()))
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

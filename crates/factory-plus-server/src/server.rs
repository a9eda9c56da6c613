//! A server, from its configuration to its end.

use crate::Tokens;
use crate::about::About;
use crate::auth::Verifier;
use crate::auth::gate::Gate;
use crate::config::{HttpConfig, HttpConfigError, HttpLimits, seconds};
use crate::connection::pace::Paces;
use crate::connection::tls::{Tls, TlsError};
use crate::handler::Handler;
use crate::metrics::Metrics;
use crate::notify::Feed;
use http::HeaderValue;
use latchkey_factory_plus::Realm;
use latchkey_service_runtime::admin::Admin;
use latchkey_service_runtime::config::MetricsConfig;
use latchkey_service_runtime::connections::ConnectionTable;
use latchkey_service_runtime::guarded::{self, GuardError};
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::page::Page;
use latchkey_service_runtime::program::{self, ProgramError};
use latchkey_service_runtime::reload::{Reload, Reloads};
use latchkey_service_runtime::request_id::RequestIds;
use latchkey_service_runtime::serve::{Bound, Carrier};
use latchkey_service_runtime::signals::{Asked, SignalStream};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The names of this crate's metrics begin with it.
const PREFIX: &str = "latchkey_http_";

/// Why there is no server. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The section of the configuration.
    #[error("{0}")]
    Config(#[from] HttpConfigError),
    /// Certificate and key.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// What guards the metrics.
    #[error("{0}")]
    Metrics(#[from] GuardError),
}

/// A server that does not listen yet.
pub struct HttpServer<H> {
    shared: Shared<H>,
    listen: Vec<SocketAddr>,
    admin_listen: SocketAddr,
    metrics: Option<MetricsConfig>,
}

/// What every connection needs.
pub(crate) struct Shared<H> {
    pub(crate) handler: H,
    pub(crate) gate: Arc<Gate>,
    pub(crate) feed: Option<Arc<dyn Feed>>,
    pub(crate) about: About,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: HttpLimits,
    pub(crate) paces: Paces,
    pub(crate) time: Duration,
    pub(crate) body_limit: u64,
    pub(crate) cache: Option<HeaderValue>,
    pub(crate) ids: RequestIds,
    pub(crate) noise: LogLimiter,
}

/// A server on a thread of its own; it ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<SocketAddr>,
    admin: SocketAddr,
    stop: smol::channel::Sender<Asked>,
    thread: Option<thread::JoinHandle<io::Result<()>>>,
}

impl<H: Handler> HttpServer<H> {
    /// Checks the configuration, and reads certificate and key.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn new(
        config: &HttpConfig,
        about: About,
        realm: Realm,
        verifier: Arc<dyn Verifier>,
        handler: H,
    ) -> Result<Self, ServerError> {
        config.check()?;
        let (limits, metrics) = (config.limits, Arc::new(Metrics::default()));
        let tls = config.tls_files()?.map(Tls::load).transpose()?.map(Arc::new);
        guarded::check(config.metrics.as_ref())?;
        let cache = config.cache_seconds.and_then(|age| HeaderValue::try_from(format!("max-age={age}")).ok());
        let shared = Shared {
            handler,
            gate: Arc::new(Gate::new(realm, verifier, limits.of_gate(), Arc::clone(&metrics))),
            feed: None,
            about,
            tls,
            metrics,
            limits,
            paces: limits.paces(),
            time: seconds(limits.request_seconds),
            body_limit: limits.body_bytes.into(),
            cache,
            ids: RequestIds::new(),
            noise: LogLimiter::new(),
        };
        let (listen, admin_listen, metrics) = (config.listen.clone(), config.admin_listen, config.metrics.clone());
        Ok(Self { shared, listen, admin_listen, metrics })
    }

    /// With change notification at `/notify/v2`.
    #[must_use]
    pub fn feed(mut self, feed: Arc<dyn Feed>) -> Self {
        self.shared.feed = Some(feed);
        self
    }

    /// The tokens it has given, to revoke them.
    pub fn tokens(&self) -> Tokens {
        self.shared.gate.tokens.clone()
    }

    /// Serves until a signal says stop, then finishes running requests within the configured time: the signals, the READY line,
    /// the admin pages with this crate's metrics added to those of `pages`, the certificate read anew together with `reload`.
    /// Blocks.
    ///
    /// # Errors
    /// An address that cannot be had, too few open files, or a listener that fails for good.
    pub fn run(self, pages: Arc<dyn Admin>, reload: Arc<dyn Reload>) -> Result<(), ProgramError> {
        program::allow_open_files(self.shared.limits.connections)?;
        let signals = SignalStream::catch()?;
        smol::block_on(async {
            let bound = self.bind().await.map_err(ProgramError::running)?;
            bound.say_ready()?;
            self.serve(bound, pages, reload, signals).await.map_err(ProgramError::running)
        })
    }

    /// Serves on a thread of its own, without signals and READY line: for programs that have more than one, and for tests.
    ///
    /// # Errors
    /// An address that cannot be had.
    pub fn start(self, pages: Arc<dyn Admin>, reload: Arc<dyn Reload>) -> io::Result<Running> {
        let bound = smol::block_on(self.bind())?;
        let (addresses, admin) = (bound.addresses()?, bound.admin_address()?);
        let (stop, asked) = smol::channel::bounded(4);
        let signals = SignalStream::of(asked);
        let serving = move || smol::block_on(self.serve(bound, pages, reload, signals));
        let thread = thread::Builder::new().name("http-server".to_owned()).spawn(serving)?;
        Ok(Running { addresses, admin, stop, thread: Some(thread) })
    }

    async fn bind(&self) -> io::Result<Bound> {
        Bound::open_all(&self.listen, self.admin_listen).await?.with_metrics(self.metrics.clone()).await
    }

    async fn serve(
        self,
        bound: Bound,
        pages: Arc<dyn Admin>,
        reload: Arc<dyn Reload>,
        signals: SignalStream,
    ) -> io::Result<()> {
        let Shared { limits, ref metrics, ref gate, ref tls, .. } = self.shared;
        let table = ConnectionTable::new(limits.of_connections());
        let own = Own { tls: tls.clone(), gate: Arc::clone(gate), service: reload };
        let reloads = Reloads::of(Arc::new(own));
        let (metrics, gate) = (Arc::clone(metrics), Arc::clone(gate));
        let pages = Pages { service: pages, metrics, gate, table: table.clone(), reloads: reloads.clone() };
        let grace = seconds(limits.shutdown_seconds);
        let carrier = Carrier { table, signals, reloads, threads: limits.thread_count(), grace };
        bound.serve(Arc::new(self.shared), Arc::new(pages), carrier).await
    }
}

impl<H> fmt::Debug for HttpServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("listen", &self.listen).finish_non_exhaustive()
    }
}

impl Running {
    /// Where it listens.
    ///
    /// # Panics
    /// Never: a configuration has at least one address.
    pub fn address(&self) -> SocketAddr {
        *self.addresses.first().expect("a checked configuration has an address")
    }

    /// Everywhere it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where its metrics are.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Asks it to read everything again, as SIGHUP does.
    pub fn reload(&self) {
        // Full: it is asked already.
        let _ = self.stop.try_send(Asked::Reload);
    }

    /// Asks it to end, as SIGTERM does, and waits until it has.
    ///
    /// # Errors
    /// What it ended with.
    pub fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.stop.close();
        match self.thread.take().map(thread::JoinHandle::join) {
            None => Ok(()),
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(io::Error::other("the server's thread panicked")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whoever wants to know asks by `stop`.
        drop(self.end());
    }
}

/// What is read again: this crate's files and the service's.
struct Own {
    tls: Option<Arc<Tls>>,
    gate: Arc<Gate>,
    service: Arc<dyn Reload>,
}

impl Reload for Own {
    fn reload(&self) -> Result<(), String> {
        // First what can fail here, then what can fail there, then what cannot fail.
        let acceptor = self.tls.as_ref().map(|tls| tls.read_again()).transpose().map_err(|error| error.to_string())?;
        self.service.reload()?;
        if let (Some(tls), Some(acceptor)) = (&self.tls, acceptor) {
            tls.replace(acceptor);
        }
        // Whoever changed keys or accounts wants nobody in by older proofs.
        self.gate.forget_passwords();
        Ok(())
    }
}

/// The service's pages, and what this crate knows.
struct Pages {
    service: Arc<dyn Admin>,
    metrics: Arc<Metrics>,
    gate: Arc<Gate>,
    table: ConnectionTable,
    reloads: Reloads,
}

impl Admin for Pages {
    fn metrics(&self) -> String {
        let mut page = Page::new(PREFIX);
        self.metrics.render(&mut page, self.gate.tokens.len());
        self.table.render(&mut page);
        self.reloads.render(&mut page);
        self.service.metrics() + &page.into_text()
    }

    fn health(&self) -> Result<Vec<String>, String> {
        let mut notes = self.service.health()?;
        notes.extend(self.table.note());
        notes.extend(self.reloads.note());
        Ok(notes)
    }
}

/// For services that have nothing to tell or to read again beside this crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Admin for Nothing {
    fn metrics(&self) -> String {
        String::new()
    }

    fn health(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

impl Reload for Nothing {
    fn reload(&self) -> Result<(), String> {
        Ok(())
    }
}

//! Listening, connections and the graceful end.

use crate::admin::{self, ACCEPT_PAUSE, Admin, is_transient};
use crate::callers::Caller;
use crate::config::{CallerRule, Config, Limits};
use crate::decision::Gate;
use crate::metrics::{Metrics, Turned};
use crate::noise::Noise;
use crate::service::{KeyService, Peer};
use crate::slots::{Slot, Slots};
use crate::tls;
use futures_rustls::TlsAcceptor;
use futures_rustls::server::TlsStream;
use latchkey_api::grpc::{self, Server};
use latchkey_api::v1::KeysServer;
use latchkey_keys::MasterSecret;
use smol::channel::{Receiver, Sender};
use smol::future::FutureExt;
use smol::net::{TcpListener, TcpStream};
use smol::{Executor, Timer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Far more than a request can need: an id of 64 bytes and two numbers.
const MAX_MESSAGE: usize = 4 * 1024;

/// Callers such as the join service keep one connection; it may rest this long.
const IDLE: Duration = Duration::from_mins(10);

/// A decision takes microseconds; what takes longer is a peer that does not read.
const MAX_CALL: Duration = Duration::from_secs(10);

/// What is left of a stop after the calls got their time: closing sockets.
const STOP_SLACK: Duration = Duration::from_secs(1);

/// Everything that was read from files and found good.
pub(crate) struct Prepared {
    pub(crate) master: MasterSecret,
    pub(crate) acceptor: TlsAcceptor,
}

/// Listening, not yet serving.
pub(crate) struct Bound {
    grpc: TcpListener,
    admin: TcpListener,
    shared: Arc<Shared>,
    slots: Slots,
}

/// What every connection needs.
struct Shared {
    acceptor: TlsAcceptor,
    rules: Vec<CallerRule>,
    limits: Limits,
    server: Server<Peer>,
    metrics: Arc<Metrics>,
    noise: Noise,
}

impl Bound {
    /// Opens both listeners.
    pub(crate) async fn open(config: Config, prepared: Prepared) -> io::Result<Self> {
        let grpc = bind(config.listen).await?;
        let admin = bind(config.admin_listen).await?;
        let metrics = Arc::new(Metrics::default());
        let gate = Gate::new(prepared.master, &config.callers);
        let service = KeyService::new(gate, Arc::clone(&metrics));
        let limits = config.limits;
        let shared = Shared {
            acceptor: prepared.acceptor,
            rules: config.callers,
            limits,
            server: Server::new(grpc_limits(limits)).service(KeysServer::new(service)),
            metrics,
            noise: Noise::new(),
        };
        let slots = Slots::new(limits.connections, limits.connections_per_address);
        Ok(Self { grpc, admin, shared: Arc::new(shared), slots })
    }

    /// Addresses of the gRPC and the admin listener.
    pub(crate) fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.grpc.local_addr()?, self.admin.local_addr()?))
    }

    /// Serves until `stop`, then finishes running calls within the configured time.
    pub(crate) async fn serve(self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let Self { grpc, admin, shared, slots } = self;
        // Closing the first channel tells connections to end; the second closes when all of them have.
        let (stopping, stopped) = smol::channel::bounded::<Infallible>(1);
        let (alive, gone) = smol::channel::bounded::<Infallible>(1);
        let pages = Pages(Arc::clone(&shared.metrics));
        let grace = Duration::from_secs(shared.limits.shutdown_seconds.into()) + STOP_SLACK;
        let connections = Executor::new();
        let serving = async {
            let accepting = accept(grpc, &connections, shared, slots, stopped, alive);
            let answering = admin::serve(admin, Arc::new(pages));
            let stopping_asked = async {
                stop.await;
                Ok(())
            };
            stopping_asked.or(accepting).or(answering).await?;
            tracing::info!("Stopping");
            drop(stopping);
            let all_gone = async {
                let _closed = gone.recv().await;
            };
            let too_late = async {
                Timer::after(grace).await;
            };
            all_gone.or(too_late).await;
            Ok(())
        };
        connections.run(serving).await
    }
}

async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("Cannot listen on {address}: {error}"));
    TcpListener::bind(address).await.map_err(named)
}

fn grpc_limits(limits: Limits) -> grpc::Limits {
    grpc::Limits {
        inbound_message: MAX_MESSAGE,
        outbound_message: MAX_MESSAGE,
        idle: IDLE,
        drain: Duration::from_secs(limits.shutdown_seconds.into()),
        call: Some(MAX_CALL),
        ..grpc::Limits::default()
    }
}

async fn accept(
    listener: TcpListener,
    connections: &Executor<'_>,
    shared: Arc<Shared>,
    slots: Slots,
    stopped: Receiver<Infallible>,
    alive: Sender<Infallible>,
) -> io::Result<()> {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if is_transient(&error) => {
                tracing::warn!(%error, "Cannot accept connections at the moment");
                Timer::after(ACCEPT_PAUSE).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        let Some(slot) = slots.take(address.ip()) else {
            shared.metrics.turned_away(Turned::Full);
            continue;
        };
        let connection =
            Connection { shared: Arc::clone(&shared), stopped: stopped.clone(), _alive: alive.clone(), _slot: slot };
        connections.spawn(connection.run(stream, address)).detach();
    }
}

struct Connection {
    shared: Arc<Shared>,
    stopped: Receiver<Infallible>,
    /// Held as long as the connection lives.
    _alive: Sender<Infallible>,
    _slot: Slot,
}

impl Connection {
    async fn run(self, stream: TcpStream, address: SocketAddr) {
        let Some(stream) = self.handshake(stream, address).await else { return };
        let peer = self.peer(&stream, address);
        let _open = self.shared.metrics.connected();
        tracing::debug!(caller = %peer.label, peer = %address, "Connected");
        let stop = async {
            let _closed = self.stopped.recv().await;
        };
        if let Err(error) = self.shared.server.serve_until(stream, peer, stop).await
            && !error.is_disconnect()
        {
            tracing::warn!(peer = %address, %error, "Connection ended");
        }
    }

    /// TLS, within its deadline and not beyond a stop.
    async fn handshake(&self, stream: TcpStream, address: SocketAddr) -> Option<TlsStream<TcpStream>> {
        // Answers are one small packet; waiting for more to send with it only delays them.
        drop(stream.set_nodelay(true));
        let limit = Duration::from_secs(self.shared.limits.handshake_seconds.into());
        let handshake =
            async { self.shared.acceptor.accept(stream).await.map_err(|error| (Turned::HandshakeFailed, error)) };
        let late = async {
            Timer::after(limit).await;
            Err((Turned::HandshakeTimeout, io::ErrorKind::TimedOut.into()))
        };
        let stopped = async {
            let _closed = self.stopped.recv().await;
            Err((Turned::HandshakeFailed, io::ErrorKind::Interrupted.into()))
        };
        match handshake.or(late).or(stopped).await {
            Ok(stream) => Some(stream),
            Err((how, error)) => {
                self.shared.metrics.turned_away(how);
                if let Some(left_out) = self.shared.noise.write_now() {
                    tracing::warn!(peer = %address, %error, left_out, "TLS handshake failed");
                }
                None
            }
        }
    }

    fn peer(&self, stream: &TlsStream<TcpStream>, address: SocketAddr) -> Peer {
        let names = tls::peer_names(stream.get_ref().1);
        let caller = Caller::identify(&self.shared.rules, &names);
        let known = match caller {
            Caller::Known(index) => self.shared.rules.get(index).map(|rule| &rule.name),
            Caller::Stranger | Caller::Ambiguous => None,
        };
        Peer::new(address, caller, known, &names)
    }
}

struct Pages(Arc<Metrics>);

impl Admin for Pages {
    fn metrics(&self) -> String {
        self.0.render()
    }

    /// Nothing can fail between a good start and the end: keys are derived in memory.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

//! Connections: TLS within its deadline, then gRPC.

use crate::callers::Caller;
use crate::config::{CallerRule, Config, Limits};
use crate::decision::Gate;
use crate::metrics::{Metrics, Turned};
use crate::service::{KeyService, Peer, audit_unhandled};
use crate::tls;
use futures_rustls::TlsAcceptor;
use futures_rustls::server::TlsStream;
use latchkey_api::grpc::{self, Server};
use latchkey_api::v1::KeysServer;
use latchkey_keys::MasterSecret;
use latchkey_service_runtime::admin::Admin;
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::program::Failure;
use latchkey_service_runtime::serve::{Bound, Connections, Stop};
use latchkey_service_runtime::slots::Slots;
use smol::Timer;
use smol::future::FutureExt;
use smol::net::TcpStream;
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

/// Everything that was read from files and found good.
pub(crate) struct Prepared {
    pub(crate) master: MasterSecret,
    pub(crate) acceptor: TlsAcceptor,
}

/// What every connection needs.
struct Shared {
    acceptor: TlsAcceptor,
    rules: Vec<CallerRule>,
    limits: Limits,
    server: Server<Peer>,
    metrics: Arc<Metrics>,
    noise: LogLimiter,
}

/// Serves until `stop`, then finishes running calls within the configured time.
pub(crate) fn serve(config: Config, prepared: Prepared, stop: impl Future<Output = ()>) -> Result<(), Failure> {
    let metrics = Arc::new(Metrics::default());
    let gate = Gate::new(prepared.master, &config.callers);
    let service = KeyService::new(gate, Arc::clone(&metrics));
    let limits = config.limits;
    let pages = Arc::new(Pages(Arc::clone(&metrics)));
    let shared = Arc::new(Shared {
        acceptor: prepared.acceptor,
        rules: config.callers,
        limits,
        server: Server::new(grpc_limits(limits)).service(KeysServer::new(service)).on_unhandled(audit_unhandled()),
        metrics,
        noise: LogLimiter::new(),
    });
    let slots = Slots::new(limits.connections, limits.connections_per_address);
    let grace = Duration::from_secs(limits.shutdown_seconds.into());
    smol::block_on(async {
        let bound = Bound::open(config.listen, config.admin_listen).await.map_err(Failure::running)?;
        bound.say_ready()?;
        // Deriving a key takes microseconds: one thread is enough.
        bound.serve(shared, pages, slots, 1, grace, stop).await.map_err(Failure::running)
    })
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

impl Connections for Shared {
    fn full(&self, _: SocketAddr) {
        self.metrics.turned_away(Turned::Full);
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, address: SocketAddr, stop: Stop) {
        let Some(stream) = self.handshake(stream, address, &stop).await else { return };
        let peer = self.peer(&stream, address);
        let _open = self.metrics.connected();
        tracing::debug!(caller = %peer.label, peer = %address, "Connected");
        if let Err(error) = self.server.serve_until(stream, peer, stop.wait()).await
            && !error.is_disconnect()
        {
            tracing::warn!(peer = %address, %error, "Connection ended");
        }
    }
}

impl Shared {
    /// TLS, within its deadline and not beyond a stop.
    async fn handshake(&self, stream: TcpStream, address: SocketAddr, stop: &Stop) -> Option<TlsStream<TcpStream>> {
        let limit = Duration::from_secs(self.limits.handshake_seconds.into());
        let handshake = async { self.acceptor.accept(stream).await.map_err(|error| (Turned::HandshakeFailed, error)) };
        let late = async {
            Timer::after(limit).await;
            Err((Turned::HandshakeTimeout, io::ErrorKind::TimedOut.into()))
        };
        let stopped = async {
            stop.wait().await;
            Err((Turned::HandshakeFailed, io::ErrorKind::Interrupted.into()))
        };
        match handshake.or(late).or(stopped).await {
            Ok(stream) => Some(stream),
            Err((how, error)) => {
                self.metrics.turned_away(how);
                if let Some(left_out) = self.noise.write_now() {
                    tracing::warn!(peer = %address, %error, left_out, "TLS handshake failed");
                }
                None
            }
        }
    }

    fn peer(&self, stream: &TlsStream<TcpStream>, address: SocketAddr) -> Peer {
        let names = tls::peer_names(stream.get_ref().1);
        let caller = Caller::identify(&self.rules, &names);
        let known = match caller {
            Caller::Known(index) => self.rules.get(index).map(|rule| &rule.name),
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
    fn health(&self) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

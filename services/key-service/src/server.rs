//! Connections: TLS within its deadline, then gRPC.

use crate::callers::Caller;
use crate::config::Limits;
use crate::current::{Current, Prepared};
use crate::metrics::{Metrics, Turned};
use crate::service::{Client, KeyService, audit_unhandled};
use crate::tls;
use futures_rustls::server::TlsStream;
use latchkey_api::grpc::{self, Server};
use latchkey_api::v1::KeysServer;
use latchkey_service_runtime::admin::Admin;
use latchkey_service_runtime::connections::ConnectionTable;
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::program::{self, ProgramError};
use latchkey_service_runtime::reload::Reloads;
use latchkey_service_runtime::serve::{Bound, Carrier, Connections, Stop, Visit};
use latchkey_service_runtime::signals::SignalStream;
use smol::Timer;
use smol::future::FutureExt;
use smol::net::TcpStream;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Far more than a request can need: an id of 64 bytes and two numbers.
const MAX_MESSAGE: usize = 4 * 1024;

/// Callers such as the join service keep one connection; it may rest this long.
const IDLE: Duration = Duration::from_mins(10);

/// A decision takes microseconds; what takes longer is a peer that does not read.
const MAX_CALL: Duration = Duration::from_secs(10);

/// What every connection needs.
struct Shared {
    current: Arc<Current>,
    limits: Limits,
    server: Server<Client>,
    metrics: Arc<Metrics>,
    noise: LogLimiter,
}

/// Serves until a signal says stop, then finishes running calls within the configured time. `file` is what is read again when
/// a signal says reload.
pub(crate) fn serve(file: &Path, prepared: Prepared) -> Result<(), ProgramError> {
    let (listen, admin_listen, limits) = (prepared.config.listen, prepared.config.admin_listen, prepared.config.limits);
    let others = prepared.config.metrics.clone();
    program::allow_open_files(limits.connections)?;
    let signals = SignalStream::catch()?;
    let metrics = Arc::new(Metrics::default());
    let current = Arc::new(Current::new(file.to_owned(), prepared));
    let service = KeyService::new(Arc::clone(&current), Arc::clone(&metrics));
    let unhandled = audit_unhandled(Arc::clone(&current));
    let table = ConnectionTable::new(limits.of_connections());
    let reloads = Reloads::of(Arc::clone(&current) as _);
    let pages = Pages { metrics: Arc::clone(&metrics), table: table.clone(), reloads: reloads.clone() };
    let shared = Arc::new(Shared {
        current,
        limits,
        server: Server::new(grpc_limits(limits)).service(KeysServer::new(service)).on_unhandled(unhandled),
        metrics,
        noise: LogLimiter::new(),
    });
    let grace = Duration::from_secs(limits.shutdown_seconds.into());
    // Deriving a key takes microseconds: one thread is enough.
    let carrier = Carrier { table, signals, reloads, threads: 1, grace };
    smol::block_on(async {
        let bound = Bound::open(listen, admin_listen).await.map_err(ProgramError::running)?;
        let bound = bound.with_metrics(others).await.map_err(ProgramError::running)?;
        bound.say_ready()?;
        bound.serve(shared, Arc::new(pages), carrier).await.map_err(ProgramError::running)
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
    async fn connection(self: Arc<Self>, visit: Visit, stop: Stop) {
        let Visit { stream, address, shown } = visit;
        let Some(stream) = self.handshake(stream, address, &stop).await else { return };
        let client = Client { address, names: tls::peer_names(stream.get_ref().1) };
        let peer = client.identify(self.current.rules().callers());
        match peer.caller {
            Caller::Known(_) => shown.admitted(),
            // A certificate by the right authority, and no rule that speaks of it: it learns so, and others come first.
            Caller::Stranger | Caller::Ambiguous => shown.claimed(),
        }
        let _open = self.metrics.connected();
        tracing::debug!(caller = %peer.label, peer = %address, "Connected");
        if let Err(error) = self.server.serve_until(stream, client, stop.wait()).await
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
        let handshake =
            async { self.current.acceptor().accept(stream).await.map_err(|error| (Turned::HandshakeFailed, error)) };
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
}

struct Pages {
    metrics: Arc<Metrics>,
    table: ConnectionTable,
    reloads: Reloads,
}

impl Admin for Pages {
    fn metrics(&self) -> String {
        let mut page = self.metrics.render();
        self.table.render(&mut page);
        self.reloads.render(&mut page);
        page.into_text()
    }

    /// Keys are derived in memory: what can be wrong is only worth knowing.
    fn health(&self) -> Result<Vec<String>, String> {
        Ok(self.table.note().into_iter().chain(self.reloads.note()).collect())
    }
}

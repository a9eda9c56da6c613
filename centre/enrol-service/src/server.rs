//! Connections: rates, then the attested handshake within its deadline, then gRPC.

use crate::centre::Centre;
use crate::config::Config;
use crate::keeper::Keeper;
use crate::metrics::Metrics;
use crate::pages::Pages;
use crate::service::EnrolService;
use crate::source::{CurrentDirectory, EnrolSnapshot};
use latchkey_api::grpc::{self, Server};
use latchkey_api::v1::EnrolmentServer;
use latchkey_attestation::LockExpectation;
use latchkey_attesting_service::unhandled::audit_unhandled;
use latchkey_attesting_service::{Connection, Limits, Node, follow, identity};
use latchkey_channel::{PinnedKeyAttester, Purpose};
use latchkey_factory_plus_client::Client;
use latchkey_measurements::diagnose::what_differs;
use latchkey_service_runtime::connections::ConnectionTable;
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::program::{self, ProgramError};
use latchkey_service_runtime::reload::{Reload, Reloads};
use latchkey_service_runtime::request_id::RequestIds;
use latchkey_service_runtime::serve::{Bound, Carrier, Connections, Stop, Visit};
use latchkey_service_runtime::signals::SignalStream;
use smol::channel::{Sender, bounded};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Far more than a request can need.
const MAX_REQUEST: usize = 16 * 1024;
/// Manifests of 4 MiB, and some more.
const MAX_ANSWER: usize = 4 * 1024 * 1024 + 64 * 1024;
/// A node asks once and goes.
const IDLE: Duration = Duration::from_secs(30);
/// A cluster's set-up is waited for twice at most, for less than this together.
const MAX_CALL: Duration = Duration::from_secs(100);

/// Everything that was read and found good.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) config: Config,
    pub(crate) identity: PinnedKeyAttester,
    pub(crate) current: CurrentDirectory,
    pub(crate) client: Client,
}

/// What every connection needs.
struct Shared {
    current: Arc<CurrentDirectory>,
    identity: Arc<Identity>,
    server: Server<Node>,
    metrics: Arc<Metrics>,
    limits: Limits,
    noise: LogLimiter,
}

/// What the service proves itself with; read anew when the operator asks.
struct Identity {
    file: PathBuf,
    key: RwLock<Arc<PinnedKeyAttester>>,
    look: Sender<()>,
}

impl Identity {
    fn key(&self) -> Arc<PinnedKeyAttester> {
        Arc::clone(&self.key.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Reload for Identity {
    /// The service's key, and a look at the directory, each part of which is followed by itself.
    fn reload(&self) -> Result<(), String> {
        // Full: it is asked to look already.
        let _ = self.look.try_send(());
        let key = identity::load(&self.file).map_err(|error| error.to_string())?;
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
        Ok(())
    }
}

/// Which lock a node has to show: any cluster's, which then is its record's.
fn lock(_: &EnrolSnapshot, purpose: Purpose) -> Option<LockExpectation> {
    match purpose {
        Purpose::Enrol => Some(LockExpectation::Locked),
        Purpose::Init
        | Purpose::Attach
        | Purpose::Join
        | Purpose::Rejoin
        | Purpose::Recover
        | Purpose::Report
        | Purpose::Verify => None,
    }
}

/// Serves until a signal says stop, then finishes running calls within the configured time.
pub(crate) fn serve(prepared: Prepared) -> Result<(), ProgramError> {
    let Prepared { config, identity, current, client } = prepared;
    let limits = config.limits;
    program::allow_open_files(limits.connections)?;
    let signals = SignalStream::catch()?;
    let records = current.source().0.records_path();
    let keeper = Arc::new(Keeper::open(&records).map_err(ProgramError::running)?);
    current.remember().map_err(ProgramError::unusable)?;
    let (current, metrics) = (Arc::new(current), Arc::new(Metrics::new()));
    let (look, asked) = bounded(1);
    let key = RwLock::new(Arc::new(identity));
    let identity = Arc::new(Identity { file: config.identity_key.clone(), key, look });
    let service = EnrolService {
        current: Arc::clone(&current),
        keeper: Arc::clone(&keeper),
        centre: Centre::new(&client),
        metrics: Arc::clone(&metrics),
        ids: RequestIds::new(),
    };
    let table = ConnectionTable::new(limits.of_connections());
    let reloads = Reloads::of(Arc::clone(&identity) as _);
    let server = Server::new(grpc_limits(limits)).service(EnrolmentServer::new(service));
    let shared = Arc::new(Shared {
        current: Arc::clone(&current),
        identity,
        server: server.on_unhandled(audit_unhandled()),
        metrics: Arc::clone(&metrics),
        limits,
        noise: LogLimiter::new(),
    });
    let stale = Duration::from_secs(limits.stale_seconds.into());
    let (pages_table, pages_reloads) = (table.clone(), reloads.clone());
    let pages =
        Pages { metrics, current: Arc::clone(&current), keeper, stale, table: pages_table, reloads: pages_reloads };
    let grace = Duration::from_secs(limits.shutdown_seconds.into());
    let carrier = Carrier { table, signals, reloads, threads: limits.thread_count(), grace };
    smol::block_on(async {
        let bound = Bound::open(config.listen, config.admin_listen).await.map_err(ProgramError::running)?;
        let bound = bound.with_metrics(config.metrics).await.map_err(ProgramError::running)?;
        // Nobody but the files and the operator tells.
        let (_nobody, told) = bounded(1);
        let _following = smol::spawn(follow(current, told, asked));
        bound.say_ready()?;
        bound.serve(shared, Arc::new(pages), carrier).await.map_err(ProgramError::running)
    })
}

fn grpc_limits(limits: Limits) -> grpc::Limits {
    grpc::Limits {
        inbound_message: MAX_REQUEST,
        outbound_message: MAX_ANSWER,
        concurrent_calls: 1,
        idle: IDLE,
        drain: Duration::from_secs(limits.shutdown_seconds.into()),
        call: Some(MAX_CALL),
        ..grpc::Limits::default()
    }
}

impl Connections for Shared {
    async fn connection(self: Arc<Self>, visit: Visit, stop: Stop) {
        let Visit { stream, address, shown } = visit;
        let (snapshot, attester) = (self.current.snapshot(), self.identity.key());
        let connection = Connection { address, shown, snapshot, attester, demand: lock, diagnose: what_differs };
        let time = Duration::from_secs(self.limits.handshake_seconds.into());
        let (proven, node) = match connection.receive_until(stream, time, &stop).await {
            Some(Ok(received)) => received,
            Some(Err(failed)) => {
                self.metrics.handshakes.failed(&failed.error);
                failed.log(address, &self.noise);
                return;
            }
            None => return,
        };
        let _open = self.metrics.handshakes.admitted();
        if let Err(error) = self.server.serve_until(proven, node, stop.wait()).await
            && !error.is_disconnect()
        {
            tracing::warn!(peer = %address, %error, "Connection ended");
        }
    }
}

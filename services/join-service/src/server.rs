//! Connections: rates, then the attested handshake within its deadline, then gRPC.

use crate::api_certificate;
use crate::approver::{self, Pulse};
use crate::back_end::BackEnd;
use crate::config::Config;
use crate::credentials::{Credentials, Secrets};
use crate::denial_socket::DenialSocket;
use crate::denials::DenialCheck;
use crate::documents::{ClusterSnapshot, CurrentCluster};
use crate::metrics::Metrics;
use crate::pages::Pages;
use crate::service::{JoinService, LastKeyError};
use crate::store::Store;
use crate::tokens::Tokens;
use crate::watch;
use latchkey_api::grpc::{self, Server};
use latchkey_api::v1::JoinServer;
use latchkey_attestation::LockExpectation;
use latchkey_attesting_service::unhandled::audit_unhandled;
use latchkey_attesting_service::{Connection, Limits, Node};
use latchkey_channel::{Proven, Purpose};
use latchkey_cluster_store::RefusedMachine;
use latchkey_measurements::diagnose::what_differs;
use latchkey_service_runtime::connections::{ConnectionTable, Shown};
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::program::{self, ProgramError};
use latchkey_service_runtime::reload::Reloads;
use latchkey_service_runtime::serve::{Bound, Carrier, Connections, Stop, Visit};
use latchkey_service_runtime::signals::SignalStream;
use smol::future::FutureExt as _;
use smol::net::TcpStream;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Far more than a request can need; a certificate request has some hundred bytes.
const MAX_REQUEST: usize = 16 * 1024;

/// A payload and a bundle of authorities of 64 KiB each, what control planes share, and some more.
const MAX_TICKET: usize = 320 * 1024;

/// A node asks once or twice and goes.
const IDLE: Duration = Duration::from_secs(30);

/// How long a connection lives, whatever is said over it: a proof is not good for ever. A node needs some seconds, and comes again.
const LIFE: Duration = Duration::from_mins(2);

/// Two keys and a write to disk.
const MAX_CALL: Duration = Duration::from_secs(20);

/// Everything that was read from files and found good.
#[derive(Debug)]
pub struct Prepared {
    /// What the configuration names outside of the cluster.
    pub(crate) secrets: Secrets,
    /// Where the cluster is kept.
    pub back_end: BackEnd,
    /// What is kept there beside the records.
    pub current: CurrentCluster,
}

/// The same, with the records taken into use.
pub(crate) struct Opened {
    secrets: Secrets,
    back_end: BackEnd,
    current: Arc<CurrentCluster>,
    store: Arc<Store>,
}

impl Prepared {
    /// Reads the records, tidies up after crashes, and remembers the manifests that are going to be in force. Waits for other
    /// programs that write, so signals must still end the process.
    pub(crate) fn open(self) -> Result<Opened, ProgramError> {
        let Self { secrets, back_end, current } = self;
        let store = back_end.records().and_then(Store::open).map_err(ProgramError::running)?;
        current.remember().map_err(ProgramError::unusable)?;
        Ok(Opened { secrets, back_end, current: Arc::new(current), store })
    }
}

/// What every connection needs.
struct Shared {
    current: Arc<CurrentCluster>,
    credentials: Arc<Credentials>,
    server: Server<Node>,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
    limits: Limits,
    noise: LogLimiter,
}

/// Serves until a signal says stop, then finishes running calls within the configured time. `file` is what is read again when
/// a signal says reload.
pub(crate) fn serve(file: &Path, config: Config, opened: Opened) -> Result<(), ProgramError> {
    let Opened { secrets, back_end, current, store } = opened;
    let (listen, admin_listen, limits) = (config.listen, config.admin_listen, config.limits);
    let others = config.metrics.clone();
    program::allow_open_files(limits.connections)?;
    let signals = SignalStream::catch()?;
    let socket = config.denial_socket.as_deref().map(DenialSocket::bind).transpose().map_err(ProgramError::unusable)?;
    let (metrics, last_key_error) = (Arc::new(Metrics::new()), Arc::new(LastKeyError::default()));
    let (look, looks) = watch::looks();
    let denials = DenialCheck::new(Arc::clone(&current), back_end.api_server().cloned().zip(config.unheard()));
    let credentials = Arc::new(Credentials::new(file, config, secrets, Arc::clone(&current), look));
    let service = JoinService::new(
        (Arc::clone(&current), denials.clone()),
        (Arc::clone(&store), Tokens::new(&back_end, Arc::clone(&store))),
        Arc::clone(&credentials),
        Arc::clone(&metrics),
        Arc::clone(&last_key_error),
    );
    let approvals = back_end.api_server().map(|api| (Arc::clone(api), Arc::new(Pulse::new())));
    let approving = approvals.clone().map(|(api, pulse)| {
        let known = (Arc::clone(&current), denials.clone());
        approver::run(api, Arc::clone(&store), known, Arc::clone(&metrics), pulse)
    });
    let table = ConnectionTable::new(limits.of_connections());
    let reloads = Reloads::of(Arc::clone(&credentials) as _);
    let shared = Arc::new(Shared {
        current: Arc::clone(&current),
        credentials,
        server: Server::new(grpc_limits(limits)).service(JoinServer::new(service)).on_unhandled(audit_unhandled()),
        store: Arc::clone(&store),
        metrics: Arc::clone(&metrics),
        limits,
        noise: LogLimiter::new(),
    });
    let pages = Arc::new(Pages {
        metrics,
        current: Arc::clone(&current),
        denials,
        store: Arc::clone(&store),
        last_key_error,
        stale: Duration::from_secs(limits.stale_seconds.into()),
        table: table.clone(),
        reloads: reloads.clone(),
        approvals,
    });
    let grace = Duration::from_secs(limits.shutdown_seconds.into());
    let carrier = Carrier { table, signals, reloads, threads: limits.thread_count(), grace };
    smol::block_on(async {
        let bound = Bound::open(listen, admin_listen).await.map_err(ProgramError::running)?;
        let bound = bound.with_metrics(others).await.map_err(ProgramError::running)?;
        // Dropped, and so ended, with this function.
        let _denying = socket.map(|socket| smol::spawn(socket.serve(Arc::clone(&current))));
        let _following = smol::spawn(watch::follow_configuration(current, back_end.clone(), looks.clone()));
        let _telling = back_end.api_server().cloned().map(|api| smol::spawn(api_certificate::tell(api)));
        let _watching = smol::spawn(watch::follow_records(store, back_end, looks));
        let _approving = approving.map(smol::spawn);
        bound.say_ready()?;
        bound.serve(shared, pages, carrier).await.map_err(ProgramError::running)
    })
}

/// Which lock a node has to show.
pub(crate) fn lock(snapshot: &ClusterSnapshot, purpose: Purpose) -> Option<LockExpectation> {
    match purpose {
        Purpose::Join | Purpose::Rejoin => Some(LockExpectation::Unlocked),
        // Before there is a cluster nobody can be locked to it.
        Purpose::Report => Some(LockExpectation::LockedTo(snapshot.own.cluster.as_ref()?.cluster_id.locked_pcr15())),
        Purpose::Init | Purpose::Attach | Purpose::Recover | Purpose::Verify | Purpose::Enrol => None,
    }
}

fn grpc_limits(limits: Limits) -> grpc::Limits {
    grpc::Limits {
        inbound_message: MAX_REQUEST,
        outbound_message: MAX_TICKET,
        concurrent_calls: 4,
        idle: IDLE,
        drain: Duration::from_secs(limits.shutdown_seconds.into()),
        call: Some(MAX_CALL),
        ..grpc::Limits::default()
    }
}

impl Connections for Shared {
    async fn connection(self: Arc<Self>, visit: Visit, stop: Stop) {
        let Visit { stream, address, shown } = visit;
        let Some((proven, node)) = self.receive(stream, address, shown, &stop).await else { return };
        let _open = self.metrics.handshakes.admitted();
        let life = async {
            smol::Timer::after(LIFE).await;
        };
        if let Err(error) = self.server.serve_until(proven, node, stop.wait().or(life)).await
            && !error.is_disconnect()
        {
            tracing::warn!(peer = %address, %error, "Connection ended");
        }
    }
}

impl Shared {
    /// The attested handshake, not beyond a stop.
    async fn receive(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        shown: Shown,
        stop: &Stop,
    ) -> Option<(Proven<TcpStream>, Node)> {
        let (snapshot, attester) = (self.current.snapshot(), self.credentials.identity());
        let connection = Connection { address, shown, snapshot, attester, demand: lock, diagnose: what_differs };
        let time = Duration::from_secs(self.limits.handshake_seconds.into());
        match connection.receive_until(stream, time, stop).await? {
            Ok(proven) => Some(proven),
            Err(error) => {
                self.metrics.handshakes.failed(&error.error);
                if let Some(reason) = error.refused() {
                    // Not by the TPM that it claims to have: it has proven none.
                    self.store.show_refusal(RefusedMachine { ek: None, action: "attest", reason });
                }
                error.log(address, &self.noise);
                None
            }
        }
    }
}

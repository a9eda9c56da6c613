//! Connections: rates, then the attested handshake within its deadline, then gRPC.

use crate::config::{Config, Limits};
use crate::keys::KeySource;
use crate::metrics::{Metrics, Turned};
use crate::pages::Pages;
use crate::reception::{HandshakeContext, Note};
use crate::service::{JoinService, Node, Trouble, audit_unhandled};
use crate::snapshot::Current;
use crate::store::Store;
use crate::watch;
use latchkey_api::grpc::{self, Server};
use latchkey_api::v1::JoinServer;
use latchkey_channel::{ChannelError, PeerProof, PinnedKeyAttester, Proven, accept};
use latchkey_service_runtime::log_limiter::LogLimiter;
use latchkey_service_runtime::program::Failure;
use latchkey_service_runtime::rate::{PeerRates, TokenBucket};
use latchkey_service_runtime::serve::{Bound, Connections, Stop};
use latchkey_service_runtime::slots::Slots;
use smol::future::FutureExt;
use smol::net::TcpStream;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Far more than a request can need; a certificate request has some hundred bytes.
const MAX_REQUEST: usize = 16 * 1024;

/// A payload of 64 KiB and some more.
const MAX_TICKET: usize = 128 * 1024;

/// A node asks once or twice and goes.
const IDLE: Duration = Duration::from_secs(30);

/// Two keys and a write to disk.
const MAX_CALL: Duration = Duration::from_secs(20);

/// Everything that was read from files and found good.
#[derive(Debug)]
pub struct Prepared {
    /// What the service proves itself with.
    pub identity: PinnedKeyAttester,
    /// Where keys come from.
    pub keys: KeySource,
    /// The cluster directory's content.
    pub current: Current,
}

/// The same, with the cluster directory taken into use.
pub(crate) struct Opened {
    identity: PinnedKeyAttester,
    keys: Arc<KeySource>,
    current: Arc<Current>,
    store: Arc<Store>,
}

impl Prepared {
    /// Reads the records, tidies up after crashes, and remembers the manifests that are going to be in force. Waits for other
    /// programs that write, so signals must still end the process.
    pub(crate) fn open(self) -> Result<Opened, Failure> {
        let Self { identity, keys, current } = self;
        let store = Store::open(current.directory().clone()).map_err(Failure::running)?;
        current.remember().map_err(Failure::unusable)?;
        Ok(Opened { identity, keys: Arc::new(keys), current: Arc::new(current), store })
    }
}

/// What every connection needs.
struct Shared {
    current: Arc<Current>,
    attester: Arc<PinnedKeyAttester>,
    server: Server<Node>,
    metrics: Arc<Metrics>,
    limits: Limits,
    rates: Mutex<Rates>,
    noise: LogLimiter,
    started: Instant,
}

struct Rates {
    all: TokenBucket,
    peers: PeerRates,
}

/// Serves until `stop`, then finishes running calls within the configured time.
pub(crate) fn serve(config: &Config, opened: Opened, stop: impl Future<Output = ()>) -> Result<(), Failure> {
    let Opened { identity, keys, current, store } = opened;
    let (metrics, trouble) = (Arc::new(Metrics::new()), Arc::new(Trouble::default()));
    let service =
        JoinService::new(Arc::clone(&current), Arc::clone(&store), keys, Arc::clone(&metrics), Arc::clone(&trouble));
    let limits = config.limits;
    let shared = Arc::new(Shared {
        current: Arc::clone(&current),
        attester: Arc::new(identity),
        server: Server::new(grpc_limits(limits)).service(JoinServer::new(service)).on_unhandled(audit_unhandled()),
        metrics: Arc::clone(&metrics),
        limits,
        rates: Mutex::new(Rates::new(limits)),
        noise: LogLimiter::new(),
        started: Instant::now(),
    });
    let pages = Arc::new(Pages {
        metrics,
        current: Arc::clone(&current),
        store: Arc::clone(&store),
        keys: trouble,
        stale: Duration::from_secs(limits.stale_seconds.into()),
    });
    let slots = Slots::new(limits.connections, limits.connections_per_address);
    let grace = Duration::from_secs(limits.shutdown_seconds.into());
    smol::block_on(async {
        let bound = Bound::open(config.listen, config.admin_listen).await.map_err(Failure::running)?;
        // Dropped, and so ended, with this function.
        let directory = current.directory().clone();
        let _following = smol::spawn(watch::follow_configuration(current));
        let _watching = smol::spawn(watch::follow_records(store, directory));
        bound.say_ready()?;
        bound.serve(shared, pages, slots, limits.thread_count(), grace, stop).await.map_err(Failure::running)
    })
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

impl Rates {
    fn new(limits: Limits) -> Self {
        let Limits { connections_per_minute, connection_burst, .. } = limits;
        let (of_peer, burst_of_peer) = (limits.connections_per_minute_per_address, limits.connection_burst_per_address);
        Self {
            all: TokenBucket::new(connections_per_minute, connection_burst),
            peers: PeerRates::new(of_peer, burst_of_peer),
        }
    }
}

impl Connections for Shared {
    /// The peer's own rate first: one that floods must not use up everybody's.
    fn welcome(&self, address: SocketAddr) -> bool {
        let now = self.started.elapsed();
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let welcome = rates.peers.take(address.ip(), now) && rates.all.take(now);
        if !welcome {
            self.metrics.turned_away(Turned::RateLimited);
        }
        welcome
    }

    fn full(&self, _: SocketAddr) {
        self.metrics.turned_away(Turned::Full);
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, address: SocketAddr, stop: Stop) {
        let Some(proven) = self.handshake(stream, address, &stop).await else { return };
        let PeerProof::Tpm(peer) = proven.peer() else {
            // The role table lets nodes show nothing else.
            tracing::error!(peer = %address, "A peer was admitted without a TPM; hanging up");
            return;
        };
        let node = Node {
            address,
            purpose: proven.purpose(),
            audit_id: proven.audit_id(),
            admission: peer.admission().clone(),
        };
        let _open = self.metrics.admitted();
        if let Err(error) = self.server.serve_until(proven, node, stop.wait()).await
            && !error.is_disconnect()
        {
            tracing::warn!(peer = %address, %error, "Connection ended");
        }
    }
}

impl Shared {
    /// The attested handshake, not beyond a stop. It gets the snapshot of its beginning: a reload never changes it.
    async fn handshake(&self, stream: TcpStream, address: SocketAddr, stop: &Stop) -> Option<Proven<TcpStream>> {
        let note = Note::default();
        let context = HandshakeContext {
            snapshot: self.current.snapshot(),
            attester: Arc::clone(&self.attester),
            note: note.clone(),
        };
        let time = Duration::from_secs(self.limits.handshake_seconds.into());
        let handshake = async { Some(Box::pin(accept(stream, &context, time)).await) };
        let stopped = async {
            stop.wait().await;
            None
        };
        match handshake.or(stopped).await? {
            Ok(proven) => Some(proven),
            Err(error) => {
                self.metrics.handshake(&error);
                self.tell(address, &note, &error);
                None
            }
        }
    }

    /// A refusal of evidence is a decision and has its line; its number is bounded by the connection rates. What anybody can
    /// cause without evidence comes at a bounded rate.
    fn tell(&self, address: SocketAddr, note: &Note, error: &ChannelError) {
        let noted = note.read();
        let role = noted.role.map_or("-", |role| role.name());
        let ek = noted.ek.map_or_else(|| "-".to_owned(), |ek| ek.to_string());
        if let ChannelError::Refused(refused) = error {
            let difference = error.refusal().and_then(|refusal| refusal.difference());
            let component = difference.map_or_else(String::new, |difference| format!("{:?}", difference.component));
            tracing::warn!(
                target: "audit", peer = %address, role, claimed_ek = ek, outcome = "refused", code = refused.code(),
                told = ?refused.coarse(), component, event = noted.event.unwrap_or_default(), detail = %refused, "Admission"
            );
        } else if let Some(left_out) = self.noise.write_now() {
            tracing::warn!(peer = %address, role, claimed_ek = ek, code = error.code(), %error, left_out, "Handshake failed");
        }
    }
}

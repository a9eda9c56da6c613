//! The node's one open port: attested channels in, services behind them.
//!
//! The port is open only while the node waits (stage 1) or bootstraps (stage 2). Every connection costs the TPM a quote, so
//! few are served at once ([`super::slots`]) and each has a deadline.

use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use latchkey_api::grpc::{ConnectionError, Limits, Server, Service, Status};
use latchkey_channel::{HANDSHAKE_TIME, Purpose, Reception};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt as _;
use smol::net::{TcpListener, TcpStream};

use super::connection_slots::{ConnectionSlots, Known};
use super::init_auth::KnowsInitSecret;
use super::rate_limit::PeerNetwork;
use super::watched::Watched;

/// How long open calls may take to end once the listener closes.
pub(crate) const DRAIN_TIME: Duration = Duration::from_secs(3);
/// Until the next accept when one failed: too many open files do not get fewer by asking at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a stranger may take: an `InitRequest` with every name it may have is below 16 KiB, the largest answer is a
/// kubeconfig or 64 KiB of log.
const LIMITS: fn() -> Limits = || Limits {
    inbound_message: 16 << 10,
    outbound_message: 1 << 20,
    stream_window: 16 << 10,
    connection_window: 64 << 10,
    concurrent_calls: 4,
    drain: DRAIN_TIME,
    ..Limits::default()
};

/// Who came in, and what for. The peer is somebody; the secret it must know is asked for by the service.
#[derive(Debug)]
pub(crate) struct Peer {
    role: Purpose,
    network: PeerNetwork,
    known: Known,
    /// The witness that this connection proved the init secret.
    secret: OnceLock<KnowsInitSecret>,
    closed: Arc<Mutex<Option<Sender<()>>>>,
}

impl Peer {
    /// Refuses a call that does not fit the connection's role.
    pub(crate) fn expect(&self, roles: &[Purpose]) -> Result<(), Status> {
        if roles.contains(&self.role) {
            return Ok(());
        }
        let expected = roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(" or ");
        let role = self.role;
        Err(Status::permission_denied(format!("this connection is for {role}; the call needs one for {expected}")))
    }

    /// Where it came from.
    pub(crate) fn network(&self) -> PeerNetwork {
        self.network
    }

    /// It has shown that it knows the secret: strangers no longer push it out.
    pub(crate) fn knows_the_secret(&self, witness: KnowsInitSecret) {
        self.known.set();
        // Shown twice is as good as once.
        let _ = self.secret.set(witness);
    }

    /// The witness, if it has shown that it knows the secret.
    pub(crate) fn init_secret(&self) -> Option<&KnowsInitSecret> {
        self.secret.get()
    }

    /// Tells `heard` when the peer ends the connection in order, which it does only after all that it was sent. A
    /// connection that is lost tells nobody.
    pub(crate) fn on_close(&self, heard: Sender<()>) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(heard);
    }
}

/// The open port.
pub(crate) struct Listener {
    address: SocketAddr,
    task: smol::Task<()>,
    /// Dropped to stop it.
    stop: Sender<Infallible>,
}

/// A listener that lets nobody in any more; calls that are open may end.
pub(crate) struct Closing(smol::Task<()>);

impl Listener {
    /// Opens `port`; 0 is any that is free. `service` answers whoever `reception` lets in.
    pub(crate) async fn open(
        port: u16,
        reception: impl Reception + 'static,
        service: impl Service<Peer>,
    ) -> std::io::Result<Self> {
        let listener = bind(port).await?;
        let address = listener.local_addr()?;
        let server = Server::new(LIMITS()).service(service);
        let (stop, stopped) = bounded(1);
        let task = smol::spawn(serve(listener, reception, server, stopped));
        Ok(Self { address, task, stop })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the port. Nobody is waited for here.
    pub(crate) fn close(self) -> Closing {
        drop(self.stop);
        Closing(self.task)
    }
}

impl Closing {
    /// Lets open calls end, for [`DRAIN_TIME`] at most; whoever is left then is cut off.
    pub(crate) async fn drain(self) {
        let patience = async {
            smol::Timer::after(DRAIN_TIME).await;
        };
        self.0.or(patience).await;
    }
}

/// Dual-stack where the kernel has IPv6, else IPv4.
async fn bind(port: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(("0.0.0.0", port)).await,
    }
}

/// Serves connections until `stop` closes, then lets open calls finish.
async fn serve(
    listener: TcpListener,
    reception: impl Reception + 'static,
    server: Server<Peer>,
    stop: Receiver<Infallible>,
) {
    let reception = Arc::new(reception);
    let mut slots = ConnectionSlots::default();
    while let Some(accepted) = until(&stop, listener.accept()).await {
        let Ok((stream, address)) = accepted else {
            smol::Timer::after(ACCEPT_PAUSE).await;
            continue;
        };
        let (network, now) = (PeerNetwork::of(address.ip()), Instant::now());
        if !slots.make_room(network, now) {
            continue;
        }
        let known = Known::default();
        let visit = Visit { stream, network, known: known.clone(), server: server.clone(), stop: stop.clone() };
        let reception = Arc::clone(&reception);
        let task = smol::spawn(async move {
            if let Err(error) = Box::pin(visit.run(&*reception)).await {
                tracing::info!(peer = %address, "connection ended: {error}");
            }
        });
        slots.seat(network, now, known, task);
    }
    drop(listener);
    slots.leave().await;
}

/// One connection.
struct Visit {
    stream: TcpStream,
    network: PeerNetwork,
    known: Known,
    server: Server<Peer>,
    stop: Receiver<Infallible>,
}

impl Visit {
    async fn run(self, reception: &dyn Reception) -> Result<(), String> {
        let Self { stream, network, known, server, stop } = self;
        // Messages are small and waited for. Without it everything works, only later.
        let _ = stream.set_nodelay(true);
        let handshake = Box::pin(latchkey_channel::accept(stream, reception, HANDSHAKE_TIME));
        let Some(proven) = until(&stop, handshake).await else { return Ok(()) };
        let proven = proven.map_err(|error| error.to_string())?;
        let closed = Arc::new(Mutex::new(None));
        let (role, secret) = (proven.purpose(), OnceLock::new());
        let peer = Peer { role, network, known, secret, closed: Arc::clone(&closed) };
        let (stream, watch) = Watched::new(proven);
        let stopped = async {
            let _ = stop.recv().await;
        };
        let ended = server.serve_until(stream, peer, stopped).await;
        if ended.is_ok() && watch.undisturbed() {
            signal_close(&closed);
        }
        ended.map_err(|error: ConnectionError| error.to_string())
    }
}

fn signal_close(closed: &Mutex<Option<Sender<()>>>) {
    if let Some(heard) = closed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Full means that somebody heard it before; that is enough.
        let _ = heard.try_send(());
    }
}

async fn until<T>(stop: &Receiver<Infallible>, work: impl Future<Output = T>) -> Option<T> {
    let stopped = async {
        let _ = stop.recv().await;
        None
    };
    stopped.or(async { Some(work.await) }).await
}

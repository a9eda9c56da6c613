//! The node's one open port: attested channels in, services behind them.
//!
//! The port is open only while the node waits (stage 1) or bootstraps (stage 2). Every connection may cost the TPM a quote, so
//! few are served at once ([`latchkey_connection_limits`] says who gives way) and each has a deadline.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use latchkey_api::grpc::{ConnectionError, Limits, Server, Service, Status};
use latchkey_channel::{HANDSHAKE_TIME, Purpose, Reception, Terms};
use latchkey_connection_limits::{Arrival, ConnectionSlots, PeerNetwork, SlotId, SlotLimits, Standing};
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt as _;
use smol::net::{TcpListener, TcpStream};

use super::init_auth::KnowsInitSecret;
use super::watched::Watched;

/// How long open calls may take to end once the listener closes.
pub(crate) const DRAIN_TIME: Duration = Duration::from_secs(3);
/// From a connection to its first byte.
const FIRST_BYTE: Duration = Duration::from_secs(3);
/// Connections at once. A stranger costs some 50 KiB and, once its handshake is done, a quote of the TPM.
pub(super) const SLOTS: SlotLimits = SlotLimits { total: 32, per_host: 8, reserve: 8 };
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
    purpose: Purpose,
    network: PeerNetwork,
    seat: Arc<Seat>,
    /// The witness that this connection proved the init secret.
    secret: OnceLock<KnowsInitSecret>,
    closed: Arc<Mutex<Option<Sender<()>>>>,
}

impl Peer {
    /// Refuses a call that does not fit the connection's purpose.
    pub(crate) fn expect(&self, purposes: &[Purpose]) -> Result<(), Status> {
        if purposes.contains(&self.purpose) {
            return Ok(());
        }
        let expected = purposes.iter().map(|purpose| purpose.name()).collect::<Vec<_>>().join(" or ");
        let purpose = self.purpose;
        Err(Status::permission_denied(format!("this connection is for {purpose}; the call needs one for {expected}")))
    }

    /// Where it came from.
    pub(crate) fn network(&self) -> PeerNetwork {
        self.network
    }

    /// It has shown that it knows the secret: strangers no longer push it out.
    pub(crate) fn knows_the_secret(&self, witness: KnowsInitSecret) {
        self.seat.shows(Standing::Admitted);
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
    let seats = Seats::default();
    let _cut = CutAll(&seats);
    // Closes when the last connection has ended.
    let (alive, gone) = bounded::<Infallible>(1);
    while let Some(accepted) = until(&stop, listener.accept()).await {
        let Ok((stream, address)) = accepted else {
            smol::Timer::after(ACCEPT_PAUSE).await;
            continue;
        };
        let Some((seat, cut)) = seats.seat(PeerNetwork::of(address.ip())) else { continue };
        let visit = Visit { stream, seat: Arc::new(seat), server: server.clone(), stop: stop.clone() };
        let (reception, alive) = (Arc::clone(&reception), alive.clone());
        let attended = async move {
            let displaced = async {
                let _closed = cut.recv().await;
                Err("another connection needed its slot more".into())
            };
            if let Err(error) = displaced.or(Box::pin(visit.run(&*reception))).await {
                tracing::info!(peer = %address, "connection ended: {error}");
            }
            drop(alive);
        };
        smol::spawn(attended).detach();
    }
    drop((listener, alive));
    let _closed = gone.recv().await;
}

/// The connections that are served.
#[derive(Clone, Debug)]
struct Seats(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    began: Instant,
    slots: ConnectionSlots,
    /// Dropped to cut a connection off.
    cuts: HashMap<SlotId, Sender<Infallible>>,
}

/// One connection's slot; free again when dropped.
#[derive(Debug)]
struct Seat {
    seats: Seats,
    slot: SlotId,
    network: PeerNetwork,
}

impl Default for Seats {
    fn default() -> Self {
        let slots = ConnectionSlots::new(SLOTS);
        Self(Arc::new(Mutex::new(Table { began: Instant::now(), slots, cuts: HashMap::new() })))
    }
}

impl Seats {
    /// A slot, and what closes when another needs it more.
    fn seat(&self, network: PeerNetwork) -> Option<(Seat, Receiver<Infallible>)> {
        self.with(|Table { slots, cuts, .. }, now| {
            let Arrival::Seated { slot, displaced } = slots.arrive(network, now) else { return None };
            displaced.and_then(|displaced| cuts.remove(&displaced));
            let (keep, cut) = bounded(1);
            cuts.insert(slot, keep);
            Some((Seat { seats: self.clone(), slot, network }, cut))
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Table, Duration) -> T) -> T {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = table.began.elapsed();
        act(&mut table, now)
    }
}

/// Whoever is left is cut off.
struct CutAll<'a>(&'a Seats);

impl Drop for CutAll<'_> {
    fn drop(&mut self) {
        self.0.with(|table, _| table.cuts.clear());
    }
}

impl Seat {
    fn shows(&self, standing: Standing) {
        self.seats.with(|table, now| table.slots.shows(self.slot, standing, now));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.with(|table, _| {
            table.slots.release(self.slot);
            table.cuts.remove(&self.slot);
        });
    }
}

/// Tells the slots when a peer's handshake has come to its purpose: all that a stranger can show before it knows a secret.
struct Noticing<'a> {
    reception: &'a dyn Reception,
    seat: &'a Seat,
}

impl Reception for Noticing<'_> {
    fn terms(&self, purpose: Purpose) -> Option<Terms> {
        let terms = self.reception.terms(purpose)?;
        self.seat.shows(Standing::Claimed);
        Some(terms)
    }
}

/// One connection.
struct Visit {
    stream: TcpStream,
    seat: Arc<Seat>,
    server: Server<Peer>,
    stop: Receiver<Infallible>,
}

impl Visit {
    async fn run(self, reception: &dyn Reception) -> Result<(), String> {
        let Self { stream, seat, server, stop } = self;
        // Messages are small and waited for. Without it everything works, only later.
        let _ = stream.set_nodelay(true);
        let handshake = Box::pin(async {
            first_byte(&stream).await?;
            seat.shows(Standing::Started);
            let reception = Noticing { reception, seat: &seat };
            latchkey_channel::accept(stream, &reception, HANDSHAKE_TIME).await.map_err(|error| error.to_string())
        });
        let Some(proven) = until(&stop, handshake).await else { return Ok(()) };
        let proven = proven?;
        let closed = Arc::new(Mutex::new(None));
        let (purpose, secret) = (proven.purpose(), OnceLock::new());
        let peer = Peer { purpose, network: seat.network, seat, secret, closed: Arc::clone(&closed) };
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

/// Returns when there is something to read.
async fn first_byte(stream: &TcpStream) -> Result<(), String> {
    let said = async { stream.peek(&mut [0]).await.is_ok_and(|count| count > 0) };
    let late = async {
        smol::Timer::after(FIRST_BYTE).await;
        false
    };
    if said.or(late).await { Ok(()) } else { Err("it said nothing".into()) }
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

//! Listening, connections and the graceful end.

use crate::admin::{self, ACCEPT_PAUSE, Admin, is_transient};
use crate::config::MetricsConfig;
use crate::connections::{ConnectionTable, Seat, Shown, TurnedAway};
use crate::guarded::Guarded;
use crate::program::{self, ProgramError};
use crate::reload::Reloads;
use crate::signals::{Asked, SignalStream};
use smol::channel::{Receiver, Sender};
use smol::future::{FutureExt, pending};
use smol::net::{TcpListener, TcpStream};
use smol::{Executor, Timer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What is left of a stop after the calls got their time: closing sockets.
const STOP_SLACK: Duration = Duration::from_secs(1);

/// Listening, not yet serving.
#[derive(Debug)]
pub struct Bound {
    services: Vec<TcpListener>,
    admin: TcpListener,
    metrics: Option<(TcpListener, MetricsConfig)>,
}

/// What a service does with connections.
pub trait Connections: Send + Sync + 'static {
    /// Serves one connection to its end; when `stop` is ready, it should come soon. Dropped when another needs its slot more.
    fn connection(self: Arc<Self>, visit: Visit, stop: Stop) -> impl Future<Output = ()> + Send;
}

/// A connection whose peer has said something.
#[derive(Debug)]
pub struct Visit {
    /// Nothing has been read of it.
    pub stream: TcpStream,
    /// Where it comes from.
    pub address: SocketAddr,
    /// Where to tell what the peer has shown.
    pub shown: Shown,
}

/// Ready when the service is asked to stop.
#[derive(Clone, Debug)]
pub struct Stop(Receiver<Infallible>);

impl Stop {
    /// Returns when the service is asked to stop.
    pub async fn wait(&self) {
        let _closed = self.0.recv().await;
    }
}

/// How a service is carried.
#[derive(Debug)]
pub struct Carrier {
    /// Its connections.
    pub table: ConnectionTable,
    /// What it is asked by signals.
    pub signals: SignalStream,
    /// What it does when asked to reload.
    pub reloads: Reloads,
    /// Threads that serve connections, the main one included.
    pub threads: usize,
    /// The time that running calls get to finish.
    pub grace: Duration,
}

impl Bound {
    /// Opens both listeners.
    ///
    /// # Errors
    /// Names the address that cannot be had.
    pub async fn open(service: SocketAddr, admin: SocketAddr) -> io::Result<Self> {
        Self::open_all(&[service], admin).await
    }

    /// Opens a listener for each of a service's addresses, and that of the admin pages.
    ///
    /// # Errors
    /// Names the address that cannot be had.
    pub async fn open_all(services: &[SocketAddr], admin: SocketAddr) -> io::Result<Self> {
        let mut bound = Self { services: Vec::new(), admin: bind(admin).await?, metrics: None };
        for address in services {
            bound.services.push(bind(*address).await?);
        }
        Ok(bound)
    }

    /// Opens the address for other machines' monitoring, too, where there is one; see [`crate::guarded`].
    ///
    /// # Errors
    /// Names the address that cannot be had.
    pub async fn with_metrics(self, config: Option<MetricsConfig>) -> io::Result<Self> {
        let Some(config) = config else { return Ok(self) };
        Ok(Self { metrics: Some((bind(config.listen).await?, config)), ..self })
    }

    /// Where connections are taken, with the ports that the kernel chose.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.services.iter().map(TcpListener::local_addr).collect()
    }

    /// Where the admin pages are.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn admin_address(&self) -> io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Where other machines find the metrics, if they do.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn metrics_address(&self) -> io::Result<Option<SocketAddr>> {
        self.metrics.as_ref().map(|(listener, _)| listener.local_addr()).transpose()
    }

    /// Says on stdout that connections are taken: `READY listen=ADDRESS admin=ADDRESS`, and ` metrics=ADDRESS` where there is that;
    /// several addresses have commas between them. Supervisors and tests wait for this line; it has the ports that the kernel chose.
    ///
    /// # Errors
    /// When stdout is closed.
    pub fn say_ready(&self) -> Result<(), ProgramError> {
        let listen = self.addresses().map_err(ProgramError::running)?;
        let listen = listen.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
        let admin = self.admin_address().map_err(ProgramError::running)?;
        let metrics = self.metrics_address().map_err(ProgramError::running)?;
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(address = %listen, %admin, metrics = metrics.map(tracing::field::display), version, "Serving");
        let metrics = metrics.map_or_else(String::new, |address| format!(" metrics={address}"));
        program::print(&format!("READY listen={listen} admin={admin}{metrics}\n"))
    }

    /// Answers the admin pages alone, until dropped.
    ///
    /// # Errors
    /// When a listener fails for good.
    pub async fn answer(self, pages: Arc<dyn Admin>) -> io::Result<()> {
        let executor = Arc::new(Executor::new());
        // Nobody asks for a stop, and nobody waits for the end of what is answered.
        let (_stopping, stopped) = smol::channel::bounded::<Infallible>(1);
        let (alive, _gone) = smol::channel::bounded::<Infallible>(1);
        let others = self.metrics.map(|(listener, config)| (listener, Guarded::new(config, Arc::clone(&pages))));
        let telling_others = tell_others(others, &executor, Stop(stopped), alive);
        executor.run(admin::serve(self.admin, pages).or(telling_others)).await
    }

    /// Serves until asked to stop, then finishes running calls.
    ///
    /// # Errors
    /// When a listener fails for good.
    pub async fn serve<C: Connections>(
        self,
        connections: Arc<C>,
        pages: Arc<dyn Admin>,
        carrier: Carrier,
    ) -> io::Result<()> {
        let Carrier { table, mut signals, reloads, threads, grace } = carrier;
        let executor = Arc::new(Executor::new());
        let _helpers = Helpers::start(&executor, threads.saturating_sub(1));
        // Closing the first channel tells connections to end; the second closes when all of them have.
        let (stopping, stopped) = smol::channel::bounded::<Infallible>(1);
        let (alive, gone) = smol::channel::bounded::<Infallible>(1);
        let others = self.metrics.map(|(listener, config)| (listener, Guarded::new(config, Arc::clone(&pages))));
        let telling_others = tell_others(others, &executor, Stop(stopped.clone()), alive.clone());
        let accepting = accept_all(&self.services, &executor, connections, &table, Stop(stopped), alive);
        let serving = async {
            let answering = admin::serve(self.admin, pages);
            let reloading = async { reloads.follow().await };
            let stop_asked = async {
                while signals.next().await == Asked::Reload {
                    reloads.ask();
                }
                Ok(())
            };
            stop_asked.or(accepting).or(answering).or(telling_others).or(reloading).await?;
            tracing::info!("Stopping");
            drop(stopping);
            let all_gone = async {
                let _closed = gone.recv().await;
            };
            let too_late = async {
                Timer::after(grace + STOP_SLACK).await;
            };
            all_gone.or(too_late).await;
            Ok(())
        };
        executor.run(serving).await
    }
}

/// Answers where other machines find the metrics, if they do.
async fn tell_others(
    others: Option<(TcpListener, Guarded)>,
    executor: &Arc<Executor<'static>>,
    stop: Stop,
    alive: Sender<Infallible>,
) -> io::Result<()> {
    let Some((listener, guarded)) = others else { return pending().await };
    accept(&listener, executor, Arc::new(guarded), &Guarded::table(), stop, alive).await
}

async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("Cannot listen on {address}: {error}"));
    TcpListener::bind(address).await.map_err(named)
}

/// Accepts on all listeners, until one fails for good.
async fn accept_all<C: Connections>(
    listeners: &[TcpListener],
    executor: &Arc<Executor<'static>>,
    connections: Arc<C>,
    table: &ConnectionTable,
    stop: Stop,
    alive: Sender<Infallible>,
) -> io::Result<()> {
    let mut all: Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> = Box::pin(pending());
    for listener in listeners {
        let one = accept(listener, executor, Arc::clone(&connections), table, stop.clone(), alive.clone());
        all = Box::pin(one.or(all));
    }
    drop((connections, stop, alive));
    all.await
}

async fn accept<C: Connections>(
    listener: &TcpListener,
    executor: &Arc<Executor<'static>>,
    connections: Arc<C>,
    table: &ConnectionTable,
    stop: Stop,
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
        let Ok(seat) = table.arrive(address.ip()) else { continue };
        // Answers are one small packet; waiting for more to send with it only delays them.
        drop(stream.set_nodelay(true));
        let (connections, table, stop, alive) = (Arc::clone(&connections), table.clone(), stop.clone(), alive.clone());
        let connection = async move {
            if let Err(why) = attend(connections, &seat, stream, address, stop).await {
                table.turned_away(why);
            }
            drop((seat, alive));
        };
        executor.spawn(connection).detach();
    }
}

/// One connection: from its first byte to its end, or until another needs its slot more.
async fn attend<C: Connections>(
    connections: Arc<C>,
    seat: &Seat,
    stream: TcpStream,
    address: SocketAddr,
    stop: Stop,
) -> Result<(), TurnedAway> {
    let shown = seat.shown();
    let stopped = stop.clone();
    let served = async {
        let begin = async {
            first_byte(&stream, seat.first_byte()).await?;
            shown.started();
            seat.turn().await?;
            Ok(true)
        };
        let stopped = async {
            stopped.wait().await;
            Ok(false)
        };
        if begin.or(stopped).await? {
            connections.connection(Visit { stream, address, shown }, stop).await;
        }
        Ok(())
    };
    let cut = async {
        seat.cut().await;
        Err(TurnedAway::Displaced)
    };
    // A slot that is gone is gone: first.
    cut.or(Box::pin(served)).await
}

/// Returns when there is something to read.
async fn first_byte(stream: &TcpStream, limit: Duration) -> Result<(), TurnedAway> {
    let mut byte = [0];
    let said =
        async { stream.peek(&mut byte).await.ok().filter(|count| *count > 0).ok_or(TurnedAway::Silent).map(drop) };
    let late = async {
        Timer::after(limit).await;
        Err(TurnedAway::Silent)
    };
    said.or(late).await
}

/// Threads that run connections beside the main one; they end when this is dropped.
struct Helpers {
    stop: Option<Sender<Infallible>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Helpers {
    fn start(executor: &Arc<Executor<'static>>, count: usize) -> Self {
        let (stop, stopped) = smol::channel::bounded::<Infallible>(1);
        let helper = |number: usize| {
            let (executor, stopped) = (Arc::clone(executor), stopped.clone());
            let run = move || {
                let _closed = smol::block_on(executor.run(stopped.recv()));
            };
            // Fewer threads serve as well, only slower.
            thread::Builder::new().name(format!("connections-{number}")).spawn(run).ok()
        };
        Self { threads: (0..count).filter_map(helper).collect(), stop: Some(stop) }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.stop = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            drop(thread.join());
        }
    }
}

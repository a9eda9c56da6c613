//! Listening, connections and the graceful end.

use crate::admin::{self, ACCEPT_PAUSE, Admin, is_transient};
use crate::program::{self, Failure};
use crate::slots::{Slot, Slots};
use smol::channel::{Receiver, Sender};
use smol::future::FutureExt;
use smol::net::{TcpListener, TcpStream};
use smol::{Executor, Timer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What is left of a stop after the calls got their time: closing sockets.
const STOP_SLACK: Duration = Duration::from_secs(1);

/// Listening, not yet serving.
#[derive(Debug)]
pub struct Bound {
    service: TcpListener,
    admin: TcpListener,
}

/// What a service does with connections.
pub trait Connections: Send + Sync + 'static {
    /// Whether to take a connection from this address at all. Asked before anything is spent on it.
    fn welcome(&self, address: SocketAddr) -> bool {
        let _ = address;
        true
    }

    /// Told of a connection that was closed at once, because all places are taken.
    fn full(&self, address: SocketAddr);

    /// Serves one connection to its end; when `stop` is ready, it should come soon.
    fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        stop: Stop,
    ) -> impl Future<Output = ()> + Send;
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

impl Bound {
    /// Opens both listeners.
    ///
    /// # Errors
    /// Names the address that cannot be had.
    pub async fn open(service: SocketAddr, admin: SocketAddr) -> io::Result<Self> {
        Ok(Self { service: bind(service).await?, admin: bind(admin).await? })
    }

    /// Says on stdout that connections are taken: `READY listen=ADDRESS admin=ADDRESS`. Supervisors and tests wait for
    /// this line; it has the ports that the kernel chose.
    ///
    /// # Errors
    /// When stdout is closed.
    pub fn say_ready(&self) -> Result<(), Failure> {
        let listen = self.service.local_addr().map_err(Failure::running)?;
        let admin = self.admin.local_addr().map_err(Failure::running)?;
        tracing::info!(address = %listen, %admin, version = env!("CARGO_PKG_VERSION"), "Serving");
        program::print(&format!("READY listen={listen} admin={admin}\n"))
    }

    /// Serves until `stop`, then finishes running calls within `grace`. Connections are spread over `threads` threads, this
    /// one included.
    ///
    /// # Errors
    /// When a listener fails for good.
    pub async fn serve<C: Connections>(
        self,
        connections: Arc<C>,
        pages: Arc<dyn Admin>,
        slots: Slots,
        threads: usize,
        grace: Duration,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let executor = Arc::new(Executor::new());
        let _helpers = Helpers::start(&executor, threads.saturating_sub(1));
        // Closing the first channel tells connections to end; the second closes when all of them have.
        let (stopping, stopped) = smol::channel::bounded::<Infallible>(1);
        let (alive, gone) = smol::channel::bounded::<Infallible>(1);
        let accepting = accept(&self.service, &executor, connections, slots, Stop(stopped), alive);
        let serving = async {
            let answering = admin::serve(self.admin, pages);
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
                Timer::after(grace + STOP_SLACK).await;
            };
            all_gone.or(too_late).await;
            Ok(())
        };
        executor.run(serving).await
    }
}

async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("Cannot listen on {address}: {error}"));
    TcpListener::bind(address).await.map_err(named)
}

async fn accept<C: Connections>(
    listener: &TcpListener,
    executor: &Arc<Executor<'static>>,
    connections: Arc<C>,
    slots: Slots,
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
        if !connections.welcome(address) {
            continue;
        }
        let Some(slot) = slots.take(address.ip()) else {
            connections.full(address);
            continue;
        };
        // Answers are one small packet; waiting for more to send with it only delays them.
        drop(stream.set_nodelay(true));
        let held = Held { _slot: slot, _alive: alive.clone() };
        let connection = Arc::clone(&connections).connection(stream, address, stop.clone());
        let connection = async move {
            connection.await;
            drop(held);
        };
        executor.spawn(connection).detach();
    }
}

/// As long as the connection lives.
struct Held {
    _slot: Slot,
    _alive: Sender<Infallible>,
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

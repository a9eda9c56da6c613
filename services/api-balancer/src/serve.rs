//! Takes connections, and keeps the table of targets as they are.

use crate::config::Config;
use crate::health::{Health, Table};
use crate::probe;
use crate::relay::relay;
use crate::targets::Targets;
use latchkey_service_runtime::admin::Admin;
use latchkey_service_runtime::page::Page;
use latchkey_service_runtime::program::ProgramError;
use smol::channel::{Receiver, Sender};
use smol::future::FutureExt as _;
use smol::net::{TcpListener, TcpStream};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Connections at a time: a node's own programs, not the world.
const MAX_CONNECTIONS: usize = 512;
/// How long one target may take to take a connection before the next is tried.
const CONNECT: Duration = Duration::from_secs(3);
/// After an accept that failed for want of something.
const PAUSE: Duration = Duration::from_millis(100);

/// How often targets are asked.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Whether each is ready.
    pub probe: Duration,
    /// Which there are, counted in probes.
    pub rounds: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { probe: Duration::from_secs(5), rounds: 6 }
    }
}

/// A balancer that listens.
#[derive(Debug)]
pub struct Balancer {
    shared: Arc<Shared>,
    listener: TcpListener,
    pace: Pace,
}

/// What cuts the connections to a target: nothing is ever sent, and that its sender is gone is what they hear.
type Cut = (Sender<Infallible>, Receiver<Infallible>);

#[derive(Debug)]
struct Shared {
    config: Config,
    table: Mutex<Table>,
    /// While a target's sender lives, so do the connections to it.
    cuts: Mutex<HashMap<SocketAddr, Cut>>,
}

impl Balancer {
    /// Reads the list and listens.
    ///
    /// # Errors
    /// A list that cannot be used, or an address that is taken.
    pub async fn bind(config: Config, pace: Pace) -> Result<Self, ProgramError> {
        let targets = Targets::read(&config.api_servers).map_err(ProgramError::unusable)?;
        let listener = TcpListener::bind(config.listen).await.map_err(ProgramError::running)?;
        let (table, cuts) = (Mutex::new(Table::new(&targets)), Mutex::default());
        Ok(Self { shared: Arc::new(Shared { config, table, cuts }), listener, pace })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> Result<SocketAddr, ProgramError> {
        self.listener.local_addr().map_err(ProgramError::running)
    }

    /// What it tells of itself.
    pub fn page(&self) -> Arc<dyn Admin> {
        Arc::clone(&self.shared) as _
    }

    /// Serves; ends never.
    pub async fn serve(self) {
        let Self { shared, listener, pace } = self;
        let probing = Arc::clone(&shared).probe_on(pace);
        shared.accept_on(&listener).or(probing).await;
    }
}

impl Admin for Shared {
    fn metrics(&self) -> String {
        let mut page = Page::new("latchkey_api_balancer_");
        page.family("targets", "gauge", "API servers on the list, by what their last probes said");
        for health in Health::ALL {
            page.line("targets", &format!("{{health=\"{}\"}}", health.name()), self.table().count(health));
        }
        page.into_text()
    }

    fn health(&self) -> Result<Vec<String>, String> {
        if self.table().count(Health::Ready) > 0 {
            Ok(Vec::new())
        } else {
            Err("no API server says that it is ready".to_owned())
        }
    }
}

impl Shared {
    async fn accept_on(self: &Arc<Self>, listener: &TcpListener) {
        let places = Arc::new(());
        loop {
            match listener.accept().await {
                // Closed at once: whoever it is comes again.
                Ok(_) if Arc::strong_count(&places) > MAX_CONNECTIONS => {
                    tracing::warn!(most = MAX_CONNECTIONS, "Too many connections");
                }
                Ok((client, _)) => {
                    let (shared, place) = (Arc::clone(self), Arc::clone(&places));
                    smol::spawn(async move {
                        shared.carry(client).await;
                        drop(place);
                    })
                    .detach();
                }
                Err(error) => {
                    tracing::warn!(%error, "No connection could be taken");
                    smol::Timer::after(PAUSE).await;
                }
            }
        }
    }

    /// One connection, to the first target that takes it.
    async fn carry(&self, client: TcpStream) {
        let order = self.table().order();
        for address in order {
            // Before connecting: a target that goes down meanwhile cuts this one off, too.
            let cut = self.cut_of(address);
            let late = async {
                smol::Timer::after(CONNECT).await;
                Err(std::io::ErrorKind::TimedOut.into())
            };
            match TcpStream::connect(address).or(late).await {
                Ok(server) => {
                    // Small messages of TLS; without it they only wait longer.
                    let _ = (client.set_nodelay(true), server.set_nodelay(true));
                    return relay(client, server, &cut).await;
                }
                Err(error) => self.probed(address, Err(error.to_string())),
            }
        }
        tracing::warn!("No API server takes a connection");
    }

    async fn probe_on(self: Arc<Self>, pace: Pace) {
        let mut round = 0_u32;
        loop {
            let asked = self.table().addresses().into_iter().map(|address| {
                let shared = Arc::clone(&self);
                smol::spawn(async move {
                    let answer = probe::is_ready(&shared.config, address).await;
                    shared.probed(address, answer.map_err(|error| error.to_string()));
                })
            });
            // All at once: one that hangs keeps nobody.
            for asked in asked.collect::<Vec<_>>() {
                asked.await;
            }
            if round == 0 {
                self.refresh().await;
            }
            round = (round + 1) % pace.rounds.max(1);
            smol::Timer::after(pace.probe).await;
        }
    }

    /// Takes over the cluster's own list, from a target that is ready.
    async fn refresh(&self) {
        let order = self.table().order();
        for address in order {
            if self.table().health(address) != Some(Health::Ready) {
                return;
            }
            match probe::published(&self.config, address).await {
                Ok(None) => return,
                Ok(Some(targets)) => return self.take(&targets),
                Err(error) => tracing::warn!(%address, %error, "The list of API servers could not be read"),
            }
        }
    }

    fn take(&self, targets: &Targets) {
        if targets.iter().eq(self.table().addresses()) {
            return;
        }
        // Written first: after a restart this is where the way leads.
        if let Err(error) = targets.write(&self.config.api_servers) {
            tracing::error!(%error, "The list of API servers could not be kept");
        }
        let gone = self.table().replace(targets);
        tracing::info!(now = ?targets.iter().collect::<Vec<_>>(), ?gone, "The control planes are others");
        for address in gone {
            self.cut_off(address);
        }
    }

    fn probed(&self, address: SocketAddr, answer: Result<(), String>) {
        let was = self.table().health(address);
        let is_down_now = self.table().probed(address, answer.is_ok());
        match answer {
            Ok(()) if was != Some(Health::Ready) => tracing::info!(%address, "An API server is ready"),
            Err(error) if is_down_now => {
                tracing::warn!(%address, error, "An API server is down");
                self.cut_off(address);
            }
            _ => {}
        }
    }

    fn cut_of(&self, address: SocketAddr) -> Receiver<Infallible> {
        self.cuts().entry(address).or_insert_with(|| smol::channel::bounded(1)).1.clone()
    }

    fn cut_off(&self, address: SocketAddr) {
        if let Some((sender, _)) = self.cuts().remove(&address) {
            sender.close();
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cuts(&self) -> MutexGuard<'_, HashMap<SocketAddr, Cut>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The connections of a service: their slots and rates, and what an operator is told of them.
//!
//! The decisions are those of `latchkey-connection-limits`; this file has the clock, the locks, and cuts off whoever must go.

use crate::log_limiter::LogLimiter;
use crate::page::Page;
use latchkey_connection_limits::{
    Arrival, ConnectionSlots, PeerNetwork, PeerRates, Rate, SharedRate, SlotId, SlotLimits, Standing, Usage, Wait,
};
use smol::Timer;
use smol::channel::{Receiver, Sender, bounded};
use smol::future::FutureExt;
use smol::lock::Mutex as AsyncMutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Hosts and sites with a rate of their own: some MiB.
const MAX_PEERS: usize = 16 * 1024;

/// The longest wait for a turn, when more handshakes are begun than the rate allows.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// For how long `/healthz` tells that the slots were full.
const TELL: Duration = Duration::from_mins(1);

/// How often the log tells it.
const FULL_LINES: Rate = Rate { per_minute: 6, burst: 1 };

/// Bounds on the connections of a service.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at a time. A quarter of them is only for sites from which somebody was admitted before.
    pub total: u32,
    /// The same from one host: an IPv4 address, or a /64 of IPv6.
    pub per_host: u32,
    /// New connections of one host; a site may have 16 times that. What is above is closed before anything is read.
    pub host_rate: Rate,
    /// Handshakes that are begun; what is above waits for its turn.
    pub handshake_rate: Rate,
    /// From the TCP connection to its first byte.
    pub first_byte: Duration,
}

/// Why a connection ended before it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// All slots, or the host's or the site's part of them, are taken by others with no less of a claim.
    Full,
    /// It had a slot, and another needed it more.
    Displaced,
    /// The host or its site comes too often, or no turn came for its handshake.
    RateLimited,
    /// It said nothing in time, or hung up before.
    Silent,
}

impl TurnedAway {
    /// All of them, in the order of the enum.
    pub const ALL: [Self; 4] = [Self::Full, Self::Displaced, Self::RateLimited, Self::Silent];

    /// The label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Displaced => "displaced",
            Self::RateLimited => "rate-limited",
            Self::Silent => "silent",
        }
    }
}

/// The table of a service's connections. Clones are the same table.
#[derive(Clone, Debug)]
pub struct ConnectionTable(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: ConnectionLimits,
    started: Instant,
    state: Mutex<State>,
    /// Who waits for a turn: strangers, and known peers. In order of arrival.
    queues: [AsyncMutex<()>; 2],
    full: LogLimiter,
}

#[derive(Debug)]
struct State {
    slots: ConnectionSlots,
    /// Dropped to cut a connection off.
    cuts: HashMap<SlotId, Sender<Infallible>>,
    rates: PeerRates,
    handshakes: SharedRate,
    turned_away: [u64; TurnedAway::ALL.len()],
    full_at: Option<Duration>,
}

/// One connection's slot; free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    table: ConnectionTable,
    peer: PeerNetwork,
    slot: SlotId,
    cut: Receiver<Infallible>,
}

/// Where a connection tells what its peer has shown: it decides who gives way when all slots are taken.
#[derive(Clone, Debug)]
pub struct Shown {
    table: ConnectionTable,
    slot: SlotId,
}

impl ConnectionTable {
    /// An empty table.
    pub fn new(limits: ConnectionLimits) -> Self {
        let ConnectionLimits { total, per_host, host_rate, handshake_rate, .. } = limits;
        let state = State {
            slots: ConnectionSlots::new(SlotLimits { total, per_host, reserve: total / 4 }),
            cuts: HashMap::new(),
            rates: PeerRates::new(host_rate, MAX_PEERS),
            handshakes: SharedRate::new(handshake_rate),
            turned_away: Default::default(),
            full_at: None,
        };
        Self(Arc::new(Shared {
            limits,
            started: Instant::now(),
            state: Mutex::new(state),
            queues: Default::default(),
            full: LogLimiter::at(FULL_LINES),
        }))
    }

    /// The most connections at a time.
    pub fn total(&self) -> u32 {
        self.0.limits.total
    }

    /// Adds what is known of connections to the page.
    pub fn render(&self, page: &mut Page) {
        let (usage, turned_away) = self.with(|state, _| (state.slots.usage(), state.turned_away));
        page.family("connection_slots", "gauge", "Connections that may be open at a time");
        page.line("connection_slots", "", self.total());
        page.family("connection_slots_taken", "gauge", "Open connections, by whether the peer was admitted");
        let Usage { open, strangers, sites } = usage;
        page.line("connection_slots_taken", "{admitted=\"yes\"}", open - strangers);
        page.line("connection_slots_taken", "{admitted=\"no\"}", strangers);
        page.family("connection_sites", "gauge", "Networks (IPv4 /24, IPv6 /48) with an open connection");
        page.line("connection_sites", "", sites);
        page.family("connections_turned_away_total", "counter", "Connections that ended before their handshake began");
        for (reason, count) in TurnedAway::ALL.iter().zip(turned_away) {
            page.line("connections_turned_away_total", &format!("{{reason=\"{}\"}}", reason.name()), count);
        }
    }

    /// What `/healthz` has to say: nothing while there is room.
    pub fn note(&self) -> Option<String> {
        let (usage, recent) = self.with(|state, now| {
            (state.slots.usage(), state.full_at.is_some_and(|full| now.saturating_sub(full) < TELL))
        });
        recent.then(|| {
            let Usage { open, strangers, sites } = usage;
            let total = self.total();
            format!("connections were full within the last minute: {open} of {total} are open, {strangers} of them have proven nothing, from {sites} networks")
        })
    }

    /// A slot for a connection from `address`.
    pub(crate) fn arrive(&self, address: IpAddr) -> Result<Seat, TurnedAway> {
        let peer = PeerNetwork::of(address);
        let (seat, full) = self.with(|state, now| {
            if state.rates.take(peer, now).is_err() {
                return (Err(TurnedAway::RateLimited), false);
            }
            match state.slots.arrive(peer, now) {
                Arrival::Refused(_) => {
                    state.full_at = Some(now);
                    (Err(TurnedAway::Full), true)
                }
                Arrival::Seated { slot, displaced } => {
                    if let Some(displaced) = displaced {
                        state.full_at = Some(now);
                        state.cuts.remove(&displaced);
                    }
                    let (keep, cut) = bounded(1);
                    state.cuts.insert(slot, keep);
                    (Ok(Seat { table: self.clone(), peer, slot, cut }), displaced.is_some())
                }
            }
        });
        if full {
            self.log_full();
        }
        seat.inspect_err(|why| self.turned_away(*why))
    }

    pub(crate) fn turned_away(&self, why: TurnedAway) {
        self.with(|state, _| {
            if let Some(counter) = state.turned_away.get_mut(why as usize) {
                *counter += 1;
            }
        });
    }

    fn log_full(&self) {
        if let Some(left_out) = self.0.full.write_now() {
            let Usage { open, strangers, sites } = self.with(|state, _| state.slots.usage());
            tracing::warn!(
                open,
                strangers,
                sites,
                total = self.total(),
                left_out,
                "Connections are full; of the networks that hold most, who has shown least gives way"
            );
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State, Duration) -> T) -> T {
        act(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner), self.0.started.elapsed())
    }
}

impl Seat {
    /// Returns when another connection took the slot.
    pub(crate) async fn cut(&self) {
        let _closed = self.cut.recv().await;
    }

    /// For the connection to tell what its peer has shown.
    pub(crate) fn shown(&self) -> Shown {
        Shown { table: self.table.clone(), slot: self.slot }
    }

    /// How long the first byte may take.
    pub(crate) fn first_byte(&self) -> Duration {
        self.table.0.limits.first_byte
    }

    /// Waits for the turn to begin a handshake, behind those who came before.
    pub(crate) async fn turn(&self) -> Result<(), TurnedAway> {
        let known = self.table.with(|state, _| state.slots.knows(self.peer));
        let [strangers, acquainted] = &self.table.0.queues;
        let turn = async {
            let _first = if known { acquainted } else { strangers }.lock().await;
            while let Err(Wait(time)) = self.table.with(|state, now| state.handshakes.take(known, now)) {
                Timer::after(time).await;
            }
            Ok(())
        };
        let late = async {
            Timer::after(MAX_WAIT).await;
            Err(TurnedAway::RateLimited)
        };
        turn.or(late).await
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.table.with(|state, _| {
            state.slots.release(self.slot);
            state.cuts.remove(&self.slot);
        });
    }
}

impl Shown {
    /// Some bytes.
    pub(crate) fn started(&self) {
        self.shows(Standing::Started);
    }

    /// An identity that would be let in; the proof is due.
    pub fn claimed(&self) {
        self.shows(Standing::Claimed);
    }

    /// All that is asked for: its slot is kept, and its site is known from now on.
    pub fn admitted(&self) {
        self.shows(Standing::Admitted);
    }

    fn shows(&self, standing: Standing) {
        self.table.with(|state, now| state.slots.shows(self.slot, standing, now));
    }
}

//! The client as a machine without I/O: time and packets in, packets and the lease out.
//!
//! ```text
//! Selecting --offer--> Requesting --ack--> Bound --T1--> Renewing --ack--> Bound
//!     ^                   | nak, no answer                  | nak, time over
//!     +-------------------+                                 v
//!                                                         Lost
//! ```
//!
//! Retransmissions double from one second to sixteen, each a quarter earlier or later at random (RFC 2131 section 4.1
//! asks for that from four seconds on and leaves it to the client on faster networks). Every restart takes a new
//! transaction number and waits, too, so a hostile server that refuses what it offered cannot make the client spin.

use std::time::Duration;

use super::packet::{self, Lease, Reply, Request};

const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Doublings until sixteen seconds.
const MAX_DOUBLINGS: u32 = 4;
/// Requests for an offer before it is given up for another.
const MAX_REQUESTS: u32 = 4;

/// The client of one interface.
#[derive(Debug)]
pub struct Client {
    mac: [u8; 6],
    random: Random,
    xid: u32,
    state: State,
    /// When this transaction began, for the `secs` field.
    begun: Duration,
    /// Messages sent in this state.
    sent: u32,
    /// How often it began anew.
    restarts: u32,
    next: Duration,
}

#[derive(Debug)]
enum State {
    Selecting,
    Requesting(Lease),
    /// `reported` once the driver knows it; `until` is its end.
    Bound {
        lease: Lease,
        reported: bool,
        until: Duration,
    },
    Renewing {
        lease: Lease,
        until: Duration,
    },
    Lost,
}

/// What the driver does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Broadcast these bytes to the server port, then ask again.
    Send(Vec<u8>),
    /// Receive until this time, then ask again.
    Wait(Duration),
    /// The address may be used; reported once per lease and renewal.
    Bound(Lease),
    /// The address must not be used any longer.
    Lost,
}

impl Client {
    /// A client that begins now; times count from any fixed moment. `seed` should be random.
    pub fn new(mac: [u8; 6], seed: u64, now: Duration) -> Self {
        let mut random = Random(seed);
        let xid = random.next();
        Self { mac, random, xid, state: State::Selecting, begun: now, sent: 0, restarts: 0, next: now }
    }

    /// What to do now.
    pub fn poll(&mut self, now: Duration) -> Action {
        self.expire(now);
        match &mut self.state {
            State::Lost => Action::Lost,
            State::Bound { lease, reported, .. } if !*reported => {
                *reported = true;
                Action::Bound(lease.clone())
            }
            _ if now < self.next => Action::Wait(self.next),
            State::Bound { lease, until, .. } => {
                self.state = State::Renewing { lease: lease.clone(), until: *until };
                self.begin_transaction(now);
                self.send(now)
            }
            State::Requesting(_) if self.sent >= MAX_REQUESTS => {
                self.restart(now);
                Action::Wait(self.next)
            }
            State::Selecting | State::Requesting(_) | State::Renewing { .. } => self.send(now),
        }
    }

    /// Takes a packet. The error says why it was ignored, for the log.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) -> Result<(), &'static str> {
        let reply = packet::decode(bytes, self.xid, self.mac)?;
        match (&self.state, reply) {
            (State::Selecting, Reply::Offer(_)) if self.sent == 0 => Err("nothing was asked yet"),
            (State::Selecting, Reply::Offer(offer)) => {
                self.state = State::Requesting(offer);
                (self.sent, self.next) = (0, now);
                Ok(())
            }
            (State::Requesting(offer), Reply::Ack(lease)) => {
                if self.sent == 0 || lease.address != offer.address || lease.server != offer.server {
                    return Err("it acknowledges what was not asked for");
                }
                self.bind(lease, now);
                Ok(())
            }
            (State::Requesting(offer), Reply::Nak(server)) if server == offer.server => {
                self.restart(now);
                Ok(())
            }
            (State::Renewing { lease: old, .. }, Reply::Ack(lease)) => {
                if lease.address != old.address || lease.prefix != old.prefix {
                    return Err("it acknowledges another address");
                }
                self.bind(lease, now);
                Ok(())
            }
            // Another server than ours has no say; should it be right, the lease just ends.
            (State::Renewing { lease, .. }, Reply::Nak(server)) if server == lease.server => {
                self.state = State::Lost;
                Ok(())
            }
            _ => Err("it does not fit what is being done"),
        }
    }

    fn expire(&mut self, now: Duration) {
        if matches!(&self.state, State::Bound { until, .. } | State::Renewing { until, .. } if now >= *until) {
            self.state = State::Lost;
        }
    }

    fn bind(&mut self, lease: Lease, now: Duration) {
        self.next = now.saturating_add(lease.renew);
        // RFC 2131 section 4.4.1 counts from the moment the request was sent; that is at most one wait earlier.
        let until = now.saturating_add(lease.time).saturating_sub(FIRST_WAIT);
        self.state = State::Bound { lease, reported: false, until };
    }

    fn restart(&mut self, now: Duration) {
        self.state = State::Selecting;
        self.begin_transaction(now);
        self.next = now.saturating_add(self.wait(self.restarts));
        self.restarts = self.restarts.saturating_add(1);
    }

    fn begin_transaction(&mut self, now: Duration) {
        self.xid = self.random.next();
        (self.begun, self.sent) = (now, 0);
    }

    fn send(&mut self, now: Duration) -> Action {
        let request = match &self.state {
            State::Requesting(offer) => Request::Take(offer),
            State::Renewing { lease, .. } => Request::Renew(lease),
            _ => Request::Discover,
        };
        let bytes = packet::encode(request, self.xid, self.mac, now.saturating_sub(self.begun));
        self.next = now.saturating_add(self.wait(self.sent));
        self.sent = self.sent.saturating_add(1);
        Action::Send(bytes)
    }

    /// The wait after so many tries: doubled each time, a quarter more or less.
    fn wait(&mut self, tries: u32) -> Duration {
        let full = FIRST_WAIT * (1 << tries.min(MAX_DOUBLINGS));
        let parts = self.random.next() % 512;
        full * 3 / 4 + full * parts / 1024
    }
}

/// Splitmix64: jitter and transaction numbers need no secrecy.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;

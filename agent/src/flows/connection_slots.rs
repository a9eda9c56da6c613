//! Who is served at once, and who goes when more come.
//!
//! A stranger costs the node a TPM quote and a place, and has shown nothing yet. So places are few, and when all are taken
//! the network that holds the most of them gives up its oldest stranger: whoever opens a thousand connections only pushes
//! itself out. Who has shown that it knows the secret stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use smol::Task;

use super::rate_limit::PeerNetwork;

/// Connections served at once.
pub(super) const PLACES: usize = 8;
/// How long a stranger may stay undisturbed by others that have no better claim: a handshake with a slow TPM.
const GRACE: Duration = Duration::from_secs(5);

/// Whether a peer has shown that it knows the secret.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Arc<AtomicBool>);

impl Known {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The connections that are served, the oldest first.
#[derive(Default)]
pub(super) struct ConnectionSlots(Vec<Connection>);

struct Connection {
    network: PeerNetwork,
    since: Instant,
    known: Known,
    /// Dropped, it ends the connection.
    task: Task<()>,
}

impl ConnectionSlots {
    /// Makes room for one more from `network`, if it has a claim to it.
    pub(super) fn make_room(&mut self, network: PeerNetwork, now: Instant) -> bool {
        self.0.retain(|guest| !guest.task.is_finished());
        if self.0.len() < PLACES {
            return true;
        }
        let Some(at) = self.least_entitled(network, now) else { return false };
        self.0.remove(at);
        true
    }

    pub(super) fn seat(&mut self, network: PeerNetwork, since: Instant, known: Known, task: Task<()>) {
        self.0.push(Connection { network, since, known, task });
    }

    /// Waits for all of them to leave.
    pub(super) async fn leave(self) {
        for guest in self.0 {
            guest.task.await;
        }
    }

    fn least_entitled(&self, newcomer: PeerNetwork, now: Instant) -> Option<usize> {
        let strangers =
            |network| self.0.iter().filter(|guest| guest.network == network && !guest.known.is_set()).count();
        let most = self.0.iter().map(|guest| strangers(guest.network)).max().filter(|most| *most > 0)?;
        let fair = strangers(newcomer) + 1 < most;
        self.0.iter().position(|guest| {
            let rested = now.saturating_duration_since(guest.since) >= GRACE;
            !guest.known.is_set() && strangers(guest.network) == most && (fair || rested)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> PeerNetwork {
        PeerNetwork::of([192, 0, 2, last].into())
    }

    fn full(networks: impl IntoIterator<Item = u8>, since: Instant) -> (ConnectionSlots, Vec<Known>) {
        let mut slots = ConnectionSlots::default();
        let known = networks.into_iter().map(|last| {
            let known = Known::default();
            slots.seat(network(last), since, known.clone(), smol::spawn(std::future::pending()));
            known
        });
        let known = known.collect::<Vec<_>>();
        assert_eq!(known.len(), PLACES);
        (slots, known)
    }

    fn networks(slots: &ConnectionSlots) -> Vec<PeerNetwork> {
        slots.0.iter().map(|guest| guest.network).collect()
    }

    #[test]
    fn whoever_holds_most_places_gives_one_up_at_once() {
        let now = Instant::now();
        let (mut slots, _) = full([1, 66, 66, 66, 66, 66, 66, 2], now);
        assert!(slots.make_room(network(3), now));
        assert_eq!(networks(&slots), [1, 66, 66, 66, 66, 66, 2].map(network));
    }

    #[test]
    fn a_flood_from_one_origin_pushes_out_nobody_else() {
        let now = Instant::now();
        let (mut slots, _) = full([1, 2, 66, 66, 66, 66, 66, 66], now);
        for later in 0..100 {
            let now = now + Duration::from_secs(later);
            if slots.make_room(network(66), now) {
                slots.seat(network(66), now, Known::default(), smol::spawn(std::future::pending()));
            }
        }
        assert_eq!(networks(&slots)[..2], [1, 2].map(network));
    }

    #[test]
    fn among_equals_nobody_goes_who_just_came() {
        let now = Instant::now();
        let (mut slots, _) = full(1..=8, now);
        assert!(!slots.make_room(network(9), now));
        assert!(slots.make_room(network(9), now + GRACE));
        assert_eq!(networks(&slots), [2, 3, 4, 5, 6, 7, 8].map(network));
    }

    #[test]
    fn who_knows_the_secret_stays() {
        let now = Instant::now();
        let (mut slots, known) = full([1; PLACES], now);
        known.iter().for_each(Known::set);
        assert!(!slots.make_room(network(9), now + GRACE));
    }

    #[test]
    fn who_left_leaves_a_place() {
        let now = Instant::now();
        let (mut slots, _) = full([1; PLACES], now);
        let gone = smol::spawn(async {});
        while !gone.is_finished() {
            std::thread::yield_now();
        }
        slots.0[3].task = gone;
        assert!(slots.make_room(network(9), now));
        assert_eq!(slots.0.len(), PLACES - 1);
    }
}

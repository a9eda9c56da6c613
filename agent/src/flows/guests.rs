//! Who is served at once, and who goes when more come.
//!
//! A stranger costs the node a TPM quote and a place, and has shown nothing yet. So places are few, and when all are taken
//! the origin that holds the most of them gives up its oldest stranger: whoever opens a thousand connections only pushes
//! itself out. Who has shown that it knows the secret stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use smol::Task;

use super::budget::Origin;

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
pub(super) struct Guests(Vec<Guest>);

struct Guest {
    origin: Origin,
    since: Instant,
    known: Known,
    /// Dropped, it ends the connection.
    task: Task<()>,
}

impl Guests {
    /// Makes room for one more from `origin`, if it has a claim to it.
    pub(super) fn make_room(&mut self, origin: Origin, now: Instant) -> bool {
        self.0.retain(|guest| !guest.task.is_finished());
        if self.0.len() < PLACES {
            return true;
        }
        let Some(at) = self.least_entitled(origin, now) else { return false };
        self.0.remove(at);
        true
    }

    pub(super) fn seat(&mut self, origin: Origin, since: Instant, known: Known, task: Task<()>) {
        self.0.push(Guest { origin, since, known, task });
    }

    /// Waits for all of them to leave.
    pub(super) async fn leave(self) {
        for guest in self.0 {
            guest.task.await;
        }
    }

    fn least_entitled(&self, newcomer: Origin, now: Instant) -> Option<usize> {
        let strangers = |origin| self.0.iter().filter(|guest| guest.origin == origin && !guest.known.is_set()).count();
        let most = self.0.iter().map(|guest| strangers(guest.origin)).max().filter(|most| *most > 0)?;
        let fair = strangers(newcomer) + 1 < most;
        self.0.iter().position(|guest| {
            let rested = now.saturating_duration_since(guest.since) >= GRACE;
            !guest.known.is_set() && strangers(guest.origin) == most && (fair || rested)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(last: u8) -> Origin {
        Origin::of([192, 0, 2, last].into())
    }

    fn full(origins: impl IntoIterator<Item = u8>, since: Instant) -> (Guests, Vec<Known>) {
        let mut guests = Guests::default();
        let known = origins.into_iter().map(|last| {
            let known = Known::default();
            guests.seat(origin(last), since, known.clone(), smol::spawn(std::future::pending()));
            known
        });
        let known = known.collect::<Vec<_>>();
        assert_eq!(known.len(), PLACES);
        (guests, known)
    }

    fn origins(guests: &Guests) -> Vec<Origin> {
        guests.0.iter().map(|guest| guest.origin).collect()
    }

    #[test]
    fn whoever_holds_most_places_gives_one_up_at_once() {
        let now = Instant::now();
        let (mut guests, _) = full([1, 66, 66, 66, 66, 66, 66, 2], now);
        assert!(guests.make_room(origin(3), now));
        assert_eq!(origins(&guests), [1, 66, 66, 66, 66, 66, 2].map(origin));
    }

    #[test]
    fn a_flood_from_one_origin_pushes_out_nobody_else() {
        let now = Instant::now();
        let (mut guests, _) = full([1, 2, 66, 66, 66, 66, 66, 66], now);
        for later in 0..100 {
            let now = now + Duration::from_secs(later);
            if guests.make_room(origin(66), now) {
                guests.seat(origin(66), now, Known::default(), smol::spawn(std::future::pending()));
            }
        }
        assert_eq!(origins(&guests)[..2], [1, 2].map(origin));
    }

    #[test]
    fn among_equals_nobody_goes_who_just_came() {
        let now = Instant::now();
        let (mut guests, _) = full(1..=8, now);
        assert!(!guests.make_room(origin(9), now));
        assert!(guests.make_room(origin(9), now + GRACE));
        assert_eq!(origins(&guests), [2, 3, 4, 5, 6, 7, 8].map(origin));
    }

    #[test]
    fn who_knows_the_secret_stays() {
        let now = Instant::now();
        let (mut guests, known) = full([1; PLACES], now);
        known.iter().for_each(Known::set);
        assert!(!guests.make_room(origin(9), now + GRACE));
    }

    #[test]
    fn who_left_leaves_a_place() {
        let now = Instant::now();
        let (mut guests, _) = full([1; PLACES], now);
        let gone = smol::spawn(async {});
        while !gone.is_finished() {
            std::thread::yield_now();
        }
        guests.0[3].task = gone;
        assert!(guests.make_room(origin(9), now));
        assert_eq!(guests.0.len(), PLACES - 1);
    }
}

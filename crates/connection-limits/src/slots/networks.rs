//! How many connections each network has.

use crate::PeerNetwork;
use std::collections::HashMap;

/// Sites remembered as admitted; the one that was admitted least recently is forgotten first. About 256 KiB.
const KNOWN_SITES: usize = 4096;

/// Where a network's counters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

/// One network's counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    prefix: PeerNetwork,
    /// Connections.
    pub(super) held: u32,
    /// Of these, who were not admitted.
    pub(super) strangers: u32,
    /// Somebody was admitted from there before.
    pub(super) known: bool,
}

/// The networks that have a connection. Counters stay in their places, so that a walk over all connections looks nothing up.
#[derive(Debug, Default)]
pub(super) struct Networks {
    places: HashMap<PeerNetwork, Place>,
    counters: Vec<Network>,
    free: Vec<Place>,
}

impl Networks {
    /// One more stranger.
    pub(super) fn enter(&mut self, network: PeerNetwork, known: bool) -> Place {
        let Self { places, counters, free } = self;
        let place = *places.entry(network).or_insert_with(|| {
            let fresh = Network { prefix: network, held: 0, strangers: 0, known };
            let place = free.pop().unwrap_or(Place(counters.len()));
            match counters.get_mut(place.0) {
                Some(slot) => *slot = fresh,
                None => counters.push(fresh),
            }
            place
        });
        let counters = self.at_mut(place);
        counters.held += 1;
        counters.strangers += 1;
        place
    }

    /// One connection less.
    pub(super) fn leave(&mut self, place: Place, stranger: bool) {
        let counters = self.at_mut(place);
        counters.held -= 1;
        counters.strangers -= u32::from(stranger);
        if counters.held == 0 {
            let prefix = counters.prefix;
            self.places.remove(&prefix);
            self.free.push(place);
        }
    }

    /// One of its strangers was admitted.
    pub(super) fn prove(&mut self, place: Place) {
        self.at_mut(place).strangers -= 1;
    }

    /// It is known from now on; how many connections it has, if it was not known before.
    pub(super) fn becomes_known(&mut self, place: Place) -> u32 {
        let counters = self.at_mut(place);
        if std::mem::replace(&mut counters.known, true) { 0 } else { counters.held }
    }

    pub(super) fn network(&self, place: Place) -> PeerNetwork {
        self.at(place).prefix
    }

    #[expect(clippy::indexing_slicing, reason = "places are given out by `enter` and stay")]
    pub(super) fn at(&self, place: Place) -> &Network {
        &self.counters[place.0]
    }

    #[expect(clippy::indexing_slicing, reason = "places are given out by `enter` and stay")]
    fn at_mut(&mut self, place: Place) -> &mut Network {
        &mut self.counters[place.0]
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

/// Sites from which somebody was admitted.
#[derive(Debug, Default)]
pub(super) struct Known {
    admitted: HashMap<PeerNetwork, u64>,
    last: u64,
}

impl Known {
    pub(super) fn contains(&self, site: PeerNetwork) -> bool {
        self.admitted.contains_key(&site)
    }

    pub(super) fn insert(&mut self, site: PeerNetwork) {
        self.last += 1;
        self.admitted.insert(site, self.last);
        if self.admitted.len() > KNOWN_SITES {
            let oldest = self.admitted.iter().min_by_key(|(_, last)| **last).map(|(site, _)| *site);
            oldest.and_then(|oldest| self.admitted.remove(&oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_admitted_long_ago_are_forgotten_first() {
        let site = |n: u32| PeerNetwork::of(std::net::IpAddr::from((n << 8).to_be_bytes())).site();
        let mut known = Known::default();
        let count = u32::try_from(KNOWN_SITES).unwrap();
        (0..count).for_each(|n| known.insert(site(n)));
        known.insert(site(0));
        known.insert(site(count));
        assert!(known.contains(site(0)) && !known.contains(site(1)) && known.contains(site(count)));
        assert_eq!(known.admitted.len(), KNOWN_SITES);
    }
}

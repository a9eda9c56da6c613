//! Whom to ask: a state machine without I/O or clock.
//!
//! A target is ready once a probe says so, and down after [`FAILURES`] probes that fail in a row; one that was never asked comes
//! between. New connections go to ready targets in turn, then to unknown ones, then, since a probe may be wrong, to those that are
//! down. Whoever is connected to a target that goes down is cut off, to come again and find another.

use crate::targets::Targets;
use std::net::SocketAddr;

/// Probes that fail in a row until a target is down.
pub const FAILURES: u32 = 2;

/// How a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// It said that it is ready.
    Ready,
    /// Nobody has asked yet.
    Unknown,
    /// It does not answer, or says that it is not.
    Down,
}

impl Health {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ready, Self::Unknown, Self::Down];

    /// The label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Unknown => "unknown",
            Self::Down => "down",
        }
    }
}

#[derive(Clone, Debug)]
struct Target {
    address: SocketAddr,
    health: Health,
    failures: u32,
}

/// All targets and their health.
#[derive(Clone, Debug)]
pub struct Table {
    targets: Vec<Target>,
    turn: usize,
}

impl Table {
    /// Nobody was asked yet.
    pub fn new(targets: &Targets) -> Self {
        let unknown = |address| Target { address, health: Health::Unknown, failures: 0 };
        Self { targets: targets.iter().map(unknown).collect(), turn: 0 }
    }

    /// Takes another list. What is known of those that stay is kept; those that went are cut off, and returned.
    pub fn replace(&mut self, targets: &Targets) -> Vec<SocketAddr> {
        let old = std::mem::replace(&mut self.targets, Self::new(targets).targets);
        for target in &mut self.targets {
            if let Some(known) = old.iter().find(|known| known.address == target.address) {
                target.clone_from(known);
            }
        }
        let gone = |known: &&Target| !self.targets.iter().any(|target| target.address == known.address);
        old.iter().filter(gone).map(|known| known.address).collect()
    }

    /// The targets.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.targets.iter().map(|target| target.address).collect()
    }

    /// What a probe said. Whether the target is down from now on.
    pub fn probed(&mut self, address: SocketAddr, is_ready: bool) -> bool {
        let Some(target) = self.targets.iter_mut().find(|target| target.address == address) else { return false };
        let before = target.health;
        target.failures = if is_ready { 0 } else { target.failures.saturating_add(1) };
        target.health = match target.failures {
            0 => Health::Ready,
            failures if failures >= FAILURES => Health::Down,
            _ => before,
        };
        target.health == Health::Down && before != Health::Down
    }

    /// For one new connection: every target, the best first, ready ones in turn.
    pub fn order(&mut self) -> Vec<SocketAddr> {
        self.turn = self.turn.wrapping_add(1);
        let mut targets = self.targets.clone();
        let count = targets.len().max(1);
        targets.rotate_left(self.turn % count);
        // Stable: the turn stays within each class.
        targets.sort_by_key(|target| target.health);
        targets.into_iter().map(|target| target.address).collect()
    }

    /// How many targets are so.
    pub fn count(&self, health: Health) -> usize {
        self.targets.iter().filter(|target| target.health == health).count()
    }

    /// How a target is.
    pub fn health(&self, address: SocketAddr) -> Option<Health> {
        self.targets.iter().find(|target| target.address == address).map(|target| target.health)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 6443).into()
    }

    fn table(count: u8) -> Table {
        Table::new(&Targets::new((1..=count).map(address)).unwrap())
    }

    #[test]
    fn one_failed_probe_is_no_reason_to_cut_anybody_off_and_two_are_once() {
        let mut table = table(2);
        assert!(!table.probed(address(1), true) && !table.probed(address(1), false));
        assert_eq!(table.health(address(1)), Some(Health::Ready));
        assert!(table.probed(address(1), false) && !table.probed(address(1), false));
        assert_eq!(table.order()[1], address(1), "the one that is down comes last");
        assert!(!table.probed(address(1), true));
        assert_eq!(table.health(address(1)), Some(Health::Ready));
    }

    #[test]
    fn ready_targets_take_turns() {
        let mut table = table(3);
        for last in 1..=3 {
            table.probed(address(last), true);
        }
        let first: std::collections::BTreeSet<_> = (0..3).map(|_| table.order()[0]).collect();
        assert_eq!(first.len(), 3);
    }

    #[test]
    fn another_list_keeps_what_is_known_and_names_those_that_went() {
        let mut table = table(2);
        table.probed(address(2), true);
        assert_eq!(table.replace(&Targets::new([address(2), address(3)]).unwrap()), [address(1)]);
        assert_eq!(table.health(address(2)), Some(Health::Ready));
        assert_eq!(table.health(address(3)), Some(Health::Unknown));
        assert!(!table.probed(address(1), true), "a probe that comes late changes nothing");
        assert_eq!(table.addresses(), [address(2), address(3)]);
    }

    proptest! {
        #[test]
        fn every_target_is_tried_for_every_connection_and_a_ready_one_first(
            probes in prop::collection::vec((1_u8..=5, any::<bool>()), 0..60)
        ) {
            let mut table = table(4);
            for (last, is_ready) in probes {
                table.probed(address(last), is_ready);
                let mut order = table.order();
                let healths: Vec<_> = order.iter().map(|address| table.health(*address).unwrap()).collect();
                prop_assert!(healths.is_sorted(), "{healths:?}");
                order.sort();
                prop_assert_eq!(order, table.addresses());
            }
        }
    }
}

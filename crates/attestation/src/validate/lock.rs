//! What is expected of the node lock, and the check.

use crate::parse::{Component, Digest, PcrValues};
use crate::policy::Policy;
use crate::refusal::{Difference, ReasonCode, Refusal};

/// What is expected of the node lock (PCR 15): of a purpose, of a verifier, of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockExpectation {
    /// Zero: nothing but the agent has run in this boot. For join, rejoin, init and recovery.
    Unlocked,
    /// This value: locked to one cluster. For its members: join services, `verify`, `report`.
    LockedTo([u8; 32]),
    /// Any value but zero: locked to some cluster. The caller must compare the value with what the peer says next.
    Locked,
    /// Any value: the caller only looks.
    Any,
}

impl LockExpectation {
    /// Whether every lock that meets this expectation meets `allowed` too.
    pub const fn is_within(self, allowed: Self) -> bool {
        match (allowed, self) {
            (Self::Any, _) | (Self::Unlocked, Self::Unlocked) | (Self::Locked, Self::Locked | Self::LockedTo(_)) => {
                true
            }
            // Values are not compared here: no purpose knows a cluster.
            (Self::Unlocked | Self::Locked | Self::LockedTo(_), _) => false,
        }
    }

    /// Whether the quoted register is as expected, and whether the node is locked then. No node is locked to zero.
    pub(crate) fn check(self, pcrs: &PcrValues) -> Result<bool, Refusal> {
        let missing = || Refusal::new(ReasonCode::PcrValuesMismatch, "PCR 15 is not quoted");
        let got = pcrs.value(Policy::LOCK_PCR).ok_or_else(missing)?;
        let locked = got != Digest::ZERO;
        let (code, expected) = match self {
            Self::Unlocked if locked => (ReasonCode::AlreadyLocked, Digest::ZERO.to_string()),
            Self::LockedTo(value) if !locked => (ReasonCode::NotLocked, Digest(value).to_string()),
            Self::LockedTo(value) if got != Digest(value) => {
                (ReasonCode::LockedToAnotherCluster, Digest(value).to_string())
            }
            Self::Locked if !locked => (ReasonCode::NotLocked, "a cluster's value".to_owned()),
            Self::Unlocked | Self::LockedTo(_) | Self::Locked | Self::Any => return Ok(locked),
        };
        let detail = format!("PCR 15 (node lock): expected {expected}, got {got}");
        let difference = Difference {
            pcr: Policy::LOCK_PCR,
            component: Component::NodeLock,
            means: None,
            expected,
            got: got.to_string(),
            image: None,
            differing: vec![Policy::LOCK_PCR],
        };
        Err(Refusal::differing(code, detail, difference))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: [u8; 32] = [7; 32];
    const ALL: [LockExpectation; 4] =
        [LockExpectation::Unlocked, LockExpectation::LockedTo(CLUSTER), LockExpectation::Locked, LockExpectation::Any];

    fn quoted(lock: [u8; 32]) -> PcrValues {
        PcrValues::new([(Policy::LOCK_PCR, lock)].into()).unwrap()
    }

    fn code(lock: LockExpectation, value: [u8; 32]) -> Result<bool, ReasonCode> {
        lock.check(&quoted(value)).map_err(|refusal| refusal.code())
    }

    #[test]
    fn each_expectation_lets_in_its_own_locks_and_no_other() {
        use LockExpectation::{Any, Locked, LockedTo, Unlocked};
        use ReasonCode::{AlreadyLocked, LockedToAnotherCluster, NotLocked};
        let (zero, other) = ([0; 32], [8; 32]);
        assert_eq!([zero, CLUSTER].map(|value| code(Unlocked, value)), [Ok(false), Err(AlreadyLocked)]);
        let to = LockedTo(CLUSTER);
        let expected = [Err(NotLocked), Ok(true), Err(LockedToAnotherCluster)];
        assert_eq!([zero, CLUSTER, other].map(|value| code(to, value)), expected);
        assert_eq!([zero, other].map(|value| code(Locked, value)), [Err(NotLocked), Ok(true)]);
        assert_eq!([zero, other].map(|value| code(Any, value)), [Ok(false), Ok(true)]);
    }

    #[test]
    fn nobody_is_locked_to_zero() {
        assert_eq!(code(LockExpectation::LockedTo([0; 32]), [0; 32]), Err(ReasonCode::NotLocked));
    }

    #[test]
    fn a_register_that_is_not_quoted_meets_no_expectation() {
        let other = PcrValues::new([(14, CLUSTER)].into()).unwrap();
        for lock in ALL {
            assert_eq!(lock.check(&other).unwrap_err().code(), ReasonCode::PcrValuesMismatch, "{lock:?}");
        }
    }

    #[test]
    fn an_expectation_is_within_another_exactly_where_every_lock_that_meets_it_meets_that_too() {
        let meet = |expectation| [[0; 32], CLUSTER, [8; 32]].map(|value| code(expectation, value).is_ok());
        for (wide, narrow) in ALL.iter().flat_map(|wide| ALL.map(|narrow| (*wide, narrow))) {
            let every = meet(narrow).iter().zip(meet(wide)).all(|(narrow, wide)| wide || !narrow);
            // No purpose knows a cluster: nothing is within one cluster's lock, not even itself.
            let expected = every && !matches!(wide, LockExpectation::LockedTo(_));
            assert_eq!(narrow.is_within(wide), expected, "{narrow:?} within {wide:?}");
        }
    }
}

//! What state a release is in, and what has to be done before it can be worked on. A pure decision on helm's own history.

use crate::stock::{ReleaseState, Revision};

/// How a release stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Situation {
    /// There is none.
    Absent,
    /// Its last revision is the one that serves.
    Deployed,
    /// It never worked: its installation failed, and its whole history says so.
    NeverWorked,
    /// Its installation was begun, and not ended; nothing worked before.
    InstallBegun,
    /// No revision that worked is known, and revisions are missing: helm forgets old ones.
    HistoryCut,
    /// Its last upgrade failed and was not rolled back; this revision was good.
    UpgradeFailed { good: u64 },
    /// An upgrade or a rollback was begun, and not ended; this revision was good.
    UpgradeBegun { good: u64 },
    /// Its removal was begun, and not ended. Whether it ever worked its history does not say any more.
    RemovalBegun,
    /// Somebody removed it by hand, and kept its history.
    Removed,
}

/// How a release stands, and at which revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) situation: Situation,
    /// The newest revision; 0 if there is none.
    pub(crate) last: u64,
}

impl Standing {
    /// From the revisions of a release, oldest first.
    pub(crate) fn of(history: &[Revision]) -> Self {
        Self { situation: Situation::of(history), last: history.last().map_or(0, |revision| revision.number) }
    }
}

impl Situation {
    /// From the revisions of a release, oldest first.
    pub(crate) fn of(history: &[Revision]) -> Self {
        use ReleaseState::{
            Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Superseded, Uninstalled, Uninstalling,
            Unknown,
        };
        let Some(last) = history.last() else { return Self::Absent };
        let newest = |state| history.iter().rev().find(|revision| revision.status == state).map(|one| one.number);
        // Helm calls the one that serves `deployed` until the next one does; a failed rollback leaves none.
        let good = newest(Deployed).or_else(|| newest(Superseded));
        let whole = history.iter().zip(1..).all(|(revision, number)| revision.number == number);
        let known = whole && newest(Unknown).is_none();
        match (last.status, good) {
            (Deployed, _) => Self::Deployed,
            (Uninstalled, _) => Self::Removed,
            (Uninstalling, _) => Self::RemovalBegun,
            (_, None) if !known => Self::HistoryCut,
            (PendingInstall | PendingUpgrade | PendingRollback, None) => Self::InstallBegun,
            (Failed | Superseded | Unknown, None) => Self::NeverWorked,
            (PendingInstall | PendingUpgrade | PendingRollback, Some(good)) => Self::UpgradeBegun { good },
            (Failed | Superseded | Unknown, Some(good)) => Self::UpgradeFailed { good },
        }
    }

    /// Whether somebody may be working on it at this moment.
    pub(crate) const fn begun(self) -> bool {
        matches!(self, Self::InstallBegun | Self::UpgradeBegun { .. } | Self::RemovalBegun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReleaseState::{
        Deployed, Failed, PendingInstall, PendingRollback, PendingUpgrade, Superseded, Uninstalled, Uninstalling,
        Unknown,
    };

    fn from(first: u64, states: &[ReleaseState]) -> Situation {
        let revision = |(number, status): (u64, &ReleaseState)| Revision {
            number,
            status: *status,
            chart: "sample-1.0.0".into(),
            description: String::new(),
        };
        Situation::of(&(first..).zip(states).map(revision).collect::<Vec<_>>())
    }

    fn of(states: &[ReleaseState]) -> Situation {
        from(1, states)
    }

    #[test]
    fn only_what_never_worked_may_be_deleted() {
        assert_eq!(of(&[]), Situation::Absent);
        assert_eq!(of(&[Failed]), Situation::NeverWorked);
        assert_eq!(of(&[PendingInstall]), Situation::InstallBegun);
        assert_eq!(of(&[Failed, Failed]), Situation::NeverWorked);
        assert_eq!(of(&[Failed, PendingUpgrade]), Situation::InstallBegun);
        for states in [
            &[Deployed][..],
            &[Deployed, Failed],
            &[Superseded, Failed],
            &[Deployed, PendingUpgrade],
            &[Superseded, PendingRollback],
            &[Superseded, Failed, PendingRollback],
            &[Uninstalled],
            &[Unknown],
            &[Unknown, PendingUpgrade],
        ] {
            assert!(!matches!(of(states), Situation::NeverWorked | Situation::InstallBegun), "{states:?}");
        }
    }

    #[test]
    fn of_a_release_whose_first_revisions_are_forgotten_it_is_not_known_that_it_never_worked() {
        for states in [&[Failed][..], &[Failed, Failed], &[PendingInstall], &[Failed, PendingUpgrade]] {
            assert_eq!(from(2, states), Situation::HistoryCut, "{states:?}");
        }
        // What is known to have worked is, whatever is forgotten.
        assert_eq!(from(7, &[Superseded, Failed]), Situation::UpgradeFailed { good: 7 });
        assert_eq!(from(7, &[Failed, Deployed]), Situation::Deployed);
    }

    #[test]
    fn what_was_interrupted_goes_back_to_what_served_last() {
        assert_eq!(of(&[Superseded, Deployed, PendingUpgrade]), Situation::UpgradeBegun { good: 2 });
        assert_eq!(of(&[Superseded, Superseded, Failed, PendingRollback]), Situation::UpgradeBegun { good: 2 });
        assert_eq!(of(&[Superseded, Deployed, Failed]), Situation::UpgradeFailed { good: 2 });
        assert_eq!(of(&[Failed, Deployed]), Situation::Deployed);
        assert_eq!(of(&[Superseded, Uninstalling]), Situation::RemovalBegun);
        assert_eq!(of(&[Superseded, Uninstalled]), Situation::Removed);
    }
}

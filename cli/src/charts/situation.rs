//! What state a release is in, and what has to be done before it can be worked on. A pure decision on helm's own history.

use crate::stock::{ReleaseState, Revision};

/// How a release stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Situation {
    /// There is none.
    Absent,
    /// Its last revision is the one that serves.
    Deployed,
    /// It never worked: its installation failed.
    NeverWorked,
    /// Its installation was begun, and not ended.
    InstallBegun,
    /// Its last upgrade failed and was not rolled back; this revision was good.
    UpgradeFailed { good: u64 },
    /// An upgrade or a rollback was begun, and not ended; this revision was good.
    UpgradeBegun { good: u64 },
    /// Its removal was begun, and not ended.
    RemovalBegun,
    /// Somebody removed it by hand, and kept its history.
    Removed,
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
        match (last.status, good) {
            (Deployed, _) => Self::Deployed,
            (Uninstalled, _) => Self::Removed,
            (Uninstalling, _) => Self::RemovalBegun,
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
    };

    fn of(states: &[ReleaseState]) -> Situation {
        let revision = |(number, status): (u64, &ReleaseState)| Revision {
            number,
            status: *status,
            chart: "sample-1.0.0".into(),
            description: String::new(),
        };
        Situation::of(&(1..).zip(states).map(revision).collect::<Vec<_>>())
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
        ] {
            assert!(!matches!(of(states), Situation::NeverWorked | Situation::InstallBegun), "{states:?}");
        }
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

//! What a status says after each step that is noted in it.

use latchkey_factory_plus::Role;

use super::plan::Note;
use super::{Account, Moment, Phase, SetupStatus, Trouble};
use crate::manifests::Repository;

/// Files that were made, and are written now or stood there already.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) repository: Repository,
    pub(super) hash: String,
    /// Whether they differ from what was there.
    pub(super) changed: bool,
}

/// Notes something. Accounts that have no UUIDs yet get those of the moment.
pub(super) fn take(status: &mut SetupStatus, note: Note, made: Option<Made>, moment: &Moment) {
    let now = moment.now;
    match note {
        Note::Intent(wanted) => {
            if !status.has_accounts() {
                for (place, role) in Role::ALL.into_iter().enumerate() {
                    status.place(role, Account { uuid: moment.uuid(place), done: false });
                }
            }
            status.spec = Some(*wanted);
            status.enter(Phase::Accounts, now);
        }
        Note::Accounts => {
            status.mark_accounts(true);
            status.disabled = false;
            status.enter(Phase::Repository, now);
        }
        Note::Ready(wanted) => {
            if let Some(made) = made {
                status.generation += u64::from(made.changed);
                status.rendered = Some(made.hash);
                status.self_link = Some(made.repository.self_link);
            }
            status.spec = Some(*wanted);
            status.ready = true;
            status.enter(Phase::Ready, now);
        }
        Note::Settled => status.enter(status.phase, now),
        Note::Refused(refusal) => {
            status.attempt = 0;
            status.error = Some(Trouble::refused(&refusal, now));
        }
        Note::Deleting => {
            revoke(status);
            status.enter(Phase::Deleting, now);
        }
        Note::Deleted => status.enter(Phase::Deleted, now),
        Note::Decommissioning => {
            revoke(status);
            status.decommission = true;
            status.enter(Phase::Decommissioning, now);
        }
        Note::Decommissioned => {
            status.drop_accounts();
            (status.self_link, status.rendered) = (None, None);
            status.enter(Phase::Decommissioned, now);
        }
    }
}

/// Nothing that is about to be taken away counts as there.
fn revoke(status: &mut SetupStatus) {
    status.ready = false;
    status.disabled = true;
    status.mark_accounts(false);
}

//! What others wrote: how it gets into the state, and what is said of it.

use super::records::Records;
use crate::decision::{Damage, State};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{Change, DamagedRecord, Listing, News, Recorded, StoreError, Turn};
use std::sync::PoisonError;

impl Records {
    pub(super) fn refresh(&self) {
        self.store.doubt();
        self.follow();
    }

    pub(super) fn follow(&self) {
        let read = self.store.turn().and_then(|mut turn| {
            self.take_over_news(&mut *turn)?;
            // A node that cannot be served goes elsewhere: whether all is well again is found out without it.
            let unwritable = self.condition().unwritable.is_some();
            if unwritable && turn.try_writing().is_ok() {
                self.condition().unwritable = None;
            }
            Ok(())
        });
        self.note_read(read);
    }

    /// Takes over what is new, of this machine above all; `None` if it could not be read, or may not be used yet.
    pub(super) fn catch_up(&self, ek: &EkDigest) -> Option<()> {
        let caught_up = self.store.turn().and_then(|mut turn| {
            let is_known = turn.look_at(ek)?;
            self.take_over_news(&mut *turn).map(|()| is_known)
        });
        self.note_read(caught_up).filter(|is_known| *is_known).map(drop)
    }

    pub(super) fn take_over_news(&self, turn: &mut dyn Turn) -> Result<(), StoreError> {
        let _one_after_the_other = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        match turn.news()? {
            News::None => {}
            News::All(listing) => {
                let known = self.state().damage().clone();
                self.reload(listing, &known);
            }
            News::Changes(changes) => {
                if let Err(Contradicted { known }) = self.take_over(changes) {
                    // What contradicts what is known only by all of it.
                    self.store.doubt();
                    if let News::All(listing) = turn.news()? {
                        self.reload(listing, &known);
                    }
                }
            }
        }
        Ok(())
    }

    /// `known` is what was told already.
    fn reload(&self, listing: Listing, known: &Damage) {
        let (read, damage) = usable(listing);
        let now = self.now();
        let mut state = self.state();
        let before = state.len();
        let accepted: Vec<_> = state.firmware_accepted().map(|(record, at)| (record.ek_sha256, at)).collect();
        state.reload(read, damage, now);
        log_damage(state.damage(), known);
        log_accepted(&state, &accepted);
        if state.len() != before {
            tracing::info!(nodes = state.len(), before, "Records read anew");
        }
    }

    fn take_over(&self, changes: Vec<Change>) -> Result<(), Contradicted> {
        let now = self.now();
        let mut state = self.state();
        let eks = changes.iter().filter_map(|change| match change {
            Change::Recorded(record) => Some(record.ek_sha256),
            Change::Gone(_) => None,
        });
        let accepted_at = |state: &State, ek: &EkDigest| state.record(ek)?.firmware.as_ref()?.accepted_at;
        let accepted: Vec<_> = eks.map(|ek| (ek, accepted_at(&state, &ek))).collect();
        let known = state.damage().clone();
        let followed = state.follow(changes, now);
        for (ek, before) in accepted {
            if accepted_at(&state, &ek) != before
                && let Some(record) = state.record(&ek)
            {
                log_acceptance(record);
            }
        }
        if followed { Ok(()) } else { Err(Contradicted { known }) }
    }

    /// Remembers whether the records could be read, and says so when that is news.
    pub(super) fn note_read<T>(&self, read: Result<T, StoreError>) -> Option<T> {
        let why = read.as_ref().err().map(ToString::to_string);
        let before = std::mem::replace(&mut self.condition().unreadable, why.clone());
        match (why, before) {
            (Some(error), before) if before.as_ref() != Some(&error) => {
                tracing::error!(error, "The nodes' records cannot be used; what was read before stays in use");
            }
            (None, Some(_)) => tracing::info!("The nodes' records can be used again"),
            _ => {}
        }
        read.ok()
    }
}

pub(super) fn usable(listing: Listing) -> (Vec<Recorded>, Damage) {
    let mut damage = Damage::new();
    listing.damaged.into_iter().for_each(|damaged| damage.insert(damaged));
    (listing.records, damage)
}

/// Changes cannot be taken over one by one where records cannot be used or contradict each other.
#[derive(Debug)]
struct Contradicted {
    /// What could not be used before.
    known: Damage,
}

/// One line for each file that is found so for the first time.
pub(super) fn log_damage(damage: &Damage, before: &Damage) {
    let known = |record: &DamagedRecord| before.iter().any(|old| (&old.file, &old.why) == (&record.file, &record.why));
    for record in damage.iter().filter(|record| !known(record)) {
        let DamagedRecord { file, why, eks, names, disks } = record;
        tracing::error!(
            file,
            why,
            machines = eks.len(),
            names = names.len(),
            disks = disks.len(),
            "A file among the nodes' records cannot be used; what it names is nobody's until it is repaired or removed"
        );
    }
}

/// One line for each machine whose firmware the operator accepted since the records were read last.
fn log_accepted(state: &State, before: &[(EkDigest, u64)]) {
    let news = state.firmware_accepted().filter(|(record, at)| !before.contains(&(record.ek_sha256, *at)));
    news.for_each(|(record, _)| log_acceptance(record));
}

fn log_acceptance(record: &Recorded) {
    let Some(known) = &record.firmware else { return };
    let (node, ek, registers) = (record.name.as_str(), record.ek_sha256, known.measured.pcrs().set());
    tracing::warn!(
        target: "audit", %ek, node, accepted_at = known.accepted_at.unwrap_or_default(), %registers,
        firmware = %known.measured.digest(), "The operator accepted a machine's firmware"
    );
}

//! The state and its copy on disk.

use crate::decision::{Admitted, Ask, Damage, Grant, Now, Refusal, ReportAsk, State};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{
    ClusterStore, DiskRelease, Enrolment, NodeRecord, Recorded, ReleaseRefusal, StoreError, Writer,
};
use latchkey_keys::Uuid;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Records in memory, written through to the directory.
#[derive(Debug)]
pub(crate) struct Store {
    directory: ClusterStore,
    /// Held for moments, never while something is written.
    state: Mutex<State>,
    /// Held while something is written: what the directory's counter was after our last look.
    seen: Mutex<u64>,
    started: Instant,
}

/// An admitted request whose lease, if any, is given back unless it is concluded.
#[derive(Debug)]
pub(crate) struct Reservation {
    store: Arc<Store>,
    admitted: Option<Admitted>,
}

impl Store {
    /// Reads all records.
    pub(crate) fn open(directory: ClusterStore) -> Result<Self, StoreError> {
        let started = Instant::now();
        let writer = directory.writer()?;
        writer.tidy()?;
        let (records, damage) = read(&directory)?;
        let seen = writer.writes();
        drop(writer);
        let now = Now { unix: unix(), uptime: started.elapsed() };
        let state = State::new(records, damage, now);
        Ok(Self { directory, state: Mutex::new(state), seen: Mutex::new(seen), started })
    }

    pub(crate) fn now(&self) -> Now {
        Now { unix: unix(), uptime: self.started.elapsed() }
    }

    /// Looks at the state for a moment.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        at(&self.state())
    }

    /// See [`State::admit`].
    pub(crate) fn admit(self: &Arc<Self>, rules: &Enrolment, ek: EkDigest, ask: Ask) -> Result<Reservation, Refusal> {
        let now = self.now();
        let admitted = self.state().admit(rules, ek, ask, now)?;
        Ok(Reservation { store: Arc::clone(self), admitted: Some(admitted) })
    }

    /// Decides on a report and writes the record. Blocks on the disk.
    pub(crate) fn report(&self, ek: EkDigest, report: &ReportAsk) -> Result<(), Refusal> {
        let mut seen = self.writing();
        let mut writer = self.writer(&mut seen)?;
        let record = self.state().report(ek, report, self.now())?;
        let recorded = put(&mut writer, &mut seen, &record)?;
        self.state().commit_report(recorded);
        Ok(())
    }

    /// Reads all records anew if another program has written some; whether it did. Blocks on the disk.
    pub(crate) fn catch_up(&self) -> bool {
        let mut seen = self.writing();
        let before = *seen;
        // An error is logged, and what is in memory stays in use.
        self.writer(&mut seen).is_ok() && *seen != before
    }

    /// Reads all records anew: somebody else may have changed them by hand. Blocks on the disk.
    pub(crate) fn refresh(&self) -> Result<(), StoreError> {
        let mut seen = self.writing();
        let writer = self.directory.writer()?;
        self.reread()?;
        *seen = writer.writes();
        Ok(())
    }

    /// The right to write, with a state that knows what others wrote.
    fn writer(&self, seen: &mut u64) -> Result<Writer<'_>, Refusal> {
        let opened = self.directory.writer().and_then(|writer| {
            if writer.writes() != *seen {
                self.reread()?;
                *seen = writer.writes();
            }
            Ok(writer)
        });
        opened.map_err(|error| not_written(&error))
    }

    fn reread(&self) -> Result<(), StoreError> {
        let (records, damage) = read(&self.directory)?;
        let now = self.now();
        let mut state = self.state();
        let before = state.len();
        state.reload(records, damage, now);
        if state.len() != before {
            tracing::info!(nodes = state.len(), before, "Records read anew");
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Transitions change the state only after everything that can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writing(&self) -> MutexGuard<'_, u64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// The witness for the keys.
    pub(crate) fn admitted(&self) -> Option<&Admitted> {
        self.admitted.as_ref()
    }

    /// Decides on what is on disk, and writes the record if it changes. Blocks on the disk.
    pub(crate) fn conclude(mut self, rules: &Enrolment, key_version: u32) -> Result<(Grant, DiskRelease), Refusal> {
        let store = Arc::clone(&self.store);
        let admitted = self.admitted.as_ref().ok_or(Refusal::RecordNotWritten)?;
        let mut seen = store.writing();
        let mut writer = store.writer(&mut seen)?;
        let plan = store.state().conclude(rules, admitted, key_version, store.now())?;
        let recorded = plan.record.as_ref().map(|record| put(&mut writer, &mut seen, record)).transpose()?;
        let now = store.now();
        let mut state = store.state();
        state.commit(admitted, recorded, now);
        let release = on_record(state.record(&admitted.ek()), admitted.disk())?;
        drop(state);
        self.admitted = None;
        Ok((plan.grant, release))
    }

    /// The grant of a request that writes nothing, decided on the state in memory.
    pub(crate) fn conclude_unwritten(mut self, rules: &Enrolment) -> Result<(Grant, DiskRelease), Refusal> {
        let store = Arc::clone(&self.store);
        let admitted = self.admitted.as_ref().ok_or(Refusal::RecordNotWritten)?;
        let now = store.now();
        let state = store.state();
        let plan = state.conclude(rules, admitted, admitted.key_version(), now)?;
        if plan.record.is_some() {
            return Err(Refusal::RecordNotWritten);
        }
        let release = on_record(state.record(&admitted.ek()), admitted.disk())?;
        drop(state);
        self.admitted = None;
        Ok((plan.grant, release))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(admitted) = self.admitted.take() {
            self.store.state().abandon(admitted);
        }
    }
}

/// The witness for the key, by the record that is on disk.
fn on_record(record: Option<&Recorded>, disk: Uuid) -> Result<DiskRelease, Refusal> {
    record.ok_or(Refusal::NodeUnknown)?.release(disk).map_err(|refusal| match refusal {
        ReleaseRefusal::DiskReplaced { .. } => Refusal::DiskRetired,
        _ => Refusal::DiskUnknown,
    })
}

fn put(writer: &mut Writer<'_>, seen: &mut u64, record: &NodeRecord) -> Result<Recorded, Refusal> {
    let written = writer.put(record);
    *seen = writer.writes();
    written.map_err(|error| {
        // What is on disk is not known now: the next writer looks.
        *seen = seen.wrapping_sub(1);
        not_written(&error)
    })
}

fn not_written(error: &StoreError) -> Refusal {
    tracing::error!(%error, "A record could not be written");
    Refusal::RecordNotWritten
}

fn read(directory: &ClusterStore) -> Result<(Vec<Recorded>, Damage), StoreError> {
    let (mut records, mut damage) = (Vec::new(), Damage::new());
    for record in directory.records()? {
        match record {
            Ok(record) => records.push(record),
            // Removed between listing and reading.
            Err(error) if error.is_absent() => {}
            Err(error) => {
                tracing::error!(%error, "A node's record cannot be used; no node can join until it is mended");
                damage.insert(error.to_string());
            }
        }
    }
    Ok((records, damage))
}

fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

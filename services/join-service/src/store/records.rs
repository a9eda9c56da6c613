//! The threads of the records: what is decided on what stands, and written.

use super::news::{log_damage, usable};
use crate::decision::{Damage, Now, Refusal, ReportAsk, State};
use latchkey_attestation::EkDigest;
use latchkey_attesting_service::clock::unix;
use latchkey_cluster_store::{
    BootSeen, News, NodeRecord, PutError, PutRefusal, RecordStore, Recorded, StoreError, TicketRecord, TpmBoot, Turn,
};
use latchkey_kubelet_certificates::Reserved;
use smol::channel::Receiver;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a decision is made anew because others came first: as often as services share the records, and then some.
const MOST_OVERTAKEN: usize = 16;

/// What a thread of the records is given to do.
pub(super) type Job = Box<dyn FnOnce(&Records) + Send>;

/// What the threads share.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) store: Arc<dyn RecordStore>,
    /// Held for moments, never while something is read or written.
    state: Mutex<State>,
    /// Held while news is asked for and taken over, so that none overtakes an earlier one.
    pub(super) news: Mutex<()>,
    /// Held for moments, too.
    condition: Mutex<Condition>,
    started: Instant,
    /// The machines that wait for the operator, as they were looked up last, where that is known.
    held: Mutex<Option<Vec<EkDigest>>>,
    /// Whether they are going to be looked up.
    looks_for_held: AtomicBool,
}

/// How the place of the records is.
#[derive(Debug, Default)]
pub(super) struct Condition {
    /// Since when each thread has been at what it does.
    busy_since: BTreeMap<usize, Instant>,
    /// Why the records could not be read the last time.
    pub(super) unreadable: Option<String>,
    /// Why a record could not be written the last time.
    pub(super) unwritable: Option<String>,
}

impl Condition {
    pub(super) fn longest_busy(&self) -> Option<Duration> {
        self.busy_since.values().min().map(Instant::elapsed)
    }
}

impl Records {
    /// Reads all records.
    pub(super) fn read(store: Arc<dyn RecordStore>) -> Result<Self, StoreError> {
        let started = Instant::now();
        store.doubt();
        let news = store.turn()?.news()?;
        let (read, damage) = if let News::All(listing) = news { usable(listing) } else { Default::default() };
        let state = State::new(read, damage, Now { unix: unix(), uptime: started.elapsed() });
        log_damage(state.damage(), &Damage::new());
        let (state, news, condition) = (Mutex::new(state), Mutex::default(), Mutex::default());
        let held = Mutex::new(store.held());
        Ok(Self { store, state, news, condition, started, held, looks_for_held: AtomicBool::new(false) })
    }

    /// Until nobody can ask any more.
    pub(super) fn work(&self, number: usize, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv_blocking() {
            self.condition().busy_since.insert(number, Instant::now());
            // One request must not end the service for all: what it changed in memory it changed after everything that can fail.
            if catch_unwind(AssertUnwindSafe(|| job(self))).is_err() {
                self.store.doubt();
            }
            self.condition().busy_since.remove(&number);
        }
    }

    /// Looks which machines wait: on a thread of the records, since it may take as long as a disk does. What cannot be read stays as
    /// it was.
    pub(super) fn look_for_held(&self) {
        self.look_for_held_later();
        if let Some(held) = self.store.held() {
            *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
        }
    }

    /// Nobody is going to.
    pub(super) fn look_for_held_later(&self) {
        self.looks_for_held.store(false, Relaxed);
    }

    /// As they were looked up last; and whether to look now, which is not going to be done yet.
    pub(super) fn held(&self) -> (Option<Vec<EkDigest>>, bool) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (held, !self.looks_for_held.swap(true, Relaxed))
    }

    pub(super) fn now(&self) -> Now {
        Now { unix: unix(), uptime: self.started.elapsed() }
    }

    pub(super) fn confirm(&self, ek: &EkDigest) -> Result<(), Refusal> {
        self.write(
            ek,
            |state, _| Ok((state.record(ek).filter(|it| !it.is_confirmed()).map(|it| (**it).clone()), ())),
            |state, written, (), _| {
                if let Some(recorded) = written {
                    state.commit_kept(recorded);
                }
                Ok(())
            },
        )
    }

    pub(super) fn keep(&self, ek: &EkDigest, boot: &BootSeen) -> Result<(), Refusal> {
        self.write(
            ek,
            |state, now| Ok((state.kept(ek, boot, now), ())),
            |state, written, (), _| {
                if let Some(recorded) = written {
                    state.commit_kept(recorded);
                }
                Ok(())
            },
        )
    }

    pub(super) fn report(
        &self,
        reserved: &Reserved,
        ek: EkDigest,
        report: &ReportAsk,
        boot: TpmBoot,
    ) -> Result<Option<TicketRecord>, Refusal> {
        self.write(
            &ek,
            |state, now| {
                let record = state.report(reserved, ek, report, boot, now)?;
                if let Some(known) = record.tpm.as_ref().filter(|known| known.boot != boot) {
                    let (TpmBoot { reset_count, restart_count }, node) = (boot, record.name.as_str());
                    tracing::warn!(
                        %ek, node, reset_count, restart_count, on_record = ?known.boot,
                        "A report is of an earlier boot than the one on record, and says nothing of its lock"
                    );
                }
                let before = state.record(&ek);
                let over = before.and_then(|before| before.ticket.clone());
                let record = Some(record).filter(|record| before.is_none_or(|before| **before != *record));
                // Also if it was reported before: who wrote that may have ended before the token did.
                Ok((record, over.filter(|ticket| ticket.ends_at > now.unix)))
            },
            |state, written, over, _| {
                if let Some(recorded) = written {
                    state.commit_report(recorded);
                }
                Ok(over)
            },
        )
    }

    /// Decides on what stands, writes the record that is decided, if there is one, and takes it over; anew where others came first.
    pub(super) fn write<D, T>(
        &self,
        ek: &EkDigest,
        decide: impl Fn(&State, Now) -> Result<(Option<NodeRecord>, D), Refusal>,
        commit: impl FnOnce(&mut State, Option<Recorded>, D, Now) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        for _ in 0..MOST_OVERTAKEN {
            let mut turn = self.turn()?;
            let (draft, decided, before) = {
                let state = self.state();
                let (draft, decided) = decide(&state, self.now())?;
                (draft, decided, state.record(ek).cloned())
            };
            let written = match draft {
                None => None,
                Some(record) => match self.put(&mut *turn, &record, before.as_ref()) {
                    Err(PutError::Refused(PutRefusal::Overtaken)) => continue,
                    Err(PutError::Refused(refusal)) => {
                        if matches!(refusal, PutRefusal::Unclear | PutRefusal::Unheard) {
                            tracing::warn!(%ek, %refusal, "The record of a machine cannot be used");
                        }
                        return Err(came_second(refusal));
                    }
                    Err(PutError::Store(_)) => return Err(Refusal::RecordNotWritten),
                    Ok(recorded) => Some(recorded),
                },
            };
            let now = self.now();
            return commit(&mut self.state(), written, decided, now);
        }
        tracing::error!(%ek, times = MOST_OVERTAKEN, "Others wrote the record of a machine first, each time");
        Err(Refusal::RecordNotWritten)
    }

    /// The right to write, with a state that knows what others wrote.
    pub(super) fn turn(&self) -> Result<Box<dyn Turn + '_>, Refusal> {
        let opened = self.store.turn().and_then(|mut turn| {
            self.take_over_news(&mut *turn)?;
            Ok(turn)
        });
        self.note_read(opened).ok_or(Refusal::RecordNotWritten)
    }

    fn put(&self, turn: &mut dyn Turn, record: &NodeRecord, before: Option<&Recorded>) -> Result<Recorded, PutError> {
        let written = turn.put(record, before);
        let failure = written.as_ref().err().and_then(|error| match error {
            PutError::Store(error) => Some(error.to_string()),
            PutError::Refused(_) => None,
        });
        if let Some(error) = &failure {
            tracing::error!(error, "A record could not be written");
        }
        self.condition().unwritable = failure;
        written
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Transitions change the state only after everything that can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is left of a request that lost a race.
fn came_second(refusal: PutRefusal) -> Refusal {
    match refusal {
        PutRefusal::Overtaken | PutRefusal::Unheard => Refusal::RecordNotWritten,
        PutRefusal::Unclear => Refusal::RecordsDamaged,
        PutRefusal::NameTaken => Refusal::NameTaken,
        PutRefusal::DiskTaken => Refusal::DiskTaken,
        PutRefusal::LeaseHeld => Refusal::LeaseHeld,
        PutRefusal::NotUpgraded => Refusal::NotUpgraded,
    }
}

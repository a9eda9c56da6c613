//! The state and its copy on disk.
//!
//! One thread reads and writes the records, one thing after the other, and nothing else waits for the disk: calls wait for that
//! thread, within a deadline; decisions in memory and the admin pages wait for neither. A file system that hangs stops what has
//! to be written, and only that.

use crate::decision::{Admitted, Ask, Damage, Grant, JoinAsk, Now, Refusal, ReportAsk, State};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{
    BootSeen, ClusterStore, DamagedRecord, DiskRelease, Enrolment, NodeRecord, PendingRecord, Recorded, ReleaseRefusal,
    StoreError, TpmBoot, Writer,
};
use latchkey_keys::Uuid;
use smol::channel::{Receiver, Sender};
use smol::future::FutureExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a call waits for the records. A write takes milliseconds; less than a node waits for its ticket.
pub(crate) const WITHIN: Duration = Duration::from_secs(4);

/// Calls that may wait for the records at a time: as many as there can be connections by default.
const MOST_WAITING: usize = 1024;

/// Records in memory, written through to the directory.
#[derive(Debug)]
pub(crate) struct Store {
    records: Arc<Records>,
    work: Sender<Job>,
}

/// What the thread of the records is given to do. `seen` is what the directory's counter was after its last look.
type Job = Box<dyn FnOnce(&Records, &mut u64) + Send>;

#[derive(Debug)]
struct Records {
    directory: ClusterStore,
    /// Held for moments, never while something is read or written.
    state: Mutex<State>,
    /// Held for moments, too.
    condition: Mutex<Condition>,
    started: Instant,
}

/// How the disk is.
#[derive(Debug, Default)]
struct Condition {
    /// Since when the thread has been at what it does.
    busy_since: Option<Instant>,
    /// Why the records could not be read the last time.
    unreadable: Option<String>,
    /// Why a record could not be written the last time.
    unwritable: Option<String>,
}

/// An admitted request whose lease, if any, is given back unless it is concluded.
#[derive(Debug)]
pub(crate) struct Reservation {
    records: Arc<Records>,
    admitted: Option<Admitted>,
}

impl Store {
    /// Reads all records, and starts the thread that keeps them.
    pub(crate) fn open(directory: ClusterStore) -> Result<Arc<Self>, StoreError> {
        let started = Instant::now();
        let writer = directory.writer()?;
        writer.tidy()?;
        let (read, damage) = read(&directory)?;
        let seen = writer.writes();
        drop(writer);
        let state = State::new(read, damage, Now { unix: unix(), uptime: started.elapsed() });
        log_damage(state.damage(), &Damage::new());
        let state = Mutex::new(state);
        let records = Arc::new(Records { directory, state, condition: Mutex::default(), started });
        let (work, jobs) = smol::channel::bounded(MOST_WAITING);
        let of_thread = Arc::clone(&records);
        thread::Builder::new().name("records".to_owned()).spawn(move || of_thread.work(&jobs, seen)).map_err(
            |source| StoreError::Io { action: "start a thread for", path: records.directory.nodes_path(), source },
        )?;
        Ok(Arc::new(Self { records, work }))
    }

    pub(crate) fn now(&self) -> Now {
        self.records.now()
    }

    /// Looks at the state for a moment.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        at(&self.records.state())
    }

    /// Why nothing can be written, or read anew; `None` if all is well. Waits for nothing.
    pub(crate) fn problem(&self) -> Option<String> {
        let condition = self.records.condition();
        let busy = condition.busy_since.map(|since| since.elapsed()).filter(|busy| *busy >= WITHIN);
        let hangs = busy.map(|busy| format!("the directory has not answered for {} s", busy.as_secs()));
        hangs.or_else(|| condition.unwritable.clone()).or_else(|| condition.unreadable.clone())
    }

    /// How long what the thread is at has taken so far.
    pub(crate) fn busy(&self) -> Duration {
        self.records.condition().busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// See [`State::admit`].
    pub(crate) fn admit(
        &self,
        rules: &Enrolment,
        ek: EkDigest,
        ask: Ask,
        seen: BootSeen,
    ) -> Result<Reservation, Refusal> {
        let now = self.now();
        let admitted = self.records.state().admit(rules, ek, ask, seen, now)?;
        Ok(Reservation { records: Arc::clone(&self.records), admitted: Some(admitted) })
    }

    /// Decides on a report and writes the record.
    pub(crate) async fn report(&self, ek: EkDigest, report: ReportAsk, boot: TpmBoot) -> Result<(), Refusal> {
        self.in_time(move |records, seen| records.report(ek, &report, boot, seen)).await
    }

    /// Writes down what is new about a machine on record. What is decided about it does not depend on that.
    pub(crate) async fn keep(&self, ek: EkDigest, boot: BootSeen) {
        // What fails is logged, or was by who did not get to it in time.
        let _ = self.in_time(move |records, seen| records.keep(&ek, &boot, seen)).await;
    }

    /// Writes down that a machine waits for the operator. That it is told to wait does not depend on it.
    pub(crate) async fn hold(&self, ek: EkDigest, ask: &JoinAsk) {
        let pending = PendingRecord::new(ek, &ask.name, ask.role, ask.disk, self.now().unix);
        let written = self.in_time(move |records, seen| {
            let mut writer = records.writer(seen)?;
            writer.hold(&pending).map_err(|error| {
                tracing::error!(%error, "A machine that waits for the operator could not be written down");
                Refusal::RecordNotWritten
            })
        });
        // What fails is told above, or by who did not get to it in time.
        let _ = written.await;
    }

    /// Reads all records anew if another program has written some; whether it did.
    pub(crate) async fn catch_up(&self) -> bool {
        // What fails is logged, and what is in memory stays in use.
        let caught_up = self.in_time(|records, seen| {
            let before = *seen;
            records.writer(seen).map(|_| *seen != before)
        });
        caught_up.await.unwrap_or(false)
    }

    /// Decides on what is on disk, and writes the record if it changes.
    pub(crate) async fn conclude(
        &self,
        reservation: Reservation,
        rules: Arc<Enrolment>,
        key_version: u32,
    ) -> Result<(Grant, DiskRelease), Refusal> {
        self.in_time(move |_, seen| reservation.conclude(&rules, key_version, seen)).await
    }

    /// Reads all records anew: somebody else may have changed them by hand. Waits as long as that takes.
    pub(crate) async fn refresh(&self) {
        let (done, ended) = smol::channel::bounded(1);
        let job = move |records: &Records, seen: &mut u64| {
            records.refresh(seen);
            // Whoever asked may be gone.
            let _ = done.try_send(());
        };
        if self.work.send(Box::new(job)).await.is_ok() {
            // An error is a panic in there, and was told.
            let _ended = ended.recv().await;
        }
    }

    /// What the thread of the records makes of `job`, unless it does not get to it in time. A job that nobody waits for any
    /// more is not begun; one that was begun is finished, and counts, as if the answer had been lost on the way to the node.
    async fn in_time<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Records, &mut u64) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (answer, answered) = smol::channel::bounded(1);
        let job = move |records: &Records, seen: &mut u64| {
            if !answer.is_closed() {
                drop(answer.try_send(job(records, seen)));
            }
        };
        if self.work.try_send(Box::new(job)).is_err() {
            tracing::error!(waiting = MOST_WAITING, "Too many calls wait for the records");
            return Err(Refusal::RecordNotWritten);
        }
        let late = async {
            smol::Timer::after(WITHIN).await;
            tracing::error!(within = ?WITHIN, "The directory of the records does not answer");
            Err(Refusal::RecordNotWritten)
        };
        let answer = async { answered.recv().await.unwrap_or(Err(Refusal::RecordNotWritten)) };
        answer.or(late).await
    }
}

impl Records {
    /// Until nobody can ask any more.
    fn work(&self, jobs: &Receiver<Job>, mut seen: u64) {
        while let Ok(job) = jobs.recv_blocking() {
            self.condition().busy_since = Some(Instant::now());
            // One request must not end the service for all: what it changed in memory it changed after everything that can fail.
            if catch_unwind(AssertUnwindSafe(|| job(self, &mut seen))).is_err() {
                seen = seen.wrapping_sub(1);
            }
            self.condition().busy_since = None;
        }
    }

    fn now(&self) -> Now {
        Now { unix: unix(), uptime: self.started.elapsed() }
    }

    fn keep(&self, ek: &EkDigest, boot: &BootSeen, seen: &mut u64) -> Result<(), Refusal> {
        let mut writer = self.writer(seen)?;
        let Some(record) = self.state().kept(ek, boot, self.now()) else { return Ok(()) };
        let recorded = self.put(&mut writer, seen, &record)?;
        self.state().commit_kept(recorded);
        Ok(())
    }

    fn report(&self, ek: EkDigest, report: &ReportAsk, boot: TpmBoot, seen: &mut u64) -> Result<(), Refusal> {
        let mut writer = self.writer(seen)?;
        let record = self.state().report(ek, report, boot, self.now())?;
        if let Some(known) = record.tpm.as_ref().filter(|known| known.boot != boot) {
            let (TpmBoot { reset_count, restart_count }, node) = (boot, record.name.as_str());
            tracing::warn!(
                %ek, node, reset_count, restart_count, on_record = ?known.boot,
                "A report is of an earlier boot than the one on record, and says nothing of its lock"
            );
        }
        let recorded = self.put(&mut writer, seen, &record)?;
        self.state().commit_report(recorded);
        Ok(())
    }

    fn refresh(&self, seen: &mut u64) {
        let read = self.directory.writer().and_then(|writer| {
            self.reread()?;
            *seen = writer.writes();
            // A node that cannot be served goes elsewhere: whether the disk is well again is found out without it.
            let unwritable = self.condition().unwritable.is_some();
            if unwritable && writer.try_writing().is_ok() {
                self.condition().unwritable = None;
            }
            Ok(())
        });
        self.note_read(read);
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
        self.note_read(opened).ok_or(Refusal::RecordNotWritten)
    }

    fn reread(&self) -> Result<(), StoreError> {
        let (records, damage) = read(&self.directory)?;
        let now = self.now();
        let mut state = self.state();
        let (before, known) = (state.len(), state.damage().clone());
        let accepted: Vec<_> = state.firmware_accepted().map(|(record, at)| (record.ek_sha256, at)).collect();
        state.reload(records, damage, now);
        log_damage(state.damage(), &known);
        log_accepted(&state, &accepted);
        if state.len() != before {
            tracing::info!(nodes = state.len(), before, "Records read anew");
        }
        Ok(())
    }

    fn put(&self, writer: &mut Writer<'_>, seen: &mut u64, record: &NodeRecord) -> Result<Recorded, Refusal> {
        let written = writer.put(record);
        *seen = writer.writes();
        self.condition().unwritable = written.as_ref().err().map(ToString::to_string);
        written.map_err(|error| {
            // What is on disk is not known now: the next writer looks.
            *seen = seen.wrapping_sub(1);
            tracing::error!(%error, "A record could not be written");
            Refusal::RecordNotWritten
        })
    }

    /// Remembers whether the directory could be read, and says so when that is news.
    fn note_read<T>(&self, read: Result<T, StoreError>) -> Option<T> {
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

    fn state(&self) -> MutexGuard<'_, State> {
        // Transitions change the state only after everything that can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// The witness for the keys.
    pub(crate) fn admitted(&self) -> Option<&Admitted> {
        self.admitted.as_ref()
    }

    fn conclude(
        mut self,
        rules: &Enrolment,
        key_version: u32,
        seen: &mut u64,
    ) -> Result<(Grant, DiskRelease), Refusal> {
        let records = Arc::clone(&self.records);
        let admitted = self.admitted.as_ref().ok_or(Refusal::RecordNotWritten)?;
        let mut writer = records.writer(seen)?;
        let plan = records.state().conclude(rules, admitted, key_version, records.now())?;
        let recorded = plan.record.as_ref().map(|record| records.put(&mut writer, seen, record)).transpose()?;
        let now = records.now();
        let mut state = records.state();
        state.commit(admitted, recorded, now);
        let release = on_record(state.record(&admitted.ek()), admitted.disk())?;
        drop(state);
        self.admitted = None;
        Ok((plan.grant, release))
    }

    /// The grant of a request that writes nothing, decided on the state in memory.
    pub(crate) fn conclude_unwritten(mut self, rules: &Enrolment) -> Result<(Grant, DiskRelease), Refusal> {
        let records = Arc::clone(&self.records);
        let admitted = self.admitted.as_ref().ok_or(Refusal::RecordNotWritten)?;
        let now = records.now();
        let state = records.state();
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
            self.records.state().abandon(admitted);
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

fn read(directory: &ClusterStore) -> Result<(Vec<Recorded>, Damage), StoreError> {
    let (mut records, mut damage) = (Vec::new(), Damage::new());
    for record in directory.records()? {
        match record {
            Ok(record) => records.push(record),
            // Removed between listing and reading.
            Err(error) if error.is_absent() => {}
            Err(error) => damage.insert(DamagedRecord::look(&error)),
        }
    }
    Ok((records, damage))
}

/// One line for each file that is found so for the first time.
fn log_damage(damage: &Damage, before: &Damage) {
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
    for (record, at) in news {
        let Some(known) = &record.firmware else { continue };
        let (node, ek, registers) = (record.name.as_str(), record.ek_sha256, known.measured.pcrs().set());
        tracing::warn!(
            target: "audit", %ek, node, accepted_at = at, %registers, firmware = %known.measured.digest(),
            "The operator accepted a machine's firmware"
        );
    }
}

fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

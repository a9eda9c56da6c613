//! The state and its copy where the records are.
//!
//! Threads of their own read and write the records, and nothing else waits for a disk or a network: calls wait for those threads,
//! within a deadline; decisions in memory and the admin pages wait for neither. A file system or a server that hangs stops what has
//! to be written, and only that. There are as many threads as the store of the records gives turns at once: one, one thing after
//! the other, for a directory.

use crate::decision::{Admitted, Ask, Damage, Grant, JoinAsk, Now, Refusal, ReportAsk, State};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{
    BootSeen, Change, DamagedRecord, DiskRelease, Enrolment, Listing, News, NodeRecord, NodeStatus, PendingRecord,
    PutError, PutRefusal, RecordStore, Recorded, RefusedMachine, ReleaseRefusal, StoreError, TpmBoot, Turn,
};
use latchkey_keys::Uuid;
use smol::channel::{Receiver, Sender};
use smol::future::FutureExt;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a call waits for the records. A write takes milliseconds; less than a node waits for its ticket.
pub(crate) const WITHIN: Duration = Duration::from_secs(4);

/// Calls that may wait for the records at a time: as many as there can be connections by default.
const MOST_WAITING: usize = 1024;

/// How often a decision is made anew because others came first: as often as services share the records, and then some.
const MOST_OVERTAKEN: usize = 16;

/// Records in memory, written through to where they are kept.
#[derive(Debug)]
pub(crate) struct Store {
    records: Arc<Records>,
    work: Sender<Job>,
}

/// What a thread of the records is given to do.
type Job = Box<dyn FnOnce(&Records) + Send>;

#[derive(Debug)]
struct Records {
    store: Arc<dyn RecordStore>,
    /// Held for moments, never while something is read or written.
    state: Mutex<State>,
    /// Held while news is asked for and taken over, so that none overtakes an earlier one.
    news: Mutex<()>,
    /// Held for moments, too.
    condition: Mutex<Condition>,
    started: Instant,
}

/// How the place of the records is.
#[derive(Debug, Default)]
struct Condition {
    /// Since when each thread has been at what it does.
    busy_since: BTreeMap<usize, Instant>,
    /// Why the records could not be read the last time.
    unreadable: Option<String>,
    /// Why a record could not be written the last time.
    unwritable: Option<String>,
}

impl Condition {
    fn longest_busy(&self) -> Option<Duration> {
        self.busy_since.values().min().map(Instant::elapsed)
    }
}

/// An admitted request whose lease, if any, is given back unless it is concluded.
#[derive(Debug)]
pub(crate) struct Reservation {
    records: Arc<Records>,
    admitted: Option<Admitted>,
}

impl Store {
    /// Reads all records, and starts the threads that keep them.
    pub(crate) fn open(store: Arc<dyn RecordStore>) -> Result<Arc<Self>, StoreError> {
        let threads = store.turns_at_once().max(1);
        let started = Instant::now();
        store.doubt();
        let news = store.turn()?.news()?;
        let (read, damage) = if let News::All(listing) = news { usable(listing) } else { Default::default() };
        let state = State::new(read, damage, Now { unix: unix(), uptime: started.elapsed() });
        log_damage(state.damage(), &Damage::new());
        let (state, news, condition) = (Mutex::new(state), Mutex::default(), Mutex::default());
        let records = Arc::new(Records { store, state, news, condition, started });
        let (work, jobs) = smol::channel::bounded(MOST_WAITING);
        for number in 0..threads {
            let (of_thread, jobs) = (Arc::clone(&records), jobs.clone());
            let thread = thread::Builder::new().name("records".to_owned());
            thread.spawn(move || of_thread.work(number, &jobs)).map_err(|source| StoreError::Io {
                action: "start a thread for",
                path: PathBuf::from("the nodes' records"),
                source,
            })?;
        }
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
        let busy = condition.longest_busy().filter(|busy| *busy >= WITHIN);
        let hangs = busy.map(|busy| format!("their store has not answered for {} s", busy.as_secs()));
        let known = hangs.or_else(|| condition.unwritable.clone()).or_else(|| condition.unreadable.clone());
        known.or_else(|| self.records.store.problem())
    }

    /// How long what a thread is at has taken so far, at most.
    pub(crate) fn busy(&self) -> Duration {
        self.records.condition().longest_busy().unwrap_or_default()
    }

    /// Has shown what a machine proved that was let in. Waits for nothing.
    pub(crate) fn show_status(&self, ek: EkDigest, status: NodeStatus) {
        self.records.store.show_status(ek, status);
    }

    /// Has told of a refusal. Waits for nothing.
    pub(crate) fn show_refusal(&self, refused: RefusedMachine) {
        self.records.store.show_refusal(refused);
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
        self.in_time(move |records| records.report(ek, &report, boot)).await
    }

    /// Writes down what is new about a machine on record. What is decided about it does not depend on that.
    pub(crate) async fn keep(&self, ek: EkDigest, boot: BootSeen) {
        // What fails is logged, or was by who did not get to it in time.
        let _ = self.in_time(move |records| records.keep(&ek, &boot)).await;
    }

    /// Writes down that a machine waits for the operator. That it is told to wait does not depend on it.
    pub(crate) async fn hold(&self, ek: EkDigest, ask: &JoinAsk) {
        let pending = PendingRecord::new(ek, &ask.name, ask.role, ask.disk, self.now().unix);
        let written = self.in_time(move |records| {
            let mut turn = records.turn()?;
            turn.hold(&pending).map_err(|error| {
                tracing::error!(%error, "A machine that waits for the operator could not be written down");
                Refusal::RecordNotWritten
            })
        });
        // What fails is told above, or by who did not get to it in time.
        let _ = written.await;
    }

    /// Takes over what other programs have written, of this machine above all; whether there was something.
    pub(crate) async fn catch_up(&self, ek: EkDigest) -> bool {
        // What fails is logged, and what is in memory stays in use.
        let caught_up = self.in_time(move |records| records.catch_up(&ek).ok_or(Refusal::RecordNotWritten));
        caught_up.await.unwrap_or(false)
    }

    /// Takes over what has changed, as the store of the records tells it. Waits as long as that takes.
    pub(crate) async fn follow(&self) {
        self.and_wait(Records::follow).await;
    }

    /// Decides on what stands, and writes the record if it changes.
    pub(crate) async fn conclude(
        &self,
        reservation: Reservation,
        rules: Arc<Enrolment>,
        key_version: u32,
    ) -> Result<(Grant, DiskRelease), Refusal> {
        self.in_time(move |_| reservation.conclude(&rules, key_version)).await
    }

    /// Reads all records anew: somebody else may have changed them by hand. Waits as long as that takes.
    pub(crate) async fn refresh(&self) {
        self.and_wait(Records::refresh).await;
    }

    async fn and_wait(&self, job: impl FnOnce(&Records) + Send + 'static) {
        let (done, ended) = smol::channel::bounded(1);
        let job = move |records: &Records| {
            job(records);
            // Whoever asked may be gone.
            let _ = done.try_send(());
        };
        if self.work.send(Box::new(job)).await.is_ok() {
            // An error is a panic in there, and was told.
            let _ended = ended.recv().await;
        }
    }

    /// What a thread of the records makes of `job`, unless none gets to it in time. A job that nobody waits for any
    /// more is not begun; one that was begun is finished, and counts, as if the answer had been lost on the way to the node.
    async fn in_time<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Records) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (answer, answered) = smol::channel::bounded(1);
        let job = move |records: &Records| {
            if !answer.is_closed() {
                drop(answer.try_send(job(records)));
            }
        };
        if self.work.try_send(Box::new(job)).is_err() {
            tracing::error!(waiting = MOST_WAITING, "Too many calls wait for the records");
            return Err(Refusal::RecordNotWritten);
        }
        let late = async {
            smol::Timer::after(WITHIN).await;
            tracing::error!(within = ?WITHIN, "The store of the records does not answer");
            Err(Refusal::RecordNotWritten)
        };
        let answer = async { answered.recv().await.unwrap_or(Err(Refusal::RecordNotWritten)) };
        answer.or(late).await
    }
}

impl Records {
    /// Until nobody can ask any more.
    fn work(&self, number: usize, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv_blocking() {
            self.condition().busy_since.insert(number, Instant::now());
            // One request must not end the service for all: what it changed in memory it changed after everything that can fail.
            if catch_unwind(AssertUnwindSafe(|| job(self))).is_err() {
                self.store.doubt();
            }
            self.condition().busy_since.remove(&number);
        }
    }

    fn now(&self) -> Now {
        Now { unix: unix(), uptime: self.started.elapsed() }
    }

    fn keep(&self, ek: &EkDigest, boot: &BootSeen) -> Result<(), Refusal> {
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

    fn report(&self, ek: EkDigest, report: &ReportAsk, boot: TpmBoot) -> Result<(), Refusal> {
        self.write(
            &ek,
            |state, now| {
                let record = state.report(ek, report, boot, now)?;
                if let Some(known) = record.tpm.as_ref().filter(|known| known.boot != boot) {
                    let (TpmBoot { reset_count, restart_count }, node) = (boot, record.name.as_str());
                    tracing::warn!(
                        %ek, node, reset_count, restart_count, on_record = ?known.boot,
                        "A report is of an earlier boot than the one on record, and says nothing of its lock"
                    );
                }
                Ok((Some(record), ()))
            },
            |state, written, (), _| {
                if let Some(recorded) = written {
                    state.commit_report(recorded);
                }
                Ok(())
            },
        )
    }

    /// Decides on what stands, writes the record that is decided, if there is one, and takes it over; anew where others came first.
    fn write<D, T>(
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
                    Err(PutError::Refused(refusal)) => return Err(came_second(refusal)),
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

    fn refresh(&self) {
        self.store.doubt();
        self.follow();
    }

    fn follow(&self) {
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

    /// Whether there was news, of this machine above all; `None` if that cannot be said.
    fn catch_up(&self, ek: &EkDigest) -> Option<bool> {
        let caught_up = self.store.turn().and_then(|mut turn| {
            turn.look_at(ek)?;
            self.take_over_news(&mut *turn)
        });
        self.note_read(caught_up)
    }

    /// The right to write, with a state that knows what others wrote.
    fn turn(&self) -> Result<Box<dyn Turn + '_>, Refusal> {
        let opened = self.store.turn().and_then(|mut turn| {
            self.take_over_news(&mut *turn)?;
            Ok(turn)
        });
        self.note_read(opened).ok_or(Refusal::RecordNotWritten)
    }

    /// Whether there was some.
    fn take_over_news(&self, turn: &mut dyn Turn) -> Result<bool, StoreError> {
        let _one_after_the_other = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        match turn.news()? {
            News::None => return Ok(false),
            News::All(listing) => self.reload(listing),
            News::Changes(changes) => {
                if let Err(_contradiction) = self.take_over(changes) {
                    // What contradicts what is known only by all of it.
                    self.store.doubt();
                    if let News::All(listing) = turn.news()? {
                        self.reload(listing);
                    }
                }
            }
        }
        Ok(true)
    }

    fn reload(&self, listing: Listing) {
        let (read, damage) = usable(listing);
        let now = self.now();
        let mut state = self.state();
        let (before, known) = (state.len(), state.damage().clone());
        let accepted: Vec<_> = state.firmware_accepted().map(|(record, at)| (record.ek_sha256, at)).collect();
        state.reload(read, damage, now);
        log_damage(state.damage(), &known);
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
        if !state.follow(changes, now) {
            return Err(Contradicted);
        }
        for (ek, before) in accepted {
            if accepted_at(&state, &ek) != before
                && let Some(record) = state.record(&ek)
            {
                log_acceptance(record);
            }
        }
        Ok(())
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

    /// Remembers whether the records could be read, and says so when that is news.
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

    fn conclude(mut self, rules: &Enrolment, key_version: u32) -> Result<(Grant, DiskRelease), Refusal> {
        let records = Arc::clone(&self.records);
        let admitted = self.admitted.as_ref().ok_or(Refusal::RecordNotWritten)?;
        let concluded = records.write(
            &admitted.ek(),
            |state, now| state.conclude(rules, admitted, key_version, now).map(|plan| (plan.record, plan.grant)),
            |state, written, grant, now| {
                state.commit(admitted, written, now);
                Ok((grant, on_record(state.record(&admitted.ek()), admitted.disk())?))
            },
        )?;
        self.admitted = None;
        Ok(concluded)
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

/// The witness for the key, by the record that stands.
fn on_record(record: Option<&Recorded>, disk: Uuid) -> Result<DiskRelease, Refusal> {
    record.ok_or(Refusal::NodeUnknown)?.release(disk).map_err(|refusal| match refusal {
        ReleaseRefusal::DiskReplaced { .. } => Refusal::DiskRetired,
        _ => Refusal::DiskUnknown,
    })
}

fn usable(listing: Listing) -> (Vec<Recorded>, Damage) {
    let mut damage = Damage::new();
    listing.damaged.into_iter().for_each(|damaged| damage.insert(damaged));
    (listing.records, damage)
}

/// What is left of a request that lost a race.
fn came_second(refusal: PutRefusal) -> Refusal {
    match refusal {
        PutRefusal::Overtaken => Refusal::RecordNotWritten,
        PutRefusal::NameTaken => Refusal::NameTaken,
        PutRefusal::DiskTaken => Refusal::DiskTaken,
        PutRefusal::LeaseHeld => Refusal::LeaseHeld,
    }
}

/// Changes cannot be taken over one by one where records cannot be used or contradict each other.
#[derive(Debug)]
struct Contradicted;

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

fn unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

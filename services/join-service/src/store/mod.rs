//! The state and its copy where the records are.
//!
//! Threads of their own read and write the records, and nothing else waits for a disk or a network: calls wait for those threads,
//! within a deadline; decisions in memory and the admin pages wait for neither. A file system or a server that hangs stops what has
//! to be written, and only that. There are as many threads as the store of the records gives turns at once: one, one thing after
//! the other, for a directory.

mod certificates;
mod news;
mod records;

use crate::decision::{Admitted, Ask, ControlPlaneTurn, Grant, JoinAsk, Now, Refusal, ReportAsk, Rules, State};
use crate::denials::DenialCheck;
pub(crate) use certificates::{Certified, Outcome};
use latchkey_attestation::{EkDigest, FirmwareStanding};
use latchkey_cluster_store::{
    BootSeen, DiskRelease, NodeStatus, NotDenied, PendingRecord, RecordStore, Recorded, RefusedMachine, ReleaseRefusal,
    StoreError, TicketRecord, TpmBoot,
};
use latchkey_keys::Uuid;
use latchkey_kubelet_certificates::Reserved;
use records::{Job, Records};
use smol::channel::Sender;
use smol::future::FutureExt;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a call waits for the records. A write takes milliseconds; less than a node waits for its ticket.
pub(crate) const WITHIN: Duration = Duration::from_secs(4);

/// Calls that may wait for the records at a time: as many as there can be connections by default.
const MOST_WAITING: usize = 1024;

/// Records in memory, written through to where they are kept.
#[derive(Debug)]
pub(crate) struct Store {
    records: Arc<Records>,
    work: Sender<Job>,
}

/// An admitted request whose lease, if any, is given back unless it is concluded.
#[derive(Debug)]
pub(crate) struct Reservation {
    records: Arc<Records>,
    admitted: Option<Admitted>,
}

/// A request that came to its end: the record stands.
#[derive(Debug)]
pub(crate) struct Concluded {
    /// What the ticket says beside keys.
    pub(crate) grant: Grant,
    /// The witness for the disk's key.
    pub(crate) release: DiskRelease,
    /// The witness for what control planes share.
    pub(crate) turn: Option<ControlPlaneTurn>,
    /// The ticket that this one takes the place of.
    pub(crate) superseded: Option<TicketRecord>,
}

impl Store {
    /// Reads all records, and starts the threads that keep them.
    pub(crate) fn open(store: Arc<dyn RecordStore>) -> Result<Arc<Self>, StoreError> {
        let threads = store.turns_at_once().max(1);
        let records = Arc::new(Records::read(store)?);
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

    /// See [`RecordStore::unclear`](latchkey_cluster_store::RecordStore::unclear).
    pub(crate) fn unclear(&self) -> BTreeMap<EkDigest, BTreeSet<String>> {
        self.records.store.unclear()
    }

    /// How long what a thread is at has taken so far, at most.
    pub(crate) fn busy(&self) -> Duration {
        self.records.condition().longest_busy().unwrap_or_default()
    }

    /// Machines that wait for the operator, where that is known. Waits for nothing: it is what was so when this was asked before.
    pub(crate) fn held(&self) -> Option<Vec<EkDigest>> {
        let (held, look) = self.records.held();
        if look && self.work.try_send(Box::new(Records::look_for_held)).is_err() {
            // There is more to do than to count: the next time.
            self.records.look_for_held_later();
        }
        held
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
    pub(crate) fn admit(&self, rules: &Rules, ek: EkDigest, ask: Ask, seen: BootSeen) -> Result<Reservation, Refusal> {
        let now = self.now();
        let admitted = self.records.state().admit(rules, ek, ask, seen, now)?;
        Ok(Reservation { records: Arc::clone(&self.records), admitted: Some(admitted) })
    }

    /// Decides on a report and writes the record. The ticket that is over by it, if its time was not over before.
    pub(crate) async fn report(
        &self,
        reserved: Reserved,
        ek: EkDigest,
        report: ReportAsk,
        boot: TpmBoot,
    ) -> Result<Option<TicketRecord>, Refusal> {
        self.in_time(move |records| records.report(&reserved, ek, &report, boot)).await
    }

    /// Writes down what is new about a machine on record. What is decided about it does not depend on that.
    pub(crate) async fn keep(&self, ek: EkDigest, boot: BootSeen) {
        // What fails is logged, or was by who did not get to it in time.
        let _ = self.in_time(move |records| records.keep(&ek, &boot)).await;
    }

    /// Has a record written again by which nothing may be released yet. Of any other, nothing is done.
    pub(crate) async fn confirm(&self, ek: EkDigest) -> Result<(), Refusal> {
        if self.look(|state| state.record(&ek).is_none_or(Recorded::is_confirmed)) {
            return Ok(());
        }
        self.in_time(move |records| records.confirm(&ek)).await
    }

    /// Writes down that a machine waits for the operator. That it is told to wait does not depend on it.
    pub(crate) async fn hold(&self, ek: EkDigest, ask: &JoinAsk, firmware: FirmwareStanding) {
        let pending = PendingRecord::new(ek, &ask.name, ask.role, ask.disk, self.now().unix).on_firmware(firmware);
        let written = self.in_time(move |records| {
            let written = records.turn()?.hold(&pending).map_err(|error| {
                tracing::error!(%error, "A machine that waits for the operator could not be written down");
                Refusal::RecordNotWritten
            });
            records.look_for_held();
            written
        });
        // What fails is told above, or by who did not get to it in time.
        let _ = written.await;
    }

    /// Takes over what other programs have written, of this machine above all.
    ///
    /// # Errors
    /// It could not be read: what is in memory stays in use. Why is logged.
    pub(crate) async fn catch_up(&self, ek: EkDigest) -> Result<(), Refusal> {
        self.in_time(move |records| records.catch_up(&ek).ok_or(Refusal::RecordNotWritten)).await
    }

    /// Takes over what has changed, as the store of the records tells it. Waits as long as that takes.
    pub(crate) async fn follow(&self) {
        self.and_wait(Records::follow).await;
    }

    /// Decides on what stands, and writes the record if it changes.
    pub(crate) async fn conclude(
        &self,
        reservation: Reservation,
        rules: Rules,
        (key_version, ticket): (u32, Option<TicketRecord>),
        denials: DenialCheck,
    ) -> Result<Concluded, Refusal> {
        self.in_time(move |_| reservation.conclude(&rules, (key_version, ticket.as_ref()), &denials)).await
    }

    /// Runs something that waits for the cluster's store, as what waits for records does.
    pub(crate) async fn beside<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.in_time(move |_| job()).await
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

impl Reservation {
    /// The witness for the keys.
    pub(crate) fn admitted(&self) -> Option<&Admitted> {
        self.admitted.as_ref()
    }

    /// Each time that it is decided the denials are asked: who removes a machine denies it first, and others write meanwhile.
    fn conclude(
        mut self,
        rules: &Rules,
        issued: (u32, Option<&TicketRecord>),
        denials: &DenialCheck,
    ) -> Result<Concluded, Refusal> {
        let records = Arc::clone(&self.records);
        let admitted = self.admitted.as_ref().ok_or(Refusal::RecordNotWritten)?;
        let concluded = records.write(
            &admitted.ek(),
            |state, now| {
                let not_denied = denials.of(&admitted.ek())?;
                let plan = state.conclude(rules, admitted, &not_denied, issued, now)?;
                let before = state.record(&admitted.ek()).and_then(|record| record.ticket.clone());
                Ok((plan.record, (plan.grant, before)))
            },
            |state, written, (grant, superseded), now| {
                let turn = state.commit(admitted, written, now);
                // Writing may have taken seconds.
                let not_denied = denials.of(&admitted.ek())?;
                let release = on_record(state.record(&admitted.ek()), admitted.disk(), &not_denied)?;
                Ok(Concluded { grant, release, turn, superseded })
            },
        )?;
        self.admitted = None;
        Ok(concluded)
    }

    /// The grant of a request that writes nothing, decided on the state in memory.
    pub(crate) fn conclude_unwritten(
        mut self,
        rules: &Rules,
        not_denied: &NotDenied,
    ) -> Result<(Grant, DiskRelease), Refusal> {
        let records = Arc::clone(&self.records);
        let admitted = self.admitted.as_ref().ok_or(Refusal::RecordNotWritten)?;
        let now = records.now();
        let state = records.state();
        let plan = state.conclude(rules, admitted, not_denied, (admitted.key_version(), None), now)?;
        if plan.record.is_some() {
            return Err(Refusal::RecordNotWritten);
        }
        let release = on_record(state.record(&admitted.ek()), admitted.disk(), not_denied)?;
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
fn on_record(record: Option<&Recorded>, disk: Uuid, not_denied: &NotDenied) -> Result<DiskRelease, Refusal> {
    record.ok_or(Refusal::NodeUnknown)?.release(disk, not_denied).map_err(|refusal| match refusal {
        ReleaseRefusal::DiskReplaced { .. } => Refusal::DiskRetired,
        ReleaseRefusal::MachineDenied { .. } => Refusal::Denied,
        ReleaseRefusal::DenialsLost { .. } => Refusal::DenialsLost,
        // It is to be confirmed first.
        ReleaseRefusal::MachineNotOnRecord { .. } => Refusal::RecordNotWritten,
        _ => Refusal::DiskUnknown,
    })
}

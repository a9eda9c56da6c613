//! What is told of machines that are on record: how their bootstrap ended, and what was seen of them.

use super::ask::ReportAsk;
use super::certificates::says_where_it_serves;
use super::refusal::Refusal;
use super::rules::holder;
use super::state::{Now, State};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{BootSeen, DiskState, NodeRecord, Outcome, Recorded, Reported, TpmBoot};
use latchkey_kubelet_certificates::Reserved;

impl State {
    /// The record after a report: success confirms the disk and retires the node's others. The node proved its lock in `boot`. It is the
    /// record as it stands where nothing but the time would be another.
    ///
    /// # Errors
    /// A TPM or disk that is not on record.
    pub fn report(
        &self,
        reserved: &Reserved,
        ek: EkDigest,
        report: &ReportAsk,
        boot: TpmBoot,
        now: Now,
    ) -> Result<NodeRecord, Refusal> {
        let known = self.nodes.get(&ek).ok_or(self.unknown(&ek))?;
        let mut record = known.clone().into_inner();
        let disk = record.disks.iter_mut().find(|disk| disk.uuid == report.disk).ok_or(Refusal::DiskUnknown)?;
        if report.outcome == Outcome::Succeeded {
            disk.state = DiskState::Confirmed;
            let (kept, replaced): (Vec<_>, Vec<_>) = record.disks.drain(..).partition(|disk| disk.uuid == report.disk);
            record.disks = kept;
            record.retired.extend(replaced.iter().map(|disk| disk.uuid));
            // Once for each ticket, and soon after it: a machine that was taken over later does not say where it serves.
            if record.ticket.as_ref().is_some_and(|ticket| says_where_it_serves(ticket, now)) {
                let mut addresses = self.free_for(&ek, &report.addresses);
                addresses.retain(|address| !reserved.is_address(*address, holder(record.role)));
                record.addresses = addresses;
            }
        }
        if let Some(ticket) = &mut record.ticket {
            ticket.reported = true;
        }
        record.joining_since = None;
        record.keep_lock(boot);
        let at = |seconds: u64| Some(Reported { at: seconds, disk: report.disk, outcome: report.outcome.clone() });
        record.reported = at(known.reported.as_ref().map_or(now.unix, |before| before.at));
        if record != **known {
            record.reported = at(now.unix);
        }
        Ok(record)
    }

    /// Takes over the record of a report that is on disk now: whatever the outcome, this node is not joining any more.
    pub fn commit_report(&mut self, record: Recorded) {
        self.lease = self.lease.filter(|lease| !lease.is_of(record.ek_sha256));
        self.insert(record);
    }

    /// The record of a TPM with what was seen of its machine; `None` where there is no news, or no record.
    pub fn kept(&self, ek: &EkDigest, seen: &BootSeen, now: Now) -> Option<NodeRecord> {
        let before = self.nodes.get(ek).filter(|record| record.judge(seen).is_news())?;
        let mut record = (**before).clone();
        record.keep(seen, now.unix);
        (record != **before).then_some(record)
    }

    /// Takes over a record that is on disk now and of which nothing is another but what was seen of its machine.
    pub fn commit_kept(&mut self, record: Recorded) {
        self.insert(record);
    }

    /// The records of machines whose firmware is not the one on record.
    pub fn firmware_changed(&self) -> impl Iterator<Item = &Recorded> {
        let changed = |record: &&Recorded| record.firmware.as_ref().is_some_and(|known| known.changed.is_some());
        self.nodes.values().filter(changed)
    }

    /// Machines whose firmware the operator accepted, and when.
    pub fn firmware_accepted(&self) -> impl Iterator<Item = (&Recorded, u64)> {
        self.nodes.values().filter_map(|record| Some((record, record.firmware.as_ref()?.accepted_at?)))
    }
}

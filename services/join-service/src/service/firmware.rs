//! A machine's firmware beside its record: what is asked of it, and what is said of it.

use super::JoinService;
use crate::decision::{Refusal, State, Warning};
use crate::documents::ClusterSnapshot;
use latchkey_attestation::EkDigest;
use latchkey_attesting_service::Node;
use latchkey_cluster_store::{BootSeen, TpmBoot};
use latchkey_measurements::firmware::{Changes, measured};

/// What a node is told of its own evidence, in characters.
const MAX_CAUSE: usize = 512;

impl JoinService {
    /// What a machine's record is asked about. Its log is read only where it says something new.
    pub(super) fn seen(&self, snapshot: &ClusterSnapshot, node: &Node) -> BootSeen {
        let (admission, policy) = (&node.admission, &snapshot.policy);
        let pcrs = policy.firmware_of(admission);
        let is_known = |state: &State| state.record(&node.ek()).is_some_and(|record| record.has_firmware(&pcrs));
        let log = node.verified.shared_unverified_event_log().filter(|_| !self.store.look(is_known));
        BootSeen {
            firmware: measured(&pcrs, log.as_deref()),
            boot: TpmBoot::of(admission),
            rule: policy.firmware_change(),
        }
    }

    /// What is another in the firmware that waits beside this machine's record, for the machine's own console.
    pub(super) fn firmware_waiting(&self, ek: EkDigest) -> Option<String> {
        self.store.look(|state| {
            let known = state.record(&ek)?.firmware.as_ref()?;
            let changes = Changes::between(&known.measured, &known.changed.as_ref()?.measured)?;
            Some(changes.to_string().chars().take(MAX_CAUSE).collect())
        })
    }

    /// Lines about what is not as on record; whether there is something to be kept. `refusal` is why the machine is not let in.
    pub(super) fn report_firmware(&self, node: &Node, seen: &BootSeen, refusal: Option<&Refusal>) -> bool {
        let judged = self.store.look(|state| {
            let record = state.record(&node.ek())?;
            let before = record.firmware.as_ref().map(|known| &known.measured);
            Some((
                record.judge(seen),
                before.and_then(|before| Changes::between(before, &seen.firmware)),
                record.name.clone(),
            ))
        });
        let Some((finding, changes, name)) = judged else { return false };
        if refusal.is_some_and(|refusal| *refusal != Refusal::FirmwareChanged) {
            // Whoever is refused for another reason has no say in what is on record.
            return false;
        }
        let Node { address, audit_id, .. } = node;
        let (ek, node) = (node.ek(), name.as_str());
        let outcome = if refusal.is_some() { "refused" } else { "warned" };
        if let Some(changes) = changes {
            let (code, registers, event) = (Warning::FirmwareChanged, finding.changed, changes.to_string());
            if refusal.is_none() {
                self.metrics.warned(code);
            }
            tracing::warn!(
                target: "audit", audit_id, peer = %address, %ek, node, outcome, code = code.as_str(), %registers, event,
                remedy = code.remedy(), "The firmware is not the one on record"
            );
        }
        if finding.went_back && refusal.is_none() {
            let (code, TpmBoot { reset_count, restart_count }) = (Warning::CountersWentBack, seen.boot);
            self.metrics.warned(code);
            tracing::warn!(
                target: "audit", audit_id, peer = %address, %ek, node, outcome, code = code.as_str(), reset_count,
                restart_count, remedy = code.remedy(), "The TPM's counters are lower than on record"
            );
        }
        if !finding.unrecorded.is_empty() && refusal.is_none() {
            let registers = finding.unrecorded;
            tracing::info!(%ek, node, %registers, "Firmware that was not on record yet is recorded as it is now");
        }
        finding.is_news()
    }
}

//! What a record keeps of the machine itself: its firmware, and the counters of its TPM.
//!
//! Written at the machine's first admission, and compared at each later one with what the machine's TPM quotes then. Which
//! registers are compared, and what follows from a change, the policy says: [`FirmwareChange`] is the one place where that is
//! laid down. The changed measurement is kept beside the recorded one until the operator accepts it (`latchkey policy
//! accept-firmware`) or the machine measures the recorded one again; only the last one is kept, and only evidence of this
//! machine's own TPM that was admitted comes here.
//!
//! # The counters
//!
//! `TPMS_CLOCK_INFO` (TPM 2.0 Library Part 2, section 10.11.1) has two: `resetCount` grows with every `TPM2_Startup` that clears
//! the registers after an orderly shutdown to nothing or a loss of power, `restartCount` with every other start, and a reset
//! makes it zero. So the pair, read as one number, only grows until `TPM2_Clear` makes both zero, and within one value of it
//! PCR 15 never goes from a value back to zero. A quote with another pair is another life of the registers. They are told in
//! the clear to keys of the endorsement hierarchy, of which the agent's attestation key is (Part 1, "Attestation data": other
//! hierarchies' keys get both with a secret number added).
//!
//! * **The same pair as of a boot that was reported locked, and PCR 15 is zero**: its state was brought back to before the lock, as
//!   with a snapshot of a virtual machine; or the TPM was cleared since, and has counted up to this pair again without the machine
//!   being seen in between. Refused: the two look the same, and switching the machine off and on ends the second, since it counts.
//!   No honest retry is like it, since a node asks again only before its lock.
//! * **A lower pair than on record**: the TPM was cleared (`TPM2_Clear` makes both zero, and keeps the endorsement key), or an
//!   older state of it was brought back. The two look the same, so this is told and written down, not refused.
//! * **A higher pair**: a restart of the machine. A reset of the TPM alone, while the machine runs on, is counted in the same way:
//!   no verifier can tell the two apart by counters.

use crate::error::ContentError;
use crate::record::NodeRecord;
use latchkey_attestation::{Admission, Digest, FirmwareChange, MeasuredFirmware, PcrSet, PcrValues};
use serde::{Deserialize, Serialize};

/// A machine's firmware, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirmwareRecord {
    /// When the first of these registers was recorded. Seconds since the Unix epoch.
    pub recorded_at: u64,
    /// When the operator accepted these values, if they are not those of the first admission. Seconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<u64>,
    /// What it measured.
    pub measured: MeasuredFirmware,
    /// What it measured the last time, where that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<ChangedFirmware>,
}

/// Firmware that is not the one on record, and waits for the operator's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangedFirmware {
    /// When the machine showed these values first. Seconds since the Unix epoch.
    pub first_seen: u64,
    /// What it measured.
    pub measured: MeasuredFirmware,
}

/// The counters of a machine's TPM, as its record has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpmRecord {
    /// The boot that the record knows last. Boots in between need not be here.
    pub boot: TpmBoot,
    /// Whether the machine reported in that boot that it is locked.
    pub locked: bool,
    /// When the counters were lower than on record the last time. Seconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub went_back_at: Option<u64>,
}

/// One life of a TPM's registers. The order is that of time, as long as the TPM is not cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TpmBoot {
    /// Resets of the TPM since it was cleared.
    pub reset_count: u32,
    /// Other starts since the last reset.
    pub restart_count: u32,
}

impl TpmBoot {
    /// Of this admission.
    pub fn of(admission: &Admission) -> Self {
        Self { reset_count: admission.reset_count(), restart_count: admission.restart_count() }
    }
}

/// What a machine that is not locked yet showed of itself, and what the policy makes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootSeen {
    /// The registers on which the machine's record decides, with the events behind them. None if the policy names none.
    pub firmware: MeasuredFirmware,
    /// The boot it was in.
    pub boot: TpmBoot,
    /// What follows from a change.
    pub rule: FirmwareChange,
}

/// What a machine's record says of what was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// Registers that are not on record yet.
    pub unrecorded: PcrSet,
    /// Registers that have another value than on record.
    pub changed: PcrSet,
    /// Those of them for which the policy refuses the machine.
    pub refused: PcrSet,
    /// The counters are lower than on record.
    pub went_back: bool,
    /// The registers are those of before the lock of a boot that was reported locked.
    pub already_locked: bool,
    /// The record keeps a change that is none any more.
    outdated: bool,
}

impl Finding {
    /// Whether the record would be another with it, apart from counters that have grown.
    pub fn is_news(self) -> bool {
        let Self { unrecorded, changed, refused: _, went_back, already_locked, outdated } = self;
        !already_locked && (!unrecorded.is_empty() || !changed.is_empty() || went_back || outdated)
    }
}

impl NodeRecord {
    /// Whether these are the values on record, and nothing else is.
    pub fn has_firmware(&self, pcrs: &PcrValues) -> bool {
        let known = self.firmware.as_ref();
        let same = |known: &FirmwareRecord| known.measured.pcrs().of(pcrs.set()) == *pcrs;
        if pcrs.set().is_empty() { known.is_none_or(|known| known.changed.is_none()) } else { known.is_some_and(same) }
    }

    /// Holds what was seen against the record.
    pub fn judge(&self, seen: &BootSeen) -> Finding {
        let pcrs = seen.firmware.pcrs();
        let recorded = self.firmware.as_ref().map(|known| known.measured.pcrs().clone()).unwrap_or_default();
        let changed = recorded.differing(pcrs);
        let waiting = self.firmware.as_ref().and_then(|known| known.changed.as_ref());
        // What was not looked at may still be as it was then.
        let is_seen =
            |waiting: &ChangedFirmware| recorded.differing(waiting.measured.pcrs()).without(pcrs.set()).is_empty();
        let tpm = self.tpm.as_ref();
        Finding {
            unrecorded: pcrs.set().without(recorded.set()),
            changed,
            refused: changed.intersection(seen.rule.refused()),
            went_back: tpm.is_some_and(|known| seen.boot < known.boot),
            already_locked: tpm.is_some_and(|known| known.locked && seen.boot == known.boot),
            outdated: changed.is_empty() && waiting.is_some_and(is_seen),
        }
    }

    /// Takes what was seen `now` (seconds since the Unix epoch) into the record: what is new, and what is changed beside what it
    /// was. Of a machine that is refused for it, the change alone.
    pub fn keep(&mut self, seen: &BootSeen, now: u64) {
        let finding = self.judge(seen);
        if finding.already_locked {
            return;
        }
        self.keep_firmware(seen, finding, now);
        if finding.refused.is_empty() {
            self.keep_boot(seen.boot, now);
        }
    }

    fn keep_firmware(&mut self, seen: &BootSeen, finding: Finding, now: u64) {
        let Some(known) = &mut self.firmware else {
            if !seen.firmware.pcrs().set().is_empty() {
                let measured = seen.firmware.clone();
                self.firmware = Some(FirmwareRecord { recorded_at: now, accepted_at: None, measured, changed: None });
            }
            return;
        };
        if finding.outdated {
            known.changed = None;
        } else if !finding.changed.is_empty() {
            let before = known.changed.take().filter(|before| before.measured.pcrs() == seen.firmware.pcrs());
            known.changed = Some(match before {
                // Nothing is learnt from the same values without a log.
                Some(before) if seen.firmware.events().is_empty() => before,
                before => ChangedFirmware {
                    first_seen: before.map_or(now, |before| before.first_seen),
                    measured: seen.firmware.clone(),
                },
            });
        }
        if finding.refused.is_empty() && !finding.unrecorded.is_empty() {
            known.measured = known.measured.or(&seen.firmware);
        }
    }

    fn keep_boot(&mut self, boot: TpmBoot, now: u64) {
        let before = self.tpm.take();
        let went_back = before.as_ref().is_some_and(|before| boot < before.boot).then_some(now);
        let locked = before.as_ref().is_some_and(|before| before.locked && before.boot == boot);
        let went_back_at = went_back.or(before.and_then(|before| before.went_back_at));
        self.tpm = Some(TpmRecord { boot, locked, went_back_at });
    }

    /// The machine proved its lock in this boot. Whether that was taken: with a later boot on record it came too late, as a report
    /// does that a restart overtook, and says nothing of the boot that the machine is in.
    pub fn keep_lock(&mut self, boot: TpmBoot) -> bool {
        let before = self.tpm.take();
        let taken = before.as_ref().is_none_or(|before| before.boot <= boot);
        let went_back_at = before.as_ref().and_then(|before| before.went_back_at);
        self.tpm = if taken { Some(TpmRecord { boot, locked: true, went_back_at }) } else { before };
        taken
    }

    /// Makes the changed firmware with this digest the recorded one. Whether there was such a change.
    pub fn accept_firmware(&mut self, digest: &Digest, now: u64) -> bool {
        let Some(known) = &mut self.firmware else { return false };
        let Some(changed) = known.changed.take_if(|changed| changed.measured.digest() == *digest) else { return false };
        // Registers that the policy did not ask for this time stay as they are.
        known.measured = changed.measured.or(&known.measured);
        known.accepted_at = Some(now);
        true
    }

    pub(crate) fn check_firmware(&self) -> Result<(), ContentError> {
        let Some(FirmwareRecord { measured, changed, .. }) = &self.firmware else { return Ok(()) };
        let all = std::iter::once(measured).chain(changed.iter().map(|changed| &changed.measured));
        let mut problems = all.filter_map(MeasuredFirmware::problem);
        problems.next().map_or(Ok(()), |problem| Err(ContentError::Rule(problem.to_owned())))
    }
}

//! What follows when a machine's firmware is not the one on its record.
//!
//! Firmware itself is measured into PCR 0 to 3 and 6: its code, its settings, option ROMs and theirs. A manifest that was
//! predicted from an image says nothing about them, since every machine has its own. So they are held against the machine itself,
//! as it was when it was let in first:
//!
//! | the register | who decides |
//! |---|---|
//! | is enforced by the manifest, for the machine type that matched | the manifest. The record is not asked |
//! | is not, and is in `refuse` | the machine's record: another value refuses it |
//! | is not, and is in `warn` | the machine's record: another value is told, and the machine let in |
//! | is not, and is in neither | nobody |
//!
//! A value that a manifest only [warns](crate::validate::Warning) about takes nothing from the record, whether the machine has
//! it or not: with it in the record's place, a change away from it would be the first value on record, and pass.
//!
//! A policy that does not say `firmware_change` warns about the registers of `pcrs.warn`. A register that is not on record is
//! recorded, not judged. Other values are in force only after the operator's word (`latchkey policy accept-firmware`).

use serde::Deserialize;

use super::{Policy, malformed};
use crate::parse::{PcrSet, PcrValues};
use crate::refusal::Refusal;
use crate::validate::Admission;

/// The registers of a machine's firmware that a policy holds against its record. No register is in both sets, and none is
/// enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FirmwareChange {
    warn: PcrSet,
    refuse: PcrSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FirmwareChangeFile {
    warn: PcrSet,
    refuse: PcrSet,
}

impl FirmwareChange {
    /// The registers that firmware is measured into: TCG PC Client Platform Firmware Profile 1.06, section 3.3.4. Not 4, 5
    /// and 7, where the firmware measures what it boots and by which keys.
    pub fn registers() -> PcrSet {
        PcrSet::of(&[0, 1, 2, 3, 6]).unwrap_or(PcrSet::EMPTY)
    }

    /// A change of these is told, and nothing follows.
    pub fn warned(self) -> PcrSet {
        self.warn
    }

    /// A change of one of these refuses the machine.
    pub fn refused(self) -> PcrSet {
        self.refuse
    }

    /// All that are held against the record.
    pub fn judged(self) -> PcrSet {
        self.warn.union(self.refuse)
    }

    pub(super) const fn none() -> Self {
        Self { warn: PcrSet::EMPTY, refuse: PcrSet::EMPTY }
    }

    pub(super) fn of(file: Option<&FirmwareChangeFile>, enforce: PcrSet, warn: PcrSet) -> Result<Self, Refusal> {
        let Some(&FirmwareChangeFile { warn, refuse }) = file else {
            return Ok(Self { warn: warn.intersection(Self::registers()), refuse: PcrSet::EMPTY });
        };
        let all = warn.union(refuse);
        let foreign = all.without(Self::registers());
        if !foreign.is_empty() {
            return Err(malformed(format!("`firmware_change` lists PCRs {foreign}, and firmware's are 0 to 3 and 6")));
        }
        let both = warn.intersection(refuse);
        if !both.is_empty() {
            return Err(malformed(format!("`firmware_change` lists PCRs {both} twice")));
        }
        let enforced = all.intersection(enforce);
        if !enforced.is_empty() {
            return Err(malformed(format!("PCRs {enforced} are enforced: a manifest decides on them, no record")));
        }
        Ok(Self { warn, refuse })
    }
}

impl Policy {
    /// What follows when a machine's firmware is not the one on its record.
    pub fn firmware_change(&self) -> FirmwareChange {
        self.firmware
    }

    /// The quoted values that this machine's record decides on: those of the firmware's registers that the policy holds against
    /// records and that the manifest that admitted it does not enforce.
    pub fn firmware_of(&self, admission: &Admission) -> PcrValues {
        admission.pcrs().of(self.firmware.judged().without(admission.enforced()))
    }

    /// The registers whose change refuses a machine and that this one was not asked for. None, if this policy admitted it; after
    /// another one did, it has to prove itself anew.
    pub fn firmware_not_quoted(&self, admission: &Admission) -> PcrSet {
        self.firmware.refused().without(admission.enforced()).without(admission.pcrs().set())
    }
}

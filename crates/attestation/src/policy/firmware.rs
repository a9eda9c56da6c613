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
//!
//! Who is let in first is believed by that. `"firmware": "known"` asks more, of each machine and each time: its firmware must be one
//! that a manifest lists ([`FirmwareStanding`](crate::validate::FirmwareStanding)).

use serde::Deserialize;

use super::{Policy, malformed};
use crate::parse::{PcrSet, PcrValues};
use crate::refusal::Refusal;
use crate::validate::Admission;

/// The registers that a firmware is known by: its code, and that of option ROMs. Not 1 and 3, which have settings and differ from
/// machine to machine, nor 6, whose content the maker chooses.
pub(crate) const KNOWN_BY: [u8; 2] = [0, 2];

/// Which firmware a machine may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FirmwareDemand {
    /// Any; whether it is known is told.
    #[default]
    Any,
    /// One that a manifest lists.
    Known,
}

impl FirmwareDemand {
    /// What has to be quoted for it.
    fn registers(self) -> PcrSet {
        match self {
            Self::Any => PcrSet::EMPTY,
            Self::Known => FirmwareChange::known_by(),
        }
    }

    /// Whether a policy that holds these registers against manifests can demand it.
    pub(super) fn check(self, compared: PcrSet) -> Result<(), Refusal> {
        let missing = self.registers().without(compared);
        if missing.is_empty() {
            return Ok(());
        }
        let detail =
            format!("`firmware` is `known`, which PCRs {missing} tell: put them into `pcrs.warn` or `pcrs.enforce`");
        Err(malformed(detail))
    }
}

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

    /// Those by which firmware is known: its code, and that of option ROMs.
    pub fn known_by() -> PcrSet {
        PcrSet::of(&KNOWN_BY).unwrap_or(PcrSet::EMPTY)
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

    /// The registers that can refuse a machine for its firmware and that this one was not asked for. None, if this policy admitted
    /// it; after another one did, it has to prove itself anew.
    pub fn firmware_not_quoted(&self, admission: &Admission) -> PcrSet {
        let judged = self.firmware.refused().without(admission.enforced()).union(self.firmware_demand.registers());
        judged.without(admission.pcrs().set())
    }

    /// Whether it takes only machines whose firmware a manifest lists.
    pub fn demands_known_firmware(&self) -> bool {
        self.firmware_demand == FirmwareDemand::Known
    }
}

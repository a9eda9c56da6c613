//! Whether an event's digests are those of its data, for the kinds of events where the specification says so.

use crate::bank::Bank;
use crate::event::{Event, EventType};
use crate::explain::variable::Variable;

/// What holding an event's digests against its data gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataCheck {
    /// Every replayable digest is that of the data.
    Matches,
    /// In this bank it is not: the data was altered, or the firmware has its own mind. The data explains nothing.
    Differs(Bank),
    /// For this kind of event the data only names what was measured.
    NotOfData,
}

impl DataCheck {
    /// As in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Matches => "matches",
            Self::Differs(_) => "differs",
            Self::NotOfData => "not-of-data",
        }
    }
}

/// Holds the digests of `event` against its data (PFP 1.05, section 10.4).
pub fn data(event: &Event<'_>) -> DataCheck {
    let Some(candidates) = measured(event) else { return DataCheck::NotOfData };
    let banks = event.digests.iter().filter_map(|(algorithm, digest)| Some((algorithm.bank()?, *digest)));
    for (bank, digest) in banks {
        if !candidates.iter().any(|candidate| bank.digest(&[candidate]) == digest) {
            return DataCheck::Differs(bank);
        }
    }
    DataCheck::Matches
}

/// What may have been measured. Digests of informational events say nothing: they extend no register, and firmware writes
/// what it likes.
fn measured<'a>(event: &Event<'a>) -> Option<Vec<&'a [u8]>> {
    let whole = event.data;
    match event.kind {
        EventType::SEPARATOR => Some(vec![whole, &ERROR_SEPARATOR]),
        EventType::ACTION
        | EventType::EFI_ACTION
        | EventType::S_CRTM_VERSION
        | EventType::OMIT_BOOT_DEVICE_EVENTS
        | EventType::EFI_VARIABLE_DRIVER_CONFIG
        | EventType::EFI_VARIABLE_BOOT2
        | EventType::EFI_VARIABLE_AUTHORITY
        | EventType::EFI_GPT_EVENT => Some(vec![whole]),
        // "UEFI_VARIABLE_DATA.VariableData" in 1.04 and before, the whole structure in some firmware.
        EventType::EFI_VARIABLE_BOOT => {
            let value = Variable::parse(event.data).map(|variable| variable.value);
            Some(std::iter::once(whole).chain(value).collect())
        }
        _ => None,
    }
}

/// PFP 1.05, section 10.4: a separator for an error has the digest of this, and the error as its data.
pub(crate) const ERROR_SEPARATOR: [u8; 4] = 1_u32.to_le_bytes();

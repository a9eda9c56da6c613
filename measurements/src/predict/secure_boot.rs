//! PCR 7: what firmware measures of Secure Boot (PFP 1.05, section 3.3.4.8).

use latchkey_boot_formats::{Guid, firmware_guid};

use super::variables::{VariableError, VariableStore};
use super::{Machine, OffVariable, PredictError, PredictedEvent, SecureBoot, Uki, authority};
use crate::event::EventType;

/// The enrolled keys: each one's value, empty where the variable is not there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignatureDatabases {
    /// Platform key.
    pub pk: Vec<u8>,
    /// Key exchange keys.
    pub kek: Vec<u8>,
    /// What may boot.
    pub db: Vec<u8>,
    /// What may not.
    pub dbx: Vec<u8>,
}

impl SignatureDatabases {
    /// Those in a variable store.
    ///
    /// # Errors
    /// [`VariableError::Twice`].
    pub fn of(store: &VariableStore<'_>) -> Result<Self, VariableError> {
        let value = |vendor, name| Ok(store.value(vendor, name)?.unwrap_or_default().to_vec());
        Ok(Self {
            pk: value(firmware_guid::GLOBAL_VARIABLE, "PK")?,
            kek: value(firmware_guid::GLOBAL_VARIABLE, "KEK")?,
            db: value(firmware_guid::IMAGE_SECURITY, "db")?,
            dbx: value(firmware_guid::IMAGE_SECURITY, "dbx")?,
        })
    }
}

/// The events of PCR 7, in order.
pub(super) fn events(uki: &Uki, machine: &Machine) -> Result<Vec<PredictedEvent>, PredictError> {
    let (state, databases): (&[u8], _) = match &machine.secure_boot {
        SecureBoot::On(databases) => (&[1], databases),
        SecureBoot::Off { variable: OffVariable::Zero, databases } => (&[0], databases),
        SecureBoot::Off { variable: OffVariable::Empty, databases } => (&[], databases),
    };
    let configuration = |vendor, name, value: &[u8]| {
        PredictedEvent::of_data(7, EventType::EFI_VARIABLE_DRIVER_CONFIG, variable_data(vendor, name, value))
    };
    let mut events = vec![
        configuration(firmware_guid::GLOBAL_VARIABLE, "SecureBoot", state),
        configuration(firmware_guid::GLOBAL_VARIABLE, "PK", &databases.pk),
        configuration(firmware_guid::GLOBAL_VARIABLE, "KEK", &databases.kek),
        configuration(firmware_guid::IMAGE_SECURITY, "db", &databases.db),
        configuration(firmware_guid::IMAGE_SECURITY, "dbx", &databases.dbx),
        PredictedEvent::separator(7),
    ];
    if let SecureBoot::On(databases) = &machine.secure_boot {
        let admitting =
            authority::admitting(uki.certificates.as_deref(), uki.authenticode, &databases.db, &databases.dbx)?;
        let data = variable_data(firmware_guid::IMAGE_SECURITY, "db", admitting);
        events.push(PredictedEvent::of_data(7, EventType::EFI_VARIABLE_AUTHORITY, data));
    }
    Ok(events)
}

/// `UEFI_VARIABLE_DATA` (PFP 1.05, section 10.2).
fn variable_data(vendor: Guid, name: &str, value: &[u8]) -> Vec<u8> {
    let units: Vec<u16> = name.encode_utf16().collect();
    let size = |length: usize| u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes();
    let mut data = vendor.disk_order().to_vec();
    data.extend(size(units.len()));
    data.extend(size(value.len()));
    data.extend(units.into_iter().flat_map(u16::to_le_bytes));
    data.extend_from_slice(value);
    data
}

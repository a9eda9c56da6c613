//! Where two canonical logs part.

use latchkey_attestation::PcrSet;

use super::{CelLog, Record, explain};
use crate::bank::Bank;
use crate::difference::{EventDifference, EventSummary, Extension, common_bank, differences};

/// The first difference of each of these PCRs, in the order of the reported log. As for event logs: digests are compared,
/// and two logs without a bank in common have no differences.
pub fn explain_differences(reference: &CelLog, reported: &CelLog, pcrs: PcrSet) -> Vec<EventDifference> {
    let bank = common_bank(reference.algorithms(), reported.algorithms());
    bank.map_or_else(Vec::new, |bank| differences(reference.records(), reported.records(), pcrs, bank))
}

impl Extension for Record {
    fn extends(&self) -> Option<u8> {
        Record::extends(self)
    }

    fn digest(&self, bank: Bank) -> Option<&[u8]> {
        Record::digest(self, bank)
    }

    fn summary(&self, bank: Bank) -> EventSummary {
        EventSummary {
            index: self.index,
            kind: self.content.kind(),
            description: explain::describe(self),
            digest: Record::digest(self, bank).map(hex::encode).unwrap_or_default(),
        }
    }
}

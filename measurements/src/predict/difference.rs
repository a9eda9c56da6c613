//! Where a log parts from what was predicted.

use latchkey_attestation::PcrSet;

use super::Prediction;
use crate::difference::{EventDifference, unexpected};
use crate::log::EventLog;

impl Prediction {
    /// The first event of each predicted PCR in `pcrs` that is not as predicted: as [`unexpected`].
    pub fn differences(&self, log: &EventLog<'_>, pcrs: PcrSet) -> Vec<EventDifference> {
        unexpected(&self.expected(), log, pcrs.intersection(Self::predicted()))
    }
}

//! A replayed log beside the registers of a TPM, in every bank of both.

use std::collections::BTreeMap;

use latchkey_attestation::PcrSet;
use serde::Serialize;

use crate::bank::Bank;
use crate::replay::Replay;
use crate::report::Report;

/// One register of one bank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegisterComparison {
    /// What the log replays to, lower-case hexadecimal.
    pub replayed: String,
    /// What the TPM has, lower-case hexadecimal.
    pub register: String,
    /// Whether they are the same.
    pub matches: bool,
}

impl Report {
    /// The registers of `bank`, each as the log replays it and as a TPM has it: those that the log extends, and those of
    /// `complete`, of which the log has every event there is, so that one without an event is as it was after the reset.
    /// `None` when the log does not replay in this bank.
    pub fn beside(
        &self,
        bank: Bank,
        registers: &BTreeMap<u8, Vec<u8>>,
        complete: PcrSet,
    ) -> Option<BTreeMap<u8, RegisterComparison>> {
        let replayed = self.pcrs.get(bank.as_str())?;
        let compared = registers.iter().filter_map(|(&pcr, register)| {
            let untouched = || hex::encode(Replay::first_value(self.startup_locality, bank, pcr));
            let replayed = match replayed.get(&pcr) {
                Some(value) => value.clone(),
                None if complete.contains(pcr) => untouched(),
                None => return None,
            };
            let register = hex::encode(register);
            Some((pcr, RegisterComparison { matches: replayed == register, replayed, register }))
        });
        Some(compared.collect())
    }
}

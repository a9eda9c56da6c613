//! Replays a log: what a TPM that was extended with its events has in its PCRs.

use std::collections::BTreeMap;

use latchkey_attestation::{Component, PcrSet, PcrValues};

use crate::bank::{AlgorithmId, Bank};
use crate::event::Event;
use crate::log::EventLog;

/// The PCRs of one bank after a log's events. Holds only PCRs that the log extends, as `tpm2_eventlog` prints them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    bank: Bank,
    pcrs: BTreeMap<u8, Vec<u8>>,
}

impl Replay {
    /// Replays `log` in `bank`; `None` when the log has no digests of it, or not one for each event.
    ///
    /// PCRs begin at zero, PCR 0 at the startup locality (PFP 1.05, section 10.4). PCRs 17 to 22 begin at zero too:
    /// whoever extends them has made a dynamic launch, which resets them.
    pub fn of(log: &EventLog<'_>, bank: Bank) -> Option<Self> {
        if !log.banks().any(|other| other == bank) {
            return None;
        }
        let first = |&pcr: &u8| Self::first_value(log.startup_locality(), bank, pcr);
        Some(Self { bank, pcrs: extended(log, bank, Event::extends, first) })
    }

    /// PCRs that another kind of log replays to.
    pub(crate) fn of_values(bank: Bank, pcrs: BTreeMap<u8, Vec<u8>>) -> Self {
        Self { bank, pcrs }
    }

    /// What a PCR has before its first event.
    pub(crate) fn first_value(startup_locality: Option<u8>, bank: Bank, pcr: u8) -> Vec<u8> {
        let mut value = vec![0; bank.digest_size()];
        if let (0, Some(locality), Some(last)) = (pcr, startup_locality, value.last_mut()) {
            *last = locality;
        }
        value
    }

    /// The bank.
    pub fn bank(&self) -> Bank {
        self.bank
    }

    /// Index and value of each PCR that the log extends, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        self.pcrs.iter().map(|(&pcr, value)| (pcr, value.as_slice()))
    }

    /// The value of a PCR; `None` when the log does not extend it.
    pub fn value(&self, pcr: u8) -> Option<&[u8]> {
        self.pcrs.get(&pcr).map(Vec::as_slice)
    }
}

/// The registers of one kind after a log's events, each from its first value on.
pub(crate) fn extended<'a, R: Ord + Copy>(
    log: &EventLog<'a>,
    bank: Bank,
    register: impl Fn(&Event<'a>) -> Option<R>,
    first: impl Fn(&R) -> Vec<u8>,
) -> BTreeMap<R, Vec<u8>> {
    let mut registers = BTreeMap::new();
    for event in log.events() {
        let (Some(register), Some(digest)) = (register(event), event.digest(bank)) else { continue };
        let value = registers.entry(register).or_insert_with(|| first(&register));
        *value = bank.digest(&[value, digest]);
    }
    registers
}

/// The PCRs that a firmware log accounts for. Not among them: 10, which the kernel extends by itself (IMA), 15, the node
/// lock, and what a dynamic launch or an application extends (16 to 23).
pub fn firmware_pcrs() -> PcrSet {
    PcrSet::of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14]).unwrap_or(PcrSet::EMPTY)
}

/// Holds a log against PCR values that a TPM signed (SHA-256 bank): every PCR of `which` that was quoted must be what the
/// log replays to, and zero where the log has no event for it.
///
/// # Errors
/// [`ReplayError`]: the log belongs to another boot, or was altered. It then says nothing.
pub fn check(log: &EventLog<'_>, quoted: &PcrValues, which: PcrSet) -> Result<(), ReplayError> {
    let replay = Replay::of(log, Bank::Sha256).ok_or_else(|| match log.incomplete() {
        incomplete if incomplete.contains(&Bank::Sha256.algorithm()) => ReplayError::Incomplete,
        _ => ReplayError::NoSha256(log.algorithms().to_vec()),
    })?;
    let untouched = |pcr| Replay::first_value(log.startup_locality(), Bank::Sha256, pcr);
    for pcr in which.intersection(quoted.set()).iter() {
        let Some(value) = quoted.value(pcr) else { continue };
        let replayed = replay.value(pcr).map_or_else(|| untouched(pcr), <[u8]>::to_vec);
        if replayed != value.as_bytes() {
            let quoted = hex::encode(value.as_bytes());
            return Err(ReplayError::Differs { pcr, replayed: hex::encode(replayed), quoted });
        }
    }
    Ok(())
}

/// Why a log does not belong to quoted PCR values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The log has no SHA-256 digests, but those of these banks.
    #[error("the event log has digests of {} and none of sha256, which are what is quoted", names(.0))]
    NoSha256(Vec<AlgorithmId>),
    /// Some events of the log have no SHA-256 digest.
    #[error("some events of the log have no digest of sha256, so it does not replay to what is quoted")]
    Incomplete,
    /// The first PCR that does not replay.
    #[error(
        "the event log does not replay to the quoted PCRs: PCR {pcr} ({}) replays to {replayed}, quoted is {quoted}; the log \
         is of another boot or was altered",
        Component::of(*.pcr).describe()
    )]
    Differs {
        /// The PCR.
        pcr: u8,
        /// What the log replays to, lower-case hexadecimal.
        replayed: String,
        /// What the TPM signed, lower-case hexadecimal.
        quoted: String,
    },
}

fn names(banks: &[AlgorithmId]) -> String {
    banks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

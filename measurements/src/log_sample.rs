//! Event logs for tests (feature `log-sample`): of boots that never were.
#![expect(clippy::missing_panics_doc, clippy::expect_used, reason = "for tests: what fails here fails the test")]

use crate::bank::Bank;
use crate::event::EventType;
use crate::log::EventLog;

/// A log without events, of the SHA-256 bank alone (PFP 1.05, section 10.4.5.1).
pub fn empty() -> Vec<u8> {
    let mut header = b"Spec ID Event03\0".to_vec();
    header.extend([0, 0, 0, 0, 0, 2, 0, 2]);
    header.extend(1_u32.to_le_bytes());
    header.extend(Bank::Sha256.algorithm().0.to_le_bytes());
    header.extend([32, 0, 0]);
    let mut log = [0_u32.to_le_bytes(), EventType::NO_ACTION.0.to_le_bytes()].concat();
    log.extend([0; 20]);
    log.extend(u32::try_from(header.len()).expect("a few bytes").to_le_bytes());
    log.extend(header);
    log
}

/// The log with one event more: of this PCR and type, with the digests of its data.
pub fn with_event(log: &[u8], pcr: u8, kind: EventType, data: &[u8]) -> Vec<u8> {
    let banks = EventLog::parse(log).expect("a log").algorithms().to_vec();
    let size = |count: usize| u32::try_from(count).expect("a few").to_le_bytes();
    let mut log = [log, &u32::from(pcr).to_le_bytes(), &kind.0.to_le_bytes(), &size(banks.len())].concat();
    for bank in banks {
        log.extend(bank.0.to_le_bytes());
        log.extend(bank.bank().expect("a bank that is computed").digest(&[data]));
    }
    log.extend(size(data.len()));
    log.extend(data);
    log
}

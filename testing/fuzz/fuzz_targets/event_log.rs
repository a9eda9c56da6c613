//! A firmware's event log, of a TPM or of a confidential machine, or evidence with one: read, explained, replayed. What is
//! read ends where it says, and a log differs from itself in nothing.
#![no_main]

use latchkey_attestation::PcrValues;
use latchkey_measurements::cc::{CcLog, RtmrSet};
use latchkey_measurements::firmware::measured;
use latchkey_measurements::replay::firmware_pcrs;
use latchkey_measurements::report::Report;
use latchkey_measurements::{Bank, EventLog, Replay, explain_difference};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    confidential(bytes);
    let Ok(log) = EventLog::parse(bytes) else { return };
    assert!(log.padding() < bytes.len());
    assert_eq!(explain_difference(&log, &log, firmware_pcrs()), None);
    let report = Report::of(&log);
    let text = report.to_text();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "a log writes to the terminal");
    assert_eq!(report.events.len(), log.events().len());
    let Some(replay) = Replay::of(&log, Bank::Sha256) else { return };
    // What a TPM would quote of it is kept with the machine's record.
    let values = replay.iter().filter_map(|(pcr, value)| Some((pcr, value.try_into().ok()?))).collect();
    let Some(values) = PcrValues::new(values) else { return };
    let firmware = measured(&values, Some(bytes));
    assert!(firmware.pcrs().set().is_empty() || firmware.problem().is_none(), "a record that cannot be read again");
});

fn confidential(bytes: &[u8]) {
    let Ok(log) = CcLog::parse(bytes) else { return };
    assert_eq!(CcLog::is_one(bytes), bytes[0] == 1, "the header's register alone says what a log is");
    assert!(log.padding() < bytes.len());
    let (report, replayed) = (log.report(), log.replay());
    assert!(!report.to_text().chars().any(|c| c.is_control() && c != '\n'), "a log writes to the terminal");
    assert_eq!((report.events.len(), report.rtmrs.len()), (log.events().len(), 4));
    assert_eq!(replayed.check(replayed.values(), RtmrSet::ALL), Ok(()));
}

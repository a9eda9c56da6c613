//! A canonical event log, as systemd or anyone else writes it: read, explained, replayed by itself and after another. A
//! log differs from itself in nothing.
#![no_main]

use latchkey_attestation::PcrSet;
use latchkey_measurements::cel::{CelLog, explain_differences};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(log) = CelLog::parse(bytes) else { return };
    assert!(CelLog::is_one(bytes));
    assert!(!log.records().is_empty());
    assert_eq!(explain_differences(&log, &log, PcrSet::all()), []);
    let report = log.report();
    let text = report.to_text();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "a log writes to the terminal");
    assert_eq!(report.events.len(), log.records().len());
    for bank in log.banks() {
        let replay = log.replay(bank).expect("a bank of the log");
        assert!(replay.iter().all(|(pcr, value)| pcr < 24 && value.len() == bank.digest_size()));
        assert!(log.replay_after(&replay).is_some());
    }
});

//! A firmware's event log, or evidence with one: read, explained, replayed. What is read ends where it says, and a log
//! differs from itself in nothing.
#![no_main]

use latchkey_measurements::replay::firmware_pcrs;
use latchkey_measurements::report::Report;
use latchkey_measurements::{EventLog, explain_difference};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(log) = EventLog::parse(bytes) else { return };
    assert!(log.padding() < bytes.len());
    assert_eq!(explain_difference(&log, &log, firmware_pcrs()), None);
    let report = Report::of(&log);
    let text = report.to_text();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "a log writes to the terminal");
    assert_eq!(report.events.len(), log.events().len());
});

//! The hand-over file between the stages.
#![no_main]

use latchkey_agent::handover::HandOver;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &[u8]| {
    let Ok(handover) = serde_json::from_slice::<HandOver>(json) else { return };
    let written = serde_json::to_vec(&handover).expect("a hand-over that was read");
    let again: HandOver = serde_json::from_slice(&written).expect("a hand-over that was written");
    assert_eq!(serde_json::to_vec(&again).expect("the same"), written);
});

//! What an operator writes into a cluster's directory.
#![no_main]

use latchkey_cluster_store::Enrolment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &[u8]| {
    let Ok(rules) = Enrolment::parse(json) else { return };
    let written = serde_json::to_vec(&rules).expect("rules that were read");
    assert!(Enrolment::parse(&written).is_ok(), "rules that were written");
});

//! What an operator writes into a cluster's directory, or the enrol service's.
#![no_main]

use latchkey_cluster_store::Enrolment;
use latchkey_cluster_store::registration::{Admitted, Held, Invitation, Rules};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;

/// What is read, written and read again is the same.
fn check<T: Serialize + PartialEq, E>(json: &[u8], parse: impl Fn(&[u8]) -> Result<T, E>) {
    let Ok(value) = parse(json) else { return };
    let written = serde_json::to_vec(&value).expect("what was read");
    assert!(parse(&written).is_ok_and(|again| again == value), "what was written");
}

fuzz_target!(|json: &[u8]| {
    check(json, Enrolment::parse);
    check(json, Rules::parse);
    check(json, Invitation::parse);
    check(json, Held::parse);
    check(json, Admitted::parse);
});

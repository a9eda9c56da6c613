//! An identity as a peer sends it: JSON, then public areas and certificates, against a policy that demands a chain.
#![no_main]

use std::sync::LazyLock;

use latchkey_attestation::{Appraisal, AttesterIdentity, Policy};
use libfuzzer_sys::fuzz_target;
use ring::rand::SystemRandom;

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let json = include_bytes!("../../../crates/attestation/tests/fixtures/ek-p384-chain/policy.json");
    Policy::from_json(json).expect("the fixture's policy")
});

fuzz_target!(|json: &[u8]| {
    let Ok(identity) = AttesterIdentity::from_json(json) else { return };
    match Appraisal::begin(&POLICY, &identity, 1_800_000_000, &SystemRandom::new()) {
        Ok((challenge, _pending)) => assert!(!challenge.credential().is_empty()),
        Err(refusal) => assert!(!refusal.to_string().contains(char::is_control)),
    }
});

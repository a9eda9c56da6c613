//! A quote, a signature and an AK as a peer sends them: two length bytes split the input; the rest of a good recording is
//! put around them. Whatever is not the recorded quote must be refused. Seeds must hold no other genuine quote of that
//! TPM: a recording cannot show which AK is in which TPM, so that one would rightly verify.
#![no_main]

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use latchkey_attestation::{LockExpectation, ManifestFile, Policy, RecordedEvidence, References};
use libfuzzer_sys::fuzz_target;

struct Fixture {
    policy: Policy,
    references: References,
    evidence: serde_json::Value,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let policy = include_bytes!("../../../crates/attestation/tests/fixtures/ek-p256-pinned/policy.json");
    let reference = include_bytes!("../../../crates/attestation/tests/fixtures/ek-p256-pinned/reference.json");
    let evidence = include_bytes!("../../../crates/attestation/tests/fixtures/ek-p256-pinned/evidence.json");
    let policy = Policy::from_json(policy).expect("the fixture's policy");
    let reference = ManifestFile::new(reference.to_vec(), None).under(&policy).expect("the fixture's reference values");
    Fixture {
        references: References::new(&policy, vec![reference]).expect("they fit"),
        policy,
        evidence: serde_json::from_slice(evidence).expect("the fixture's evidence"),
    }
});

fuzz_target!(|input: &[u8]| {
    let Some((lengths, rest)) = input.split_at_checked(2) else { return };
    let (quote, rest) = rest.split_at(usize::from(lengths[0]).min(rest.len()));
    let (signature, ak) = rest.split_at(usize::from(lengths[1]).min(rest.len()));
    let mut json = FIXTURE.evidence.clone();
    let same = STANDARD.encode(quote) == json["quote"];
    json["quote"] = STANDARD.encode(quote).into();
    json["signature"] = STANDARD.encode(signature).into();
    if !ak.is_empty() {
        json["identity"]["ak_public"] = STANDARD.encode(ak).into();
    }
    let Ok(recording) = RecordedEvidence::from_json(json.to_string().as_bytes()) else { return };
    let now = recording.recorded_at();
    let finding = recording.appraise_recorded(&FIXTURE.policy, &FIXTURE.references, LockExpectation::Unlocked, now);
    assert!(same || finding.is_err(), "a quote that no TPM signed verifies");
});

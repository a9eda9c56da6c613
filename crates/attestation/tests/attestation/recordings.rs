//! Evidence that real TPM code (swtpm) once gave, kept as files: what `swtpm.rs` proves live, proven without swtpm.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use latchkey_attestation::record::{OfflineFinding, RecordedEvidence, Unproven};
use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_attestation::{EkTrust, LockExpectation, ManifestFile, Policy, References};
use serde_json::{Value, json};

macro_rules! fixture {
    ($name:literal) => {
        Fixture {
            evidence: include_str!(concat!("../fixtures/", $name, "/evidence.json")),
            policy: include_str!(concat!("../fixtures/", $name, "/policy.json")),
            reference: include_str!(concat!("../fixtures/", $name, "/reference.json")),
        }
    };
}

/// A P-384 EK with swtpm's certificate, a P-256 AK, extended PCRs.
const P384: Fixture = fixture!("ek-p384-chain");
/// An RSA-2048 EK with swtpm's certificate, a P-256 AK.
const RSA: Fixture = fixture!("ek-rsa-chain");
/// A P-256 EK without certificate, a P-256 AK.
const P256: Fixture = fixture!("ek-p256-pinned");
/// An RSA-2048 EK and an RSA-2048 AK, by tpm2-tools.
const RSA_AK: Fixture = fixture!("ak-rsa");

struct Fixture {
    evidence: &'static str,
    policy: &'static str,
    reference: &'static str,
}

impl Fixture {
    fn recording(&self) -> RecordedEvidence {
        RecordedEvidence::from_json(self.evidence.as_bytes()).unwrap()
    }

    fn evidence(&self) -> Value {
        serde_json::from_str(self.evidence).unwrap()
    }

    fn appraise(&self, evidence: &Value) -> Result<OfflineFinding, Refusal> {
        let recording = RecordedEvidence::from_json(evidence.to_string().as_bytes())?;
        self.appraise_at(&recording, LockExpectation::Unlocked, self.recording().recorded_at())
    }

    fn appraise_at(
        &self,
        recording: &RecordedEvidence,
        lock: LockExpectation,
        now: u64,
    ) -> Result<OfflineFinding, Refusal> {
        let policy = Policy::from_json(self.policy.as_bytes())?;
        let manifest = ManifestFile::new(self.reference.into(), None).under(&policy)?;
        let references = References::new(&policy, vec![manifest])?;
        recording.appraise_recorded(&policy, &references, lock, now)
    }
}

#[test]
fn recordings_of_every_kind_of_key_verify() {
    for (fixture, chain) in [(P384, true), (RSA, true), (P256, false), (RSA_AK, false)] {
        let finding = fixture.appraise(&fixture.evidence()).unwrap();
        assert_eq!(matches!(finding.trust, EkTrust::EkChain { .. }), chain);
        assert_eq!(finding.image.name, "image");
        assert!(!finding.locked);
    }
}

#[test]
fn a_finding_says_what_it_does_not_prove() {
    let finding = P384.appraise(&P384.evidence()).unwrap();
    assert_eq!(finding.unproven, Unproven::ALL);
    let json = serde_json::to_value(&finding).unwrap();
    assert_eq!(json["unproven"], json!(["activation", "freshness", "provenance"]));
    // It is a report and no witness: `Admission` has no constructor that takes one.
}

#[test]
fn a_recording_survives_a_round_trip_and_holds_no_secret() {
    let json: Value = serde_json::from_str(&P384.recording().to_json()).unwrap();
    assert_eq!(json, P384.evidence());
    assert!(!P384.evidence.contains("activated_secret"));
}

#[test]
fn flipping_any_bit_of_a_recorded_quote_or_signature_is_refused() {
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD;
    for fixture in [P256, RSA_AK] {
        for field in ["quote", "signature"] {
            let bytes = base64.decode(fixture.evidence()[field].as_str().unwrap()).unwrap();
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let mut evidence = fixture.evidence();
                evidence[field] = json!(base64.encode(flipped));
                assert!(fixture.appraise(&evidence).is_err(), "{field}, bit {bit}");
            }
        }
    }
}

#[test]
fn flipping_any_bit_of_a_recorded_certificate_is_refused() {
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD;
    let certificate = base64.decode(P384.evidence()["identity"]["ek_certificate"].as_str().unwrap()).unwrap();
    for bit in 0..certificate.len() * 8 {
        let mut flipped = certificate.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let mut evidence = P384.evidence();
        evidence["identity"]["ek_certificate"] = json!(base64.encode(flipped));
        assert!(P384.appraise(&evidence).is_err(), "bit {bit}");
    }
}

#[test]
fn every_altered_field_has_its_reason() {
    let other = RSA.evidence();
    let mut wrong_binding = P384.evidence();
    wrong_binding["binding"] = json!(support::value(0));
    let mut wrong_value = P384.evidence();
    wrong_value["pcrs"]["4"] = json!(support::value(0));
    let mut missing_value = P384.evidence();
    missing_value["pcrs"].as_object_mut().unwrap().remove("4");
    let replaced = |pointer: &str| {
        let mut evidence = P384.evidence();
        *evidence.pointer_mut(pointer).unwrap() = other.pointer(pointer).unwrap().clone();
        evidence
    };
    for (evidence, code) in [
        (wrong_binding, ReasonCode::QuoteBindingMismatch),
        (wrong_value, ReasonCode::PcrDigestMismatch),
        (missing_value, ReasonCode::PcrValuesMismatch),
        (replaced("/quote"), ReasonCode::SignatureInvalid),
        (replaced("/signature"), ReasonCode::SignatureInvalid),
        (replaced("/identity/ak_public"), ReasonCode::SignatureInvalid),
        (replaced("/identity/ek_public"), ReasonCode::EkTemplateRefused),
        (replaced("/identity/ek_certificate"), ReasonCode::EkCertificateOfAnotherTpm),
    ] {
        assert_eq!(P384.appraise(&evidence).unwrap_err().code(), code);
    }
}

#[test]
fn malformed_and_newer_recordings_are_refused() {
    let altered = |field: &str, value: Value| {
        let mut evidence = P384.evidence();
        evidence[field] = value;
        evidence
    };
    for evidence in [
        altered("extra", json!(1)),
        altered("quote", json!("A".repeat(1400))),
        altered("binding", json!("00")),
        altered("recorded_by", json!("x".repeat(257))),
        altered("recorded_at", json!(-1)),
        altered("event_log", json!("A".repeat(180_000))),
        altered("version", json!(2)),
        altered("processor", json!({ "snp": { "report": "" } })),
    ] {
        assert_eq!(P384.appraise(&evidence).unwrap_err().code(), ReasonCode::RecordingMalformed);
    }
    assert_eq!(P384.appraise(&altered("version", json!(3))).unwrap_err().code(), ReasonCode::RecordingVersionUnknown);
    for field in ["quote", "signature", "pcrs", "identity", "binding", "recorded_at", "recorded_by"] {
        let mut evidence = P384.evidence();
        evidence.as_object_mut().unwrap().remove(field);
        assert_eq!(P384.appraise(&evidence).unwrap_err().code(), ReasonCode::RecordingMalformed, "{field}");
    }
}

#[test]
fn the_asked_for_time_decides_about_certificates() {
    let recording = P384.recording();
    let before = P384.appraise_at(&recording, LockExpectation::Unlocked, recording.recorded_at() - 86_400 * 365);
    assert_eq!(before.unwrap_err().code(), ReasonCode::EkCertificateNotYetValid);
}

#[test]
fn the_lock_is_checked_in_recordings_too() {
    let recording = P384.recording();
    let locked = P384.appraise_at(&recording, LockExpectation::LockedTo([1; 32]), recording.recorded_at());
    assert_eq!(locked.unwrap_err().code(), ReasonCode::NotLocked);
}

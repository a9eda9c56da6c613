//! What the tests share: a policy, reference values, and the way through an appraisal.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#![allow(clippy::needless_pass_by_value, reason = "JSON is built in place")]

pub mod certificates;

use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_attestation::{
    Admission, Appraisal, AttesterIdentity, AuthenticManifest, EkDigest, LockExpectation, Policy, ReferenceValues,
    References, TrustedAk, VerifiedEvidence,
};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

pub const NOW: u64 = 1_795_000_000;
pub const BINDING: [u8; 32] = [0xb1; 32];
/// The PCRs that the tests' policy enforces.
pub const ENFORCED: [u8; 6] = [4, 7, 9, 11, 12, 13];

pub fn policy_json(trust: Value) -> Value {
    json!({
        "version": 3,
        "ek_templates": ["ecc-p256"],
        "ak_trust": [trust],
        "denied_ek_sha256": [],
        "ak_algorithms": ["ecdsa-p256-sha256"],
        "pcrs": {"enforce": ENFORCED, "warn": [0]},
        "lock": "pcr-15",
        "references": [{"manifest": "test", "minimum_version": "1.0.0", "unsigned": "trust-local-file"}],
    })
}

pub fn pinned(digests: &[EkDigest]) -> Value {
    json!({"kind": "pinned-ek", "ek_sha256": digests})
}

pub fn policy(json: &Value) -> Policy {
    Policy::from_json(json.to_string().as_bytes()).unwrap()
}

pub fn digest_of(tpm: &FakeTpm) -> EkDigest {
    EkDigest::of_public_area(&tpm.ek_public().marshal()).unwrap()
}

/// A policy that pins this TPM.
pub fn policy_for(tpm: &FakeTpm) -> Policy {
    policy(&policy_json(pinned(&[digest_of(tpm)])))
}

/// The value that all enforced PCRs of `image 1.<number>.0` have: the number, repeated.
pub fn value(number: u8) -> String {
    format!("{number:02x}").repeat(32)
}

pub fn image_json(number: u8) -> Value {
    let mut pcrs = serde_json::Map::new();
    for index in ENFORCED {
        pcrs.insert(index.to_string(), json!({"value": value(number), "rule": "enforce"}));
    }
    pcrs.insert("0".into(), json!({"value": value(number), "rule": "warn"}));
    let version = format!("1.{number}.0");
    json!({
        "name": "image", "version": version, "source": "recorded", "provenance": provenance_json(&version),
        "machines": [{"machine": "test", "pcrs": pcrs}],
    })
}

/// Image `number`, on guests whose launch digest is `digest`, repeated; with kernel hashes or without.
pub fn launched_image_json(number: u8, digest: u8, kernel_hashes: bool) -> Value {
    let mut image = image_json(number);
    image["machines"][0]["snp_launch"] = json!([{
        "digest": format!("{digest:02x}").repeat(48), "firmware_sha256": value(9), "kernel_hashes": kernel_hashes,
        "vcpus": 4, "vcpu_type": "EPYC-v4", "guest_features": 1,
    }]);
    image
}

pub fn provenance_json(version: &str) -> Value {
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "image.raw", "digest": {"sha256": value(1)}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:latchkey:build:recording:v1",
                "externalParameters": {"image": "image", "version": version, "commandLine": "console=ttyS0"},
                "resolvedDependencies": [{"name": "vmlinuz", "digest": {"sha256": value(2)}}],
            },
            "runDetails": {
                "builder": {"id": "urn:latchkey:builder:v1", "version": {"latchkey": "tests"}},
                "metadata": {"startedOn": "2026-11-18T11:06:40Z"},
            },
        },
    })
}

pub fn reference_json(images: &[Value]) -> Value {
    json!({
        "version": 2,
        "name": "test",
        "serial": 7,
        "images": images,
    })
}

pub fn reference_values(json: &Value) -> ReferenceValues {
    ReferenceValues::from_json(json.to_string().as_bytes()).unwrap()
}

pub fn references(policy: &Policy, images: &[Value]) -> References {
    References::new(policy, vec![AuthenticManifest::local(reference_values(&reference_json(images)))]).unwrap()
}

/// A fake TPM that booted image `number`.
pub fn booted(number: u8) -> FakeTpm {
    let mut tpm = FakeTpm::generate();
    boot(&mut tpm, number);
    tpm
}

pub fn boot(tpm: &mut FakeTpm, number: u8) {
    for index in ENFORCED.into_iter().chain([0]) {
        tpm.set_pcr(index, [number; 32]);
    }
}

/// As far as a trusted AK, honestly.
pub fn trusted_ak(policy: &Policy, tpm: &FakeTpm) -> Result<TrustedAk, Refusal> {
    let (challenge, pending) = Appraisal::begin(policy, &tpm.identity(), NOW, &SystemRandom::new())?;
    pending.confirm(&tpm.activate(challenge.credential()).unwrap_or_default())
}

/// As far as verified evidence, honestly.
pub fn verified(policy: &Policy, tpm: &FakeTpm) -> Result<VerifiedEvidence, Refusal> {
    let (challenge, pending) = Appraisal::begin(policy, &tpm.identity(), NOW, &SystemRandom::new())?;
    let evidence = tpm.evidence(&challenge, &BINDING).unwrap();
    pending.confirm(evidence.activated_secret())?.verify(&evidence, &BINDING)
}

/// All the way, honestly, against image 1.1.0.
pub fn admitted(tpm: &FakeTpm, lock: LockExpectation) -> Result<Admission, Refusal> {
    let policy = policy_for(tpm);
    let references = references(&policy, &[image_json(1)]);
    policy.validate(&verified(&policy, tpm)?, &references, lock, NOW)
}

pub fn begin_code(policy: &Policy, identity: &AttesterIdentity) -> Option<ReasonCode> {
    Appraisal::begin(policy, identity, NOW, &SystemRandom::new()).err().map(|refusal| refusal.code())
}

//! What an appraisal costs a verifier, step by step: `cargo bench -p latchkey-attestation --bench appraise`.
//!
//! The quotes of the recordings come from swtpm, the others from the fake TPM.

use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::record::{OfflineFinding, RecordedEvidence};
use latchkey_attestation::{Appraisal, AttesterIdentity, EkDigest, LockExpectation, ManifestFile, Policy, References};
use latchkey_bench::Bench;
use ring::rand::SystemRandom;

fn main() {
    let bench = Bench::from_args();
    for (id, directory, algorithm) in
        [("attestation/quote-p256", "ek-p256-pinned", "P-256"), ("attestation/quote-rsa", "ak-rsa", "RSA-2048")]
    {
        let fixture = Fixture::read(directory);
        let what = format!("quote by a {algorithm} AK: keys, signature, PCRs, policy");
        bench.measure(id, &what, || fixture.appraise());
    }
    honest_steps(&bench);
    for (id, directory, key) in [
        ("attestation/ek-p256", "ek-p256-pinned", "P-256, pinned"),
        ("attestation/ek-p384", "ek-p384-chain", "P-384, chain of 3"),
        ("attestation/ek-rsa", "ek-rsa-chain", "RSA-2048, chain of 3"),
    ] {
        let fixture = Fixture::read(directory);
        let (identity, now, random) = (fixture.identity(), fixture.recording.recorded_at(), SystemRandom::new());
        let what = format!("identity and credential for an EK of {key}");
        bench.measure(id, &what, || Appraisal::begin(&fixture.policy, &identity, now, &random).is_ok());
    }
    let fixture = Fixture::read("ek-p256-pinned");
    let json = fixture.recording.to_json();
    bench.measure("attestation/recording", "reading a recording from JSON", || {
        RecordedEvidence::from_json(json.as_bytes()).is_ok()
    });
}

/// The live way: each step consumes the one before, which is prepared beside the clock.
fn honest_steps(bench: &Bench) {
    let tpm = FakeTpm::generate();
    let fixture = Fixture::read("ek-p256-pinned");
    let policy = policy_for(&tpm);
    let (identity, random, now) = (tpm.identity(), SystemRandom::new(), fixture.recording.recorded_at());
    let answered = || {
        let (challenge, pending) = Appraisal::begin(&policy, &identity, now, &random).expect("a pinned EK");
        (tpm.evidence(&challenge, &BINDING).expect("its own credential"), pending)
    };
    let activated = || {
        let (evidence, pending) = answered();
        (pending.confirm(evidence.activated_secret()).expect("activated"), evidence)
    };
    let what = "quote by a P-256 AK: signature and PCRs alone";
    bench.measure_prepared("attestation/quote-p256-alone", what, activated, |(ak, evidence)| {
        ak.verify(&evidence, &BINDING).expect("an honest quote")
    });
    bench.measure("attestation/both-sides", "whole appraisal, both sides, P-256 (the fake TPM included)", || {
        let (ak, evidence) = activated();
        ak.verify(&evidence, &BINDING).expect("an honest quote")
    });
}

const BINDING: [u8; 32] = [1; 32];

struct Fixture {
    recording: RecordedEvidence,
    policy: Policy,
    references: References,
}

impl Fixture {
    fn read(name: &str) -> Self {
        let read = |file| {
            let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
            std::fs::read(directory.join(name).join(file)).expect("a fixture")
        };
        let policy = Policy::from_json(&read("policy.json")).expect("a policy");
        let reference = ManifestFile::new(read("reference.json"), None).under(&policy).expect("reference values");
        Self {
            recording: RecordedEvidence::from_json(&read("evidence.json")).expect("a recording"),
            references: References::new(&policy, vec![reference]).expect("a manifest that fits"),
            policy,
        }
    }

    fn identity(&self) -> AttesterIdentity {
        self.recording.identity().clone()
    }

    fn appraise(&self) -> OfflineFinding {
        let now = self.recording.recorded_at();
        let finding = self.recording.appraise_recorded(&self.policy, &self.references, LockExpectation::Unlocked, now);
        finding.expect("good evidence")
    }
}

fn policy_for(tpm: &FakeTpm) -> Policy {
    let ours = EkDigest::of_public_area(&tpm.ek_public().marshal()).expect("an EK").to_string();
    let json = serde_json::json!({
        "version": 3, "ek_templates": ["ecc-p256"],
        "ak_trust": [{"kind": "pinned-ek", "ek_sha256": [ours]}],
        "ak_algorithms": ["ecdsa-p256-sha256"],
        "pcrs": {"enforce": [4, 7, 9, 11, 12, 13], "warn": []},
        "lock": "pcr-15",
        "references": [{"manifest": "test", "minimum_version": "1.0.0", "unsigned": "trust-local-file"}],
    });
    Policy::from_json(json.to_string().as_bytes()).expect("a policy")
}

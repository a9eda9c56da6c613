//! What an appraisal costs a verifier, step by step, on one core: `cargo bench -p latchkey-attestation`.
//!
//! Each figure is the best of many batches: what the work costs when nothing else runs. The quotes of the recordings come
//! from swtpm, the others from the fake TPM.

use std::hint::black_box;
use std::time::{Duration, Instant};

use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::record::RecordedEvidence;
use latchkey_attestation::{
    Appraisal, AttesterIdentity, EkDigest, LockExpectation, Policy, ReferenceValues, References, TpmEvidence,
};
use ring::rand::SystemRandom;

const BATCHES: usize = 300;
// Short enough to fit between two of the scheduler's interruptions.
const PER_BATCH: usize = 5;

fn main() {
    println!("{:<62} {:>10} {:>12}", "step", "µs", "per second");
    let fixtures = [("ek-p256-pinned", "P-256"), ("ak-rsa", "RSA-2048")];
    for (name, algorithm) in fixtures {
        let fixture = Fixture::read(name);
        row(&format!("quote by a {algorithm} AK: keys, signature, PCRs, policy"), || {
            fixture.appraise();
        });
    }
    honest_steps();
    for (name, key) in [
        ("ek-p256-pinned", "P-256, pinned"),
        ("ek-p384-chain", "P-384, chain of 3"),
        ("ek-rsa-chain", "RSA-2048, chain of 3"),
    ] {
        let fixture = Fixture::read(name);
        let (identity, now, random) = (fixture.identity(), fixture.recording.recorded_at(), SystemRandom::new());
        row(&format!("identity and credential for an EK of {key}"), || {
            black_box(Appraisal::begin(&fixture.policy, &identity, now, &random).is_ok());
        });
    }
    let fixture = Fixture::read("ek-p256-pinned");
    let json = fixture.recording.to_json();
    row("reading a recording from JSON", || {
        black_box(RecordedEvidence::from_json(json.as_bytes()).is_ok());
    });
}

/// The live way: each step consumes the one before, so a batch is prepared before its clock starts.
fn honest_steps() {
    let tpm = FakeTpm::generate();
    let fixture = Fixture::read("ek-p256-pinned");
    let policy = policy_for(&tpm);
    let (identity, random, now) = (tpm.identity(), SystemRandom::new(), fixture.recording.recorded_at());
    let begin = || Appraisal::begin(&policy, &identity, now, &random).expect("a pinned EK");
    let answer = |challenge| tpm.evidence(&challenge, &BINDING).expect("its own credential");
    let prepared = || -> Vec<(TpmEvidence, _)> {
        let pending = (0..PER_BATCH).map(|_| begin()).map(|(challenge, pending)| (answer(challenge), pending));
        pending
            .map(|(evidence, pending)| (pending.confirm(evidence.activated_secret()), evidence))
            .map(|(ak, e)| (e, ak))
            .collect()
    };
    let best = best_of(|| {
        let batch = prepared();
        let start = Instant::now();
        for (evidence, ak) in batch {
            let _ = black_box(ak.expect("activated").verify(&evidence, &BINDING).expect("an honest quote"));
        }
        start.elapsed()
    });
    print("quote by a P-256 AK: signature and PCRs alone", best);
    row("whole appraisal, both sides, P-256 (the fake TPM included)", || {
        let (challenge, pending) = begin();
        let evidence = answer(challenge);
        let ak = pending.confirm(evidence.activated_secret()).expect("activated");
        let _ = black_box(ak.verify(&evidence, &BINDING).expect("an honest quote"));
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
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
            std::fs::read(folder.join(name).join(file)).expect("a fixture")
        };
        let policy = Policy::from_json(&read("policy.json")).expect("a policy");
        let reference = ReferenceValues::from_json(&read("reference.json")).expect("reference values");
        Self {
            recording: RecordedEvidence::from_json(&read("evidence.json")).expect("a recording"),
            references: References::new(&policy, vec![reference]).expect("a manifest that fits"),
            policy,
        }
    }

    fn identity(&self) -> AttesterIdentity {
        self.recording.identity().clone()
    }

    fn appraise(&self) {
        let now = self.recording.recorded_at();
        let finding = self.recording.appraise_recorded(&self.policy, &self.references, LockExpectation::Open, now);
        black_box(finding.expect("good evidence"));
    }
}

fn policy_for(tpm: &FakeTpm) -> Policy {
    let ours = EkDigest::of_public_area(&tpm.ek_public().marshal()).expect("an EK").to_string();
    let json = serde_json::json!({
        "version": 1,
        "ak_trust": [{"kind": "pinned-ek", "ek_sha256": [ours]}],
        "ak_algorithms": ["ecdsa-p256-sha256"],
        "pcrs": {"enforce": [4, 7, 9, 11, 12, 13], "warn": []},
        "lock": "pcr-15",
        "references": [{"manifest": "test", "minimum_version": "1.0.0"}],
    });
    Policy::from_json(json.to_string().as_bytes()).expect("a policy")
}

fn row(name: &str, mut work: impl FnMut()) {
    let best = best_of(|| {
        let start = Instant::now();
        for _ in 0..PER_BATCH {
            work();
        }
        start.elapsed()
    });
    print(name, best);
}

fn best_of(mut batch: impl FnMut() -> Duration) -> Duration {
    (0..BATCHES).map(|_| batch()).min().unwrap_or_default() / u32::try_from(PER_BATCH).unwrap_or(1)
}

fn print(name: &str, each: Duration) {
    println!("{name:<62} {:>10.1} {:>12.0}", each.as_secs_f64() * 1e6, 1.0 / each.as_secs_f64());
}

//! The certificate of an endorsement key, and an authority's, with critical policies: what is shown to webpki otherwise than it was signed. A
//! changed byte never makes a certificate good: nobody here has the root's key.
#![no_main]

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_attestation::{Appraisal, AttesterIdentity, Policy, ReasonCode};
use libfuzzer_sys::fuzz_target;
use ring::rand::SystemRandom;

const POLICY: &[u8] = include_bytes!("../../../crates/attestation/tests/fixtures/ek-p384-chain/policy.json");
const EVIDENCE: &[u8] = include_bytes!("../../../crates/attestation/tests/fixtures/ek-p384-chain/evidence.json");
const NOW: u64 = 1_800_000_000;

static CHAIN: LazyLock<Policy> = LazyLock::new(|| Policy::from_json(POLICY).expect("the fixture's policy"));
static IDENTITY: LazyLock<AttesterIdentity> = LazyLock::new(|| {
    let evidence: serde_json::Value = serde_json::from_slice(EVIDENCE).expect("the fixture");
    AttesterIdentity::from_json(evidence["identity"].to_string().as_bytes()).expect("the fixture's identity")
});

fuzz_target!(|der: &[u8]| {
    let (ek, ak) = (IDENTITY.ek_public().to_vec(), IDENTITY.ak_public().to_vec());
    let good = IDENTITY.ek_certificate().unwrap_or_default();
    // As a TPM shows it.
    if let Ok(shown) = AttesterIdentity::new(ek, Some(der.to_vec()), Vec::new(), ak) {
        match Appraisal::begin(&CHAIN, &shown, NOW, &SystemRandom::new()) {
            Ok(_) => assert_eq!(der, good, "nobody signed this"),
            Err(refusal) => assert_ne!(refusal.code(), ReasonCode::VerifierFault, "{refusal}"),
        }
    }
    // As an operator puts an authority into a policy.
    let mut policy: serde_json::Value = serde_json::from_slice(POLICY).expect("the fixture");
    policy["ak_trust"][0]["intermediates"] = serde_json::json!([STANDARD.encode(der)]);
    if let Ok(policy) = Policy::from_json(policy.to_string().as_bytes()) {
        for authority in policy.unusable_authorities(NOW) {
            assert!(!authority.why.is_empty());
        }
    }
});

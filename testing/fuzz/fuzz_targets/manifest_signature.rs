//! A signature's file beside a manifest, and the text of a public key. Only what the publisher signed is a signature; and
//! what nobody signed is never parsed.
#![no_main]

use latchkey_attestation::reference::{ManifestFile, Signature, SignerKey};
use latchkey_attestation::{Policy, ReasonCode};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// By a key whose secret is nowhere.
const KEY: &str = "RWQBAgMEBQYHCBERERERERERERERERERERERERERERERERERERERERER";

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let policy = include_bytes!("../../../crates/attestation/tests/fixtures/ek-p256-pinned/policy.json");
    let mut json: serde_json::Value = serde_json::from_slice(policy).expect("the fixture's policy");
    json["references"] = serde_json::json!([{"manifest": "test", "minimum_version": "0.0.0", "signers": [KEY]}]);
    Policy::from_json(json.to_string().as_bytes()).expect("a policy")
});

fuzz_target!(|bytes: &[u8]| {
    let key: SignerKey = KEY.parse().expect("a key");
    if let Ok(signature) = Signature::parse(bytes) {
        assert!(key.verify(b"a manifest", &signature).is_err(), "a signature that nobody made");
    }
    if let Some(other) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<SignerKey>().ok()) {
        assert_eq!(other.to_string().as_bytes(), bytes, "a key has one text");
    }
    let refusal = ManifestFile::new(b"{".to_vec(), Some(bytes.to_vec())).under(&POLICY).expect_err("nothing is signed");
    assert_ne!(refusal.code(), ReasonCode::ReferenceMalformed, "it was parsed");
    // And as a manifest that is trusted as a local file.
    if let Ok(manifest) = ManifestFile::new(bytes.to_vec(), None).as_local_file() {
        assert!(manifest.check_follows(&manifest.revision()).is_ok());
    }
});

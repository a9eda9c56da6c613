//! What real machines of clouds have in their TPMs, from a store that is no part of the project. `LATCHKEY_ATTESTATION_KEYS` names a
//! directory with one for each authority, whose name begins with `azure` or `google`. In it are certificates (DER, or one of PEM) whose
//! names begin with `root`, `intermediate`, `key` (of attestation keys) and `endorsement` (of endorsement keys), and with `quote` what
//! go-tpm-tools calls an `attest.Attestation` (protobuf).

use std::path::PathBuf;
use std::{env, fs};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use latchkey_attestation::record::RecordedEvidence;
use latchkey_attestation::refusal::ReasonCode;
use latchkey_attestation::{AttesterIdentity, LockExpectation};
use latchkey_pem::PemSection;
use latchkey_tpm::wire::{HashAlg, KeyScheme, Public, PublicKey, attestation_key};
use serde_json::{Map, Value, json};

use crate::support::certificates::key_in;
use crate::support::{NOW, begin_code, booted, image_json, policy, policy_json, references};

/// The fields of a protobuf message: number, and the bytes or (empty bytes and) the value.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8], u64)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let (number, rest) = bytes.split_at(length);
        *bytes = rest;
        number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let (key, value) = (varint(&mut message), varint(&mut message));
        let (content, rest) = match key & 7 {
            0 => message.split_at(0),
            2 => message.split_at(usize::try_from(value).unwrap()),
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, content, value));
        message = rest;
    }
    found
}

fn field(message: &[u8], number: u64) -> &[u8] {
    fields(message).into_iter().find(|(found, ..)| *found == number).unwrap().1
}

/// An `attest.Attestation` as a recording: its quote of the SHA-256 bank, beside an endorsement key of somebody's, which no rule for
/// attestation keys asks for.
fn recording(attestation: &[u8]) -> Value {
    const SHA256: u64 = 0x000b;
    let (quote, pcrs) = fields(attestation)
        .into_iter()
        .filter(|(number, ..)| *number == 2)
        .map(|(_, quote, _)| (quote, field(quote, 3)))
        .find(|(_, pcrs)| fields(pcrs).iter().any(|(number, _, value)| (*number, *value) == (1, SHA256)))
        .unwrap();
    let pcrs: Map<_, _> = fields(pcrs)
        .into_iter()
        .filter(|(number, ..)| *number == 2)
        .map(|(_, pcr, _)| {
            let index = fields(pcr).into_iter().find(|(number, ..)| *number == 1).map_or(0, |(.., value)| value);
            (index.to_string(), json!(hex::encode(field(pcr, 2))))
        })
        .collect();
    let mut identity = serde_json::to_value(booted(1).identity()).unwrap();
    identity["ak_public"] = json!(STANDARD.encode(field(attestation, 1)));
    identity["ak_certificate"] = json!(STANDARD.encode(field(attestation, 6)));
    json!({
        "version": 1,
        "recorded_at": NOW,
        "recorded_by": "go-tpm-tools",
        "binding": "00".repeat(32),
        "identity": identity,
        "quote": STANDARD.encode(field(quote, 1)),
        "signature": STANDARD.encode(field(quote, 2)),
        "pcrs": pcrs,
    })
}

/// A directory of the store: an authority and what it certified.
struct Cloud {
    directory: PathBuf,
    name: String,
}

impl Cloud {
    fn all() -> Vec<Self> {
        let store = PathBuf::from(env::var_os("LATCHKEY_ATTESTATION_KEYS").expect("the store"));
        let directories = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = directories
            .map(|directory| Self { name: directory.file_name().unwrap().to_str().unwrap().to_owned(), directory })
            .collect();
        assert!(!all.is_empty(), "an empty store");
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The files whose names begin so: their bytes, DER where they are certificates.
    fn files(&self, beginning: &str) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(&self.directory).unwrap().map(Result::unwrap);
        let chosen = entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with(beginning));
        let bytes = chosen.map(|entry| fs::read(entry.path()).unwrap());
        bytes
            .map(|bytes| if PemSection::is_in(&bytes) { PemSection::all(&bytes).unwrap().remove(0).der } else { bytes })
            .collect()
    }

    /// As `docs/clouds.md` has it.
    fn policy(&self, purpose: &str) -> Value {
        let [roots, between] = ["root", "intermediate"]
            .map(|kind| self.files(kind).iter().map(|der| STANDARD.encode(der)).collect::<Vec<_>>());
        let rule = json!({"kind": "ak-chain", "roots": roots, "intermediates": between, "purpose": purpose});
        let mut json = policy_json(rule);
        json["ak_algorithms"] = json!(["rsassa-2048-sha256", "ecdsa-p256-sha256"]);
        json
    }

    fn purpose(&self) -> &'static str {
        if self.name.starts_with("azure") { "demanded" } else { "if-there" }
    }
}

/// What a policy makes of a certificate, shown with the key that it is about.
fn verdict(json: &Value, certificate: &[u8]) -> Option<ReasonCode> {
    let key = key_in(certificate);
    let scheme = match key {
        PublicKey::Rsa { .. } => KeyScheme::RsaSsa(HashAlg::Sha256),
        PublicKey::Ecc { .. } => KeyScheme::Ecdsa(HashAlg::Sha256),
    };
    let ak = Public { scheme, key, ..attestation_key() }.marshal();
    let identity = AttesterIdentity::new(booted(1).ek_public().marshal(), None, Vec::new(), ak).unwrap();
    begin_code(&policy(json), &identity.with_ak_certificate(certificate.to_vec()).unwrap())
}

#[test]
#[ignore = "needs a store of clouds' certificates: ./dev e2e attestation-keys"]
fn certificates_of_clouds_are_taken_as_the_documents_say_and_those_of_endorsement_keys_are_not() {
    for cloud in Cloud::all() {
        let (name, json) = (&cloud.name, cloud.policy(cloud.purpose()));
        assert_eq!(policy(&json).unusable_authorities(NOW).len(), 0, "{name}");
        let keys = cloud.files("key");
        assert!(!keys.is_empty(), "{name}");
        for certificate in keys {
            assert_eq!(verdict(&json, &certificate), None, "{name}");
            let demanded = verdict(&cloud.policy("demanded"), &certificate);
            let expected = (cloud.purpose() != "demanded").then_some(ReasonCode::AkCertificateNotForAk);
            assert_eq!(demanded, expected, "{name}");
            let mut altered = certificate.clone();
            *altered.last_mut().unwrap() ^= 1;
            assert_eq!(verdict(&json, &altered), Some(ReasonCode::AkCertificateBadSignature), "{name}");
        }
        for certificate in cloud.files("endorsement") {
            assert_eq!(verdict(&json, &certificate), Some(ReasonCode::AkCertificateNotForAk), "{name}");
        }
        println!("{name}: good");
    }
}

/// Certificate, key, signature and hierarchy are good: what is refused is that the quote is not of this session, as its 0 or 2 bytes
/// of a nonce are none of ours.
#[test]
#[ignore = "needs a store of clouds' certificates: ./dev e2e attestation-keys"]
fn quotes_of_googles_machines_are_taken_up_to_the_nonce() {
    let mut seen = 0;
    for cloud in Cloud::all() {
        for attestation in cloud.files("quote") {
            let policy = policy(&cloud.policy(cloud.purpose()));
            let references = references(&policy, &[image_json(1)]);
            let appraise = |recording: &Value| {
                let recording = RecordedEvidence::from_json(recording.to_string().as_bytes()).unwrap();
                recording.appraise_recorded(&policy, &references, LockExpectation::Any, NOW).unwrap_err()
            };
            let mut recording = recording(&attestation);
            let refused = appraise(&recording);
            assert_eq!(refused.code(), ReasonCode::QuoteBindingMismatch, "{refused}");
            let mut signature = STANDARD.decode(recording["signature"].as_str().unwrap()).unwrap();
            *signature.last_mut().unwrap() ^= 1;
            recording["signature"] = json!(STANDARD.encode(signature));
            assert_eq!(appraise(&recording).code(), ReasonCode::SignatureInvalid);
            seen += 1;
        }
    }
    assert!(seen > 0, "a store without quotes");
}

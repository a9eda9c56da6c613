//! What authorities of TPMs revoked: lists that are there, missing, old, or somebody else's.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::sync::Arc;

use crate::support::certificates::{Authority, authority, intermediate, issue_for, key_params};
use crate::support::{begin_code, booted, policy, policy_json};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::policy::TpmRevocations;
use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_attestation::{AttesterIdentity, Policy};
use rcgen::{
    CertificateRevocationListParams, ExtendedKeyUsagePurpose, KeyIdMethod, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};
use serde_json::{Value, json};

const EK_PURPOSE: &[u64] = &[2, 23, 133, 8, 1];
const AK_PURPOSE: &[u64] = &[2, 23, 133, 8, 3];
/// The serial numbers of the intermediate, and of the keys' certificates.
const ISSUER: u64 = 77;
const KEY: u64 = 78;

/// A list of `by` until `year`, in DER.
fn list_until(by: &Authority, serials: &[u64], year: i32) -> Vec<u8> {
    list_between(by, serials, 2025, year)
}

fn list_between(by: &Authority, serials: &[u64], from: i32, until: i32) -> Vec<u8> {
    let revoked = serials.iter().map(|serial| RevokedCertParams {
        serial_number: SerialNumber::from(*serial),
        revocation_time: date_time_ymd(2025, 1, 1),
        reason_code: None,
        invalidity_date: None,
    });
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(from, 1, 1),
        next_update: date_time_ymd(until, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: revoked.collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(by).unwrap().der().to_vec()
}

fn list(by: &Authority, serials: &[u64]) -> Vec<u8> {
    list_until(by, serials, 2030)
}

/// A root, an authority below it, and a TPM with certificates for both of its keys.
struct Site {
    root: Authority,
    issuer: Authority,
    tpm: FakeTpm,
}

impl Site {
    fn new() -> Self {
        let root = authority("root");
        let issuer = intermediate("issuer", &root, |params| {
            params.serial_number = Some(SerialNumber::from(ISSUER));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        });
        Self { root, issuer, tpm: booted(1) }
    }

    fn identity(&self) -> AttesterIdentity {
        let issue = |key, purpose: &[u64]| {
            let mut params = key_params(&[ExtendedKeyUsagePurpose::Other(purpose.to_vec())]);
            params.serial_number = Some(SerialNumber::from(KEY));
            issue_for(key, &self.issuer, params)
        };
        let (ek, ak) = (self.tpm.ek_public(), self.tpm.ak_public());
        let certificate = Some(issue(ek, EK_PURPOSE));
        let identity = AttesterIdentity::new(ek.marshal(), certificate, Vec::new(), ak.marshal()).unwrap();
        identity.with_ak_certificate(issue(ak, AK_PURPOSE)).unwrap()
    }

    fn policy(&self, kind: &str, word: Option<&str>) -> Policy {
        let mut rule = json!({"kind": kind, "roots": [self.root.pem()], "intermediates": [self.issuer.pem()]});
        if kind == "ak-chain" {
            rule["purpose"] = json!("demanded");
        }
        if let Some(word) = word {
            rule["revocation_list"] = json!(word);
        }
        policy(&policy_json(rule))
    }

    fn verdict(&self, kind: &str, word: Option<&str>, lists: &[Vec<u8>]) -> Option<ReasonCode> {
        let policy = self.policy(kind, word).knowing(Arc::new(read(lists).unwrap()));
        begin_code(&policy, &self.identity())
    }
}

fn read(lists: &[Vec<u8>]) -> Result<TpmRevocations, Refusal> {
    let files: Vec<_> = lists.iter().map(|list| ("a list", list.as_slice())).collect();
    TpmRevocations::new(&files)
}

const KINDS: [(&str, ReasonCode); 2] =
    [("ek-chain", ReasonCode::EkCertificateRevoked), ("ak-chain", ReasonCode::AkCertificateRevoked)];

#[test]
fn a_key_or_an_authority_that_is_on_a_list_is_refused() {
    let site = Site::new();
    for (kind, revoked) in KINDS {
        let verdict = |lists: &[Vec<u8>]| site.verdict(kind, None, lists);
        assert_eq!(verdict(&[]), None);
        assert_eq!(verdict(&[list(&site.issuer, &[KEY])]), Some(revoked), "{kind}: the key");
        assert_eq!(verdict(&[list(&site.root, &[ISSUER])]), Some(revoked), "{kind}: the authority");
        assert_eq!(verdict(&[list(&site.root, &[KEY]), list(&site.issuer, &[ISSUER])]), None, "each of its own");
    }
}

#[test]
fn lists_are_demanded_of_every_authority_of_the_chain_or_count_where_they_are() {
    let site = Site::new();
    let (of_root, of_issuer) = (list(&site.root, &[]), list(&site.issuer, &[]));
    for (kind, _) in KINDS {
        let demanded = |lists: &[Vec<u8>]| site.verdict(kind, Some("demanded"), lists);
        let missing = Some(ReasonCode::TpmRevocationListMissing);
        let of_another = list(&authority("another's"), &[]);
        for lists in [vec![], vec![of_root.clone()], vec![of_issuer.clone()], vec![of_another]] {
            assert_eq!(demanded(&lists), missing);
            assert_eq!(site.verdict(kind, Some("if-there"), &lists), None);
        }
        assert_eq!(demanded(&[of_root.clone(), of_issuer.clone()]), None);
        assert_eq!(begin_code(&site.policy(kind, Some("demanded")), &site.identity()), missing, "nobody gave lists");
    }
}

/// Where a list is not demanded, one that ended says that somebody meant to have one.
#[test]
fn a_list_that_ended_or_that_another_key_signed_says_nothing_good() {
    let site = Site::new();
    let forger = intermediate("issuer", &site.root, |params| params.key_usages = vec![KeyUsagePurpose::CrlSign]);
    for (kind, _) in KINDS {
        for word in [None, Some("if-there"), Some("demanded")] {
            let verdict = |of_issuer| site.verdict(kind, word, &[list(&site.root, &[]), of_issuer]);
            let old = list_until(&site.issuer, &[], 2026 + 1);
            assert_eq!(verdict(old.clone()), None, "not yet");
            let ended = list_until(&site.issuer, &[KEY], 2026);
            assert_eq!(verdict(ended), Some(ReasonCode::TpmRevocationListExpired));
            assert_eq!(verdict(list(&forger, &[])), Some(ReasonCode::TpmRevocationListInvalid));
        }
    }
}

#[test]
fn what_is_no_list_or_two_of_one_authority_is_refused_by_name() {
    let site = Site::new();
    let code = |lists: &[Vec<u8>]| read(lists).map(|lists| lists.count()).map_err(|refusal| refusal.code());
    let malformed = Err(ReasonCode::CollateralMalformed);
    let (good, of_root) = (list(&site.issuer, &[KEY]), list(&site.root, &[]));
    assert_eq!(code(&[good.clone(), of_root.clone()]), Ok(2));
    assert_eq!(code(&[good.clone(), list(&site.issuer, &[])]), malformed, "which one counts?");
    assert_eq!(code(&[Vec::new()]), malformed);
    assert_eq!(code(&[b"fetched on Monday".to_vec()]), malformed);
    assert_eq!(code(&[site.root.pem().into_bytes()]), malformed, "a certificate");
    assert_eq!(code(&[vec![0x30; 1024 * 1024 + 1]]), malformed);
    let mut cut = good.clone();
    cut.pop();
    assert_eq!(code(&[cut]), malformed);
    let pem = |der: &[u8]| {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN X509 CRL-----\n{text}\n-----END X509 CRL-----\n")
    };
    assert_eq!(code(&[format!("{}{}", pem(&good), pem(&of_root)).into_bytes()]), Ok(2), "a bundle");
}

#[test]
fn the_word_is_one_of_two() {
    let site = Site::new();
    for kind in ["ek-chain", "ak-chain"] {
        let mut rule: Value = json!({"kind": kind, "roots": [site.root.pem()], "revocation_list": "never"});
        if kind == "ak-chain" {
            rule["purpose"] = json!("demanded");
        }
        let refused = Policy::from_json(policy_json(rule).to_string().as_bytes()).unwrap_err();
        assert_eq!(refused.code(), ReasonCode::PolicyMalformed);
    }
}

#[test]
fn lists_that_are_gone_or_of_before_are_told_from_newer_ones() {
    let site = Site::new();
    let both = |of_root: i32| {
        read(&[list_between(&site.root, &[], of_root, 2030), list_between(&site.issuer, &[], 2025, 2030)]).unwrap()
    };
    let before = both(2025);
    assert_eq!(both(2025).first_lost(&before), None);
    assert_eq!(both(2026).first_lost(&before), None);
    assert!(both(2024).first_lost(&before).unwrap().contains("older than that of 2025-01-01"));
    // As many lists, and one of another authority.
    let stranger = authority("stranger");
    let other = read(&[list(&stranger, &[]), list(&site.issuer, &[])]).unwrap();
    assert!(other.first_lost(&before).unwrap().ends_with("is gone"));
    assert_eq!(before.first_lost(&TpmRevocations::default()), None);
}

//! Attacks on endorsement keys and their certificates. The authority is made here; `swtpm.rs` has certificates that
//! swtpm's own authority issues.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use crate::support::certificates::{Authority, authority, intermediate, issue_for, key_params};
use crate::support::{NOW, begin_code, booted, pinned, policy, policy_json};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::refusal::ReasonCode;
use latchkey_attestation::{Appraisal, AttesterIdentity, EkDigest, EkTrust, Policy};
use latchkey_tpm::wire::{Attributes, Curve, EccPoint, Public, PublicKey};
use rcgen::{BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, date_time_ymd};
use ring::rand::SystemRandom;
use serde_json::json;

/// TCG EK Credential Profile, section 3.2.16: tcg-kp-EKCertificate.
const EK_PURPOSE: &[u64] = &[2, 23, 133, 8, 1];
/// A SAN with only a directoryName: the TPM's manufacturer, model and version, as swtpm writes it (profile, 3.2.9).
fn tpm_alternative_name() -> Vec<u8> {
    let attribute = |last: u8, value: &[u8]| {
        let oid = der(0x06, &[0x67, 0x81, 0x05, 0x02, last]);
        der(0x31, &der(0x30, &[oid, der(0x0c, value)].concat()))
    };
    let name = [attribute(1, b"id:00001014"), attribute(2, b"swtpm"), attribute(3, b"id:20191023")].concat();
    der(0x30, &der(0xa4, &der(0x30, &name)))
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
}

/// A certificate for this TPM's EK.
fn issue(tpm: &FakeTpm, issuer: &Authority, tweak: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let mut params = key_params(&[ExtendedKeyUsagePurpose::Other(EK_PURPOSE.to_vec())]);
    tweak(&mut params);
    issue_for(tpm.ek_public(), issuer, params)
}

fn chain_policy(root: &Authority, intermediates: &[&Authority]) -> Policy {
    let intermediates: Vec<String> = intermediates.iter().map(|ca| ca.pem()).collect();
    policy(&policy_json(json!({"kind": "ek-chain", "roots": [root.pem()], "intermediates": intermediates})))
}

fn identity(tpm: &FakeTpm, certificate: Vec<u8>, intermediates: &[&Authority]) -> AttesterIdentity {
    let intermediates = intermediates.iter().map(|ca| ca.der().to_vec()).collect();
    let (ek, ak) = (tpm.ek_public().marshal(), tpm.ak_public().marshal());
    AttesterIdentity::new(ek, Some(certificate), intermediates, ak).unwrap()
}

/// The verdict on a certificate issued by a root of the policy.
fn verdict(tweak: impl FnOnce(&mut CertificateParams)) -> Option<ReasonCode> {
    let (tpm, root) = (booted(1), authority("root"));
    let certificate = issue(&tpm, &root, tweak);
    begin_code(&chain_policy(&root, &[]), &identity(&tpm, certificate, &[]))
}

#[test]
fn a_certificate_of_a_listed_root_is_trusted_until_the_year_9999() {
    assert_eq!(verdict(|_| ()), None);
}

#[test]
fn a_critical_alternative_name_with_only_a_directory_name_is_accepted() {
    let mut san = CustomExtension::from_oid_content(&[2, 5, 29, 17], tpm_alternative_name());
    san.set_criticality(true);
    assert_eq!(verdict(|params| params.custom_extensions.push(san)), None);
}

#[test]
fn the_verdict_names_the_root_it_rests_on() {
    let (tpm, root) = (booted(1), authority("root"));
    let policy = chain_policy(&root, &[]);
    let identity = identity(&tpm, issue(&tpm, &root, |_| ()), &[]);
    let (challenge, pending) = Appraisal::begin(&policy, &identity, NOW, &SystemRandom::new()).unwrap();
    let evidence = tpm.evidence(&challenge, &support::BINDING).unwrap();
    let verified = pending.confirm(evidence.activated_secret()).unwrap().verify(&evidence, &support::BINDING).unwrap();
    let EkTrust::EkChain { root_sha256 } = verified.trust() else { panic!("trusted by chain") };
    assert_eq!(root_sha256.as_bytes(), ring::digest::digest(&ring::digest::SHA256, root.der()).as_ref());
}

#[test]
fn intermediates_may_come_from_the_peer_or_the_policy() {
    let (tpm, root) = (booted(1), authority("root"));
    let between = intermediate("between", &root, |_| ());
    let certificate = issue(&tpm, &between, |_| ());
    let sent = identity(&tpm, certificate.clone(), &[&between]);
    assert_eq!(begin_code(&chain_policy(&root, &[]), &sent), None);
    let not_sent = identity(&tpm, certificate, &[]);
    assert_eq!(begin_code(&chain_policy(&root, &[&between]), &not_sent), None);
    assert_eq!(begin_code(&chain_policy(&root, &[]), &not_sent), Some(ReasonCode::EkCertificateUntrusted));
}

#[test]
fn a_certificate_of_a_strangers_root_is_refused_even_if_the_peer_sends_that_root() {
    let (tpm, root, stranger) = (booted(1), authority("root"), authority("stranger"));
    let identity = identity(&tpm, issue(&tpm, &stranger, |_| ()), &[&stranger]);
    assert_eq!(begin_code(&chain_policy(&root, &[]), &identity), Some(ReasonCode::EkCertificateUntrusted));
}

#[test]
fn a_root_of_the_same_name_with_another_key_is_refused() {
    let (tpm, root, namesake) = (booted(1), authority("root"), authority("root"));
    let identity = identity(&tpm, issue(&tpm, &namesake, |_| ()), &[]);
    assert_eq!(begin_code(&chain_policy(&root, &[]), &identity), Some(ReasonCode::EkCertificateBadSignature));
}

#[test]
fn ek_certificate_of_another_tpm_is_refused() {
    let (tpm, other, root) = (booted(1), booted(1), authority("root"));
    let identity = identity(&tpm, issue(&other, &root, |_| ()), &[]);
    assert_eq!(begin_code(&chain_policy(&root, &[]), &identity), Some(ReasonCode::EkCertificateOfAnotherTpm));
}

#[test]
fn a_missing_certificate_is_refused() {
    let (tpm, root) = (booted(1), authority("root"));
    assert_eq!(begin_code(&chain_policy(&root, &[]), &tpm.identity()), Some(ReasonCode::EkCertificateMissing));
}

#[test]
fn an_expired_certificate_is_refused() {
    assert_eq!(verdict(|params| params.not_after = date_time_ymd(2026, 1, 1)), Some(ReasonCode::EkCertificateExpired));
}

#[test]
fn a_certificate_from_the_future_is_refused() {
    let verdict = verdict(|params| params.not_before = date_time_ymd(2999, 1, 1));
    assert_eq!(verdict, Some(ReasonCode::EkCertificateNotYetValid));
}

#[test]
fn a_certificate_not_for_endorsement_keys_is_refused() {
    for usages in [vec![], vec![ExtendedKeyUsagePurpose::ServerAuth], vec![ExtendedKeyUsagePurpose::Any]] {
        let verdict = verdict(|params| params.extended_key_usages = usages);
        assert_eq!(verdict, Some(ReasonCode::EkCertificateNotForEk));
    }
}

#[test]
fn an_authority_used_as_endorsement_key_is_refused() {
    let verdict = verdict(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    assert_eq!(verdict, Some(ReasonCode::EkCertificateChainInvalid));
}

#[test]
fn an_unknown_critical_extension_is_refused() {
    let mut strange = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![0x05, 0x00]);
    strange.set_criticality(true);
    let verdict = verdict(|params| params.custom_extensions.push(strange));
    assert_eq!(verdict, Some(ReasonCode::EkCertificateChainInvalid));
}

#[test]
fn an_endorsement_certificate_cannot_issue_others() {
    let (tpm, root) = (booted(1), authority("root"));
    let forger = intermediate("forger", &root, |params| params.is_ca = IsCa::ExplicitNoCa);
    let identity = identity(&tpm, issue(&tpm, &forger, |_| ()), &[&forger]);
    assert_eq!(begin_code(&chain_policy(&root, &[]), &identity), Some(ReasonCode::EkCertificateChainInvalid));
}

#[test]
fn an_expired_intermediate_is_refused() {
    let (tpm, root) = (booted(1), authority("root"));
    let expired = intermediate("between", &root, |params| params.not_after = date_time_ymd(2026, 1, 1));
    let identity = identity(&tpm, issue(&tpm, &expired, |_| ()), &[&expired]);
    assert_eq!(begin_code(&chain_policy(&root, &[]), &identity), Some(ReasonCode::EkCertificateExpired));
}

#[test]
fn malformed_certificates_are_refused() {
    let (tpm, root) = (booted(1), authority("root"));
    let good = issue(&tpm, &root, |_| ());
    let policy = chain_policy(&root, &[]);
    let truncated = good[..good.len() - 1].to_vec();
    let longer = [&good[..], &[0]].concat();
    for bad in [vec![], vec![0x30], truncated, longer, vec![0x30; 4096]] {
        assert_eq!(begin_code(&policy, &identity(&tpm, bad, &[])), Some(ReasonCode::EkCertificateMalformed));
    }
}

#[test]
fn flipping_any_bit_of_the_certificate_is_refused() {
    let (tpm, root) = (booted(1), authority("root"));
    let good = issue(&tpm, &root, |_| ());
    let policy = chain_policy(&root, &[]);
    assert_eq!(begin_code(&policy, &identity(&tpm, good.clone(), &[])), None);
    for bit in 0..good.len() * 8 {
        let mut flipped = good.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(begin_code(&policy, &identity(&tpm, flipped, &[])).is_some(), "bit {bit}");
    }
}

#[test]
fn flipping_any_bit_of_the_public_areas_is_refused() {
    let tpm = booted(1);
    let policy = support::policy_for(&tpm);
    let (ek, ak) = (tpm.ek_public().marshal(), tpm.ak_public().marshal());
    for bit in 0..(ek.len() + ak.len()) * 8 {
        let mut both = [&ek[..], &ak[..]].concat();
        both[bit / 8] ^= 1 << (bit % 8);
        let (ek, ak) = both.split_at(ek.len());
        let identity = AttesterIdentity::new(ek.to_vec(), None, Vec::new(), ak.to_vec()).unwrap();
        // Where the keys still look like keys, the TPM does not open a credential made for other ones.
        if let Ok((challenge, _)) = Appraisal::begin(&policy, &identity, NOW, &SystemRandom::new()) {
            assert!(tpm.activate(challenge.credential()).is_none(), "bit {bit}");
        }
    }
}

#[test]
fn an_unpinned_endorsement_key_is_refused() {
    let (tpm, other) = (booted(1), booted(1));
    assert_eq!(begin_code(&support::policy_for(&other), &tpm.identity()), Some(ReasonCode::EkNotPinned));
}

#[test]
fn a_denied_endorsement_key_is_refused_although_pinned() {
    let tpm = booted(1);
    let digest = support::digest_of(&tpm);
    let mut json = policy_json(pinned(&[digest]));
    json["denied_ek_sha256"] = json!([digest]);
    assert_eq!(begin_code(&policy(&json), &tpm.identity()), Some(ReasonCode::EkDenied));
}

#[test]
fn any_of_the_policys_rules_is_enough() {
    let (pinned_tpm, certified, neither, root) = (booted(1), booted(1), booted(1), authority("root"));
    let mut json = policy_json(pinned(&[support::digest_of(&pinned_tpm)]));
    json["ak_trust"].as_array_mut().unwrap().push(json!({"kind": "ek-chain", "roots": [root.pem()]}));
    let policy = policy(&json);
    assert_eq!(begin_code(&policy, &pinned_tpm.identity()), None);
    assert_eq!(begin_code(&policy, &identity(&certified, issue(&certified, &root, |_| ()), &[])), None);
    assert_eq!(begin_code(&policy, &neither.identity()), Some(ReasonCode::EkCertificateMissing));
}

/// Attack 24: a vendor whose firmware TPMs give their keys away is dropped, root and all.
#[test]
fn a_dropped_root_shuts_its_tpms_out() {
    let (one, two, broken, sound) = (booted(1), booted(1), authority("broken"), authority("sound"));
    let of_broken = identity(&one, issue(&one, &broken, |_| ()), &[]);
    let of_sound = identity(&two, issue(&two, &sound, |_| ()), &[]);
    let rule = |root: &Authority| json!({"kind": "ek-chain", "roots": [root.pem()]});
    let mut json = policy_json(rule(&broken));
    json["ak_trust"].as_array_mut().unwrap().push(rule(&sound));
    let both = policy(&json);
    assert_eq!([&of_broken, &of_sound].map(|identity| begin_code(&both, identity)), [None, None]);
    let dropped = policy(&policy_json(rule(&sound)));
    assert_eq!(begin_code(&dropped, &of_broken), Some(ReasonCode::EkCertificateUntrusted));
    assert_eq!(begin_code(&dropped, &of_sound), None);
}

#[test]
fn a_key_of_no_tcg_template_is_refused_as_endorsement_key() {
    let tpm = booted(1);
    let ek = tpm.ek_public();
    let free = Attributes::from_bits(ek.attributes.bits() & !Attributes::RESTRICTED.bits()).unwrap();
    let other_policy = vec![0; 32];
    for public in [
        Public { attributes: free, ..ek.clone() },
        Public { attributes: ek.attributes | Attributes::USER_WITH_AUTH, ..ek.clone() },
        Public { auth_policy: other_policy, ..ek.clone() },
        tpm.ak_public().clone(),
    ] {
        let refusal = EkDigest::of_public_area(&public.marshal()).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::EkTemplateUnknown);
    }
}

#[test]
fn an_endorsement_key_off_its_curve_is_refused() {
    let tpm = booted(1);
    let PublicKey::Ecc { curve, point } = tpm.ek_public().key.clone() else { panic!("an ECC key") };
    let off = EccPoint { y: point.x.clone(), ..point };
    let ek = Public { key: PublicKey::Ecc { curve, point: off }, ..tpm.ek_public().clone() }.marshal();
    let policy = policy(&policy_json(pinned(&[EkDigest::of_public_area(&ek).unwrap()])));
    let identity = AttesterIdentity::new(ek, None, Vec::new(), tpm.ak_public().marshal()).unwrap();
    assert_eq!(begin_code(&policy, &identity), Some(ReasonCode::EkKeyInvalid));
}

#[test]
fn one_tpm_has_one_identity_however_it_pads_its_coordinates() {
    let tpm = booted(1);
    let with_x = |x: Vec<u8>| {
        let key = PublicKey::Ecc { curve: Curve::P256, point: EccPoint { x, y: vec![7; 32] } };
        Public { key, ..tpm.ek_public().clone() }.marshal()
    };
    let padded = with_x([&[0, 0][..], &[9; 30]].concat());
    let stripped = with_x(vec![9; 30]);
    assert_eq!(EkDigest::of_public_area(&padded).unwrap(), EkDigest::of_public_area(&stripped).unwrap());
}

#[test]
fn identities_that_exceed_a_bound_are_refused_before_decoding() {
    let big = "A".repeat(8 * 1024);
    let certificate = format!(r#"{{"ek_public":"AAAA","ak_public":"AAAA","ek_certificate":"{big}"}}"#);
    let many =
        format!(r#"{{"ek_public":"AAAA","ak_public":"AAAA","ek_intermediates":[{}]}}"#, ["\"AAAA\""; 5].join(","));
    let unknown = r#"{"ek_public":"AAAA","ak_public":"AAAA","evidence_type":"none"}"#.to_owned();
    let spelled_twice = r#"{"ek_public":"AAAA","ak_public":"AAB="}"#.to_owned();
    for json in [certificate, many, unknown, spelled_twice, "x".repeat(70_000), "[]".into(), String::new()] {
        let refusal = AttesterIdentity::from_json(json.as_bytes()).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::IdentityMalformed, "{json:.80}");
    }
    assert!(AttesterIdentity::new(vec![0; 1025], None, vec![], vec![]).is_err());
    assert!(AttesterIdentity::new(vec![], Some(vec![0; 4097]), vec![], vec![]).is_err());
    assert!(AttesterIdentity::new(vec![], None, vec![vec![]; 5], vec![]).is_err());
}

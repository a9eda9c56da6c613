//! Attestation keys that a cloud certified: whose word is taken, and by which key a TPM is known then.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::certificates::{Authority, authority, intermediate, issue_for, key_params};
use crate::support::{
    BINDING, NOW, begin_code, booted, digest_of, image_json, pinned, policy, policy_json, references,
};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::record::RecordedEvidence;
use latchkey_attestation::refusal::ReasonCode;
use latchkey_attestation::{Appraisal, AttesterIdentity, EkDigest, EkTrust, LockExpectation, Policy};
use rcgen::{CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, KeyUsagePurpose, date_time_ymd};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

/// TCG registry: tcg-kp-EKCertificate, tcg-kp-AIKCertificate.
const EK_PURPOSE: &[u64] = &[2, 23, 133, 8, 1];
const AK_PURPOSE: &[u64] = &[2, 23, 133, 8, 3];

fn purposes(oids: &[&[u64]]) -> Vec<ExtendedKeyUsagePurpose> {
    oids.iter().map(|oid| ExtendedKeyUsagePurpose::Other(oid.to_vec())).collect()
}

fn rule(root: &Authority, intermediates: &[&Authority], purpose: &str) -> Value {
    let intermediates: Vec<String> = intermediates.iter().map(|ca| ca.pem()).collect();
    json!({"kind": "ak-chain", "roots": [root.pem()], "intermediates": intermediates, "purpose": purpose})
}

fn ak_policy(root: &Authority, purpose: &str) -> Policy {
    policy(&policy_json(rule(root, &[], purpose)))
}

fn certified(tpm: &FakeTpm, certificate: Vec<u8>) -> AttesterIdentity {
    tpm.identity().with_ak_certificate(certificate).unwrap()
}

fn issue(tpm: &FakeTpm, issuer: &Authority, tweak: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let mut params = key_params(&purposes(&[AK_PURPOSE]));
    tweak(&mut params);
    issue_for(tpm.ak_public(), issuer, params)
}

/// The verdict on a certificate issued by a root of the policy, whose rule says `purpose`.
fn verdict(purpose: &str, tweak: impl FnOnce(&mut CertificateParams)) -> Option<ReasonCode> {
    let (tpm, root) = (booted(1), authority("root"));
    let certificate = issue(&tpm, &root, tweak);
    begin_code(&ak_policy(&root, purpose), &certified(&tpm, certificate))
}

fn ak_digest(tpm: &FakeTpm) -> String {
    hex::encode(ring::digest::digest(&ring::digest::SHA256, &tpm.ak_public().marshal()))
}

/// A TPM whose endorsement key a rule trusts too could leave its certificate out, and be another machine.
#[test]
fn a_policy_knows_machines_by_keys_of_one_kind() {
    let root = authority("root");
    let mut both = policy_json(rule(&root, &[], "demanded"));
    for other in [
        json!({"kind": "pinned-ek", "ek_sha256": ["ab".repeat(32)]}),
        json!({"kind": "ek-chain", "roots": [root.pem()]}),
    ] {
        both["ak_trust"] = json!([rule(&root, &[], "demanded"), other]);
        let refusal = Policy::from_json(both.to_string().as_bytes()).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::PolicyMalformed);
        assert!(refusal.detail().contains("take one kind of rule"), "{refusal}");
    }
    both["ak_trust"] = json!([rule(&root, &[], "demanded"), rule(&authority("another"), &[], "if-there")]);
    policy(&both);
}

#[test]
fn a_certified_key_is_admitted_beside_an_endorsement_key_that_nobody_certified() {
    let (tpm, root) = (booted(1), authority("root"));
    let policy = ak_policy(&root, "demanded");
    let identity = certified(&tpm, issue(&tpm, &root, |_| ()));
    let (challenge, pending) = Appraisal::begin(&policy, &identity, NOW, &SystemRandom::new()).unwrap();
    let evidence = tpm.evidence(&challenge, &BINDING).unwrap();
    let verified = pending.confirm(evidence.activated_secret()).unwrap().verify(&evidence, &BINDING).unwrap();
    let references = references(&policy, &[image_json(1)]);
    let admission = policy.validate(&verified, &references, LockExpectation::Unlocked, NOW).unwrap();
    assert!(matches!(admission.trust(), EkTrust::AkChain { .. }));
    assert_eq!(admission.ek_digest().to_string(), ak_digest(&tpm), "known by the key that is certified");
    assert_ne!(admission.ek_digest(), digest_of(&tpm));
    let recording = RecordedEvidence::new(&identity, &evidence, &verified, "tests", NOW).unwrap();
    let read = RecordedEvidence::from_json(recording.to_json().as_bytes()).unwrap();
    let finding = read.appraise_recorded(&policy, &references, LockExpectation::Unlocked, NOW).unwrap();
    assert_eq!(finding.claimed_ek_sha256, admission.ek_digest());
}

/// Nothing vouches for an endorsement key that is not certified: a program could have made it. So who has one certified
/// attestation key is one machine, whatever endorsement keys they show beside it, and a denial of it counts for all of them.
#[test]
fn one_certified_key_is_one_machine_whatever_endorsement_key_it_is_shown_with() {
    let (tpm, root) = (booted(1), authority("root"));
    let certificate = issue(&tpm, &root, |_| ());
    let (first, tpm) = (tpm.identity(), tpm.with_another_ek());
    assert_ne!(first.ek_public(), tpm.identity().ek_public());
    let policy_of = |denied: &[String]| {
        let mut json = policy_json(rule(&root, &[], "demanded"));
        json["denied_ek_sha256"] = json!(denied);
        policy(&json)
    };
    let identities = [first, tpm.identity()].map(|identity| identity.with_ak_certificate(certificate.clone()).unwrap());
    for identity in &identities {
        let (_, pending) = Appraisal::begin(&policy_of(&[]), identity, NOW, &SystemRandom::new()).unwrap();
        assert_eq!(pending.claimed_ek().to_string(), ak_digest(&tpm));
        assert_eq!(begin_code(&policy_of(&[ak_digest(&tpm)]), identity), Some(ReasonCode::EkDenied));
    }
}

/// The endorsement key may be anybody's, but it has to be shown: its digest in the list of the denied still counts.
#[test]
fn a_denied_endorsement_key_is_not_let_in_by_a_certified_attestation_key() {
    let (tpm, root) = (booted(1), authority("root"));
    let mut json = policy_json(rule(&root, &[], "demanded"));
    json["denied_ek_sha256"] = json!([digest_of(&tpm)]);
    let identity = certified(&tpm, issue(&tpm, &root, |_| ()));
    assert_eq!(begin_code(&policy(&json), &identity), Some(ReasonCode::EkDenied));
}

#[test]
fn which_rule_holds_says_by_which_key_a_tpm_is_known() {
    let (tpm, root) = (booted(1), authority("root"));
    let (pinned_alone, certified_alone) =
        (policy_json(pinned(&[digest_of(&tpm)])), policy_json(rule(&root, &[], "demanded")));
    let identity = certified(&tpm, issue(&tpm, &root, |_| ()));
    let claimed = |json: &Value| {
        let (_, pending) = Appraisal::begin(&policy(json), &identity, NOW, &SystemRandom::new()).unwrap();
        pending.claimed_ek()
    };
    assert_eq!(claimed(&pinned_alone), digest_of(&tpm));
    assert_eq!(claimed(&certified_alone), EkDigest::from_hex(&ak_digest(&tpm)).unwrap());
}

#[test]
fn without_a_certificate_or_with_that_of_another_key_there_is_no_trust() {
    let (tpm, other, root) = (booted(1), booted(1), authority("root"));
    let policy = ak_policy(&root, "if-there");
    assert_eq!(begin_code(&policy, &tpm.identity()), Some(ReasonCode::AkCertificateMissing));
    let swapped = certified(&tpm, issue(&other, &root, |_| ()));
    assert_eq!(begin_code(&policy, &swapped), Some(ReasonCode::AkCertificateOfAnotherKey));
    let for_ek = certified(&tpm, issue_for(tpm.ek_public(), &root, key_params(&purposes(&[AK_PURPOSE]))));
    assert_eq!(begin_code(&policy, &for_ek), Some(ReasonCode::AkCertificateOfAnotherKey));
    let (ek, ak) = (tpm.ek_public().marshal(), tpm.ak_public().marshal());
    let in_the_wrong_place = AttesterIdentity::new(ek, Some(issue(&tpm, &root, |_| ())), Vec::new(), ak).unwrap();
    assert_eq!(begin_code(&policy, &in_the_wrong_place), Some(ReasonCode::AkCertificateMissing));
    assert_eq!(begin_code(&policy, &certified(&tpm, vec![0x30, 0x82])), Some(ReasonCode::AkCertificateMalformed));
    assert_eq!(begin_code(&policy, &certified(&tpm, issue(&tpm, &root, |_| ()))), None);
}

#[test]
fn the_certificate_must_hold_now() {
    let earlier = |params: &mut CertificateParams| params.not_after = date_time_ymd(2026, 1, 1);
    assert_eq!(verdict("demanded", earlier), Some(ReasonCode::AkCertificateExpired));
    let later = |params: &mut CertificateParams| params.not_before = date_time_ymd(2030, 1, 1);
    assert_eq!(verdict("demanded", later), Some(ReasonCode::AkCertificateNotYetValid));
    let unknown_and_critical = |params: &mut CertificateParams| {
        let mut unknown = CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0]);
        unknown.set_criticality(true);
        params.custom_extensions.push(unknown);
    };
    assert_eq!(verdict("demanded", unknown_and_critical), Some(ReasonCode::AkCertificateChainInvalid));
}

/// Azure's certificates say that they are an attestation key's. Another purpose than a key's of a TPM is never taken.
#[test]
fn a_purpose_is_demanded_or_taken_as_it_is_there() {
    let none = |params: &mut CertificateParams| params.extended_key_usages.clear();
    let ek = |params: &mut CertificateParams| params.extended_key_usages = purposes(&[EK_PURPOSE]);
    let both = |params: &mut CertificateParams| params.extended_key_usages = purposes(&[&[1, 2, 3], AK_PURPOSE]);
    assert_eq!(verdict("demanded", none), Some(ReasonCode::AkCertificateNotForAk));
    assert_eq!(verdict("if-there", none), None);
    for purpose in ["demanded", "if-there"] {
        assert_eq!(verdict(purpose, ek), Some(ReasonCode::AkCertificateNotForAk));
        assert_eq!(verdict(purpose, both), None);
    }
}

/// Google's certificates of 2021 say that they are an endorsement key's, of a key that signs and does nothing else; those of today of
/// endorsement keys say nothing, of a key that deciphers.
#[test]
fn a_key_that_signs_alone_is_no_endorsement_key_and_any_other_is_no_attestation_key() {
    use KeyUsagePurpose::{DigitalSignature, KeyAgreement, KeyEncipherment};
    let of = |purpose: &[&[u64]], usages: &[KeyUsagePurpose]| {
        let (purposes, usages) = (purposes(purpose), usages.to_vec());
        move |params: &mut CertificateParams| {
            (params.extended_key_usages, params.key_usages) = (purposes, usages);
        }
    };
    let signs = [DigitalSignature];
    let not_for_ak = Some(ReasonCode::AkCertificateNotForAk);
    for taken in [&[EK_PURPOSE][..], &[AK_PURPOSE], &[]] {
        assert_eq!(verdict("if-there", of(taken, &signs)), None, "{taken:?}");
    }
    assert_eq!(verdict("demanded", of(&[AK_PURPOSE], &signs)), None);
    assert_eq!(verdict("demanded", of(&[EK_PURPOSE], &signs)), not_for_ak);
    assert_eq!(verdict("if-there", of(&[EK_PURPOSE], &[])), not_for_ak);
    assert_eq!(verdict("if-there", of(&[&[1, 3, 6, 1, 5, 5, 7, 3, 3]], &signs)), not_for_ak);
    let an_endorsement_keys: [&[_]; 4] =
        [&[KeyEncipherment], &[KeyAgreement], &[DigitalSignature, KeyEncipherment], &[DigitalSignature, KeyAgreement]];
    for usages in an_endorsement_keys {
        for purpose in [&[EK_PURPOSE][..], &[AK_PURPOSE], &[]] {
            assert_eq!(verdict("if-there", of(purpose, usages)), not_for_ak, "{purpose:?} {usages:?}");
        }
        assert_eq!(verdict("demanded", of(&[AK_PURPOSE], usages)), not_for_ak, "{usages:?}");
    }
}

#[test]
fn the_chain_must_lead_to_a_root_of_the_rule_by_intermediates_of_the_rule() {
    let (tpm, root, stranger) = (booted(1), authority("root"), authority("stranger"));
    // As Google's authority for both kinds of keys calls itself.
    let issuer = intermediate("issuer", &root, |params| params.extended_key_usages = purposes(&[EK_PURPOSE]));
    let code = |root: &Authority, intermediates: &[&Authority], certificate: &[u8]| {
        let policy = policy(&policy_json(rule(root, intermediates, "demanded")));
        begin_code(&policy, &certified(&tpm, certificate.to_vec()))
    };
    let certificate = issue(&tpm, &issuer, |_| ());
    assert_eq!(code(&root, &[&issuer], &certificate), None);
    assert_eq!(code(&root, &[], &certificate), Some(ReasonCode::AkCertificateUntrusted));
    assert_eq!(code(&stranger, &[&issuer], &certificate), Some(ReasonCode::AkCertificateUntrusted));
    let namesake = authority("root");
    assert_eq!(code(&namesake, &[&issuer], &certificate), Some(ReasonCode::AkCertificateBadSignature));
    let web = intermediate("web", &root, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let for_web = issue(&tpm, &web, |_| ());
    assert_eq!(code(&root, &[&web], &for_web), Some(ReasonCode::AkCertificateNotForAk));
    let mut altered = certificate.clone();
    *altered.last_mut().unwrap() ^= 1;
    let altered = code(&root, &[&issuer], &altered);
    assert!(matches!(altered, Some(ReasonCode::AkCertificateBadSignature)), "{altered:?}");
}

/// A certificate sent along with the endorsement key's is no part of this chain.
#[test]
fn an_attester_brings_no_intermediates_for_its_attestation_key() {
    let (tpm, root) = (booted(1), authority("root"));
    let issuer = intermediate("issuer", &root, |_| ());
    let (ek, ak) = (tpm.ek_public().marshal(), tpm.ak_public().marshal());
    let identity = AttesterIdentity::new(ek, None, vec![issuer.der().to_vec()], ak).unwrap();
    let identity = identity.with_ak_certificate(issue(&tpm, &issuer, |_| ())).unwrap();
    assert_eq!(begin_code(&ak_policy(&root, "demanded"), &identity), Some(ReasonCode::AkCertificateUntrusted));
}

#[test]
fn the_rule_is_closed_and_says_everything() {
    let root = authority("root");
    let load = |tweak: &dyn Fn(&mut Value)| {
        let mut json = policy_json(rule(&root, &[], "demanded"));
        tweak(&mut json["ak_trust"][0]);
        Policy::from_json(json.to_string().as_bytes()).map(drop).map_err(|refusal| refusal.code())
    };
    assert_eq!(load(&|_| ()), Ok(()));
    assert_eq!(load(&|rule| drop(rule.as_object_mut().unwrap().remove("purpose"))), Err(ReasonCode::PolicyMalformed));
    assert_eq!(load(&|rule| rule["purpose"] = json!("any")), Err(ReasonCode::PolicyMalformed));
    assert_eq!(load(&|rule| rule["roots"] = json!([])), Err(ReasonCode::PolicyEmpty));
    assert_eq!(load(&|rule| rule["roots"] = json!(["AAAA"])), Err(ReasonCode::PolicyRootInvalid));
    assert_eq!(load(&|rule| rule["note"] = json!("x")), Err(ReasonCode::PolicyMalformed));
    let too_long = booted(1).identity().with_ak_certificate(vec![0; 4097]).unwrap_err();
    assert_eq!(too_long.code(), ReasonCode::IdentityMalformed);
}

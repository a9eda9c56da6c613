//! Attacks on endorsement keys and their certificates. The authority is made here; `swtpm.rs` has certificates that
//! swtpm's own authority issues.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::path::PathBuf;

use crate::support;

use crate::support::certificates::{
    Authority, authority, authority_params, intermediate, issue_for, key_in, key_params,
};
use crate::support::{NOW, begin_code, booted, pinned, policy, policy_json};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::refusal::ReasonCode;
use latchkey_attestation::{Appraisal, AttesterIdentity, EkDigest, EkTrust, Policy};
use latchkey_test_support::vector;
use latchkey_tpm::wire::{Attributes, Curve, EccPoint, EkTemplate, Public, PublicKey};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PKCS_ECDSA_P384_SHA384, date_time_ymd,
};
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

/// Certificate policies (RFC 5280, section 4.2.1.4), marked critical: each an identifier with its qualifiers.
fn critical_policies(policies: &[(&[u8], &[&[u8]])]) -> CustomExtension {
    let qualifier = |id: &&[u8]| der(0x30, &[der(0x06, id), der(0x16, b"http://www.st.com/TPM/repository/")].concat());
    let policy = |(id, qualifiers): &(&[u8], &[&[u8]])| {
        let qualifiers: Vec<u8> = qualifiers.iter().flat_map(qualifier).collect();
        let qualifiers = if qualifiers.is_empty() { qualifiers } else { der(0x30, &qualifiers) };
        der(0x30, &[der(0x06, id), qualifiers].concat())
    };
    let list: Vec<u8> = policies.iter().flat_map(policy).collect();
    let mut extension = CustomExtension::from_oid_content(&[2, 5, 29, 32], der(0x30, &list));
    extension.set_criticality(true);
    extension
}

/// `STMicroelectronics`' authorities have anyPolicy with a practice statement, Intel's a policy of its own.
const ANY_POLICY: &[u8] = &[0x55, 0x1d, 0x20, 0x00];
const OF_INTEL: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf8, 0x4d, 0x01, 0x05, 0x02, 0x01];
const PRACTICE_STATEMENT: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x02, 0x01];
const USER_NOTICE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x02, 0x02];

#[test]
fn critical_certificate_policies_restrict_nothing_wherever_they_stand_in_the_chain() {
    type Policies<'a> = &'a [(&'a [u8], &'a [&'a [u8]])];
    let (tpm, root) = (booted(1), authority("root"));
    let sets: [Policies<'_>; 3] =
        [&[(ANY_POLICY, &[PRACTICE_STATEMENT])], &[(OF_INTEL, &[])], &[(OF_INTEL, &[USER_NOTICE]), (ANY_POLICY, &[])]];
    for set in sets {
        let policies = || critical_policies(set);
        let between = intermediate("between", &root, |params| params.custom_extensions.push(policies()));
        for of_key in [vec![], vec![policies()]] {
            let certificate = issue(&tpm, &between, |params| params.custom_extensions.extend(of_key));
            let sent = identity(&tpm, certificate.clone(), &[&between]);
            assert_eq!(begin_code(&chain_policy(&root, &[]), &sent), None);
            let not_sent = identity(&tpm, certificate, &[]);
            assert_eq!(begin_code(&chain_policy(&root, &[&between]), &not_sent), None);
        }
    }
}

#[test]
fn what_could_restrict_by_policies_is_refused() {
    let (tpm, root) = (booted(1), authority("root"));
    let critical = |oid: &[u64], content: &[u8]| {
        let mut extension = CustomExtension::from_oid_content(oid, content.to_vec());
        extension.set_criticality(true);
        extension
    };
    let no_policies = critical(&[2, 5, 29, 32], &[0x30, 0x00]);
    for extensions in [
        // A qualifier that nobody knows (RFC 5280: it must be understood, or the certificate refused).
        vec![critical_policies(&[(ANY_POLICY, &[&[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x02, 0x03]])])],
        // requireExplicitPolicy, inhibitAnyPolicy: policies would have to be followed.
        vec![critical_policies(&[(ANY_POLICY, &[])]), critical(&[2, 5, 29, 36], &[0x30, 0x03, 0x80, 0x01, 0x00])],
        vec![critical_policies(&[(ANY_POLICY, &[])]), critical(&[2, 5, 29, 54], &[0x02, 0x01, 0x00])],
        // No policies at all, what is none, and a second extension of the kind.
        vec![no_policies],
        vec![critical(&[2, 5, 29, 32], &[0x05, 0x00])],
        vec![critical_policies(&[(ANY_POLICY, &[])]), critical_policies(&[(OF_INTEL, &[])])],
    ] {
        let between = intermediate("between", &root, |params| params.custom_extensions.extend(extensions));
        let identity = identity(&tpm, issue(&tpm, &between, |_| ()), &[&between]);
        assert_eq!(begin_code(&chain_policy(&root, &[]), &identity), Some(ReasonCode::EkCertificateChainInvalid));
    }
}

#[test]
fn flipping_any_bit_of_an_authority_with_critical_policies_is_refused() {
    let (tpm, root) = (booted(1), authority("root"));
    let policies = critical_policies(&[(ANY_POLICY, &[PRACTICE_STATEMENT])]);
    let between = intermediate("between", &root, |params| params.custom_extensions.push(policies));
    let certificate = issue(&tpm, &between, |_| ());
    let policy = chain_policy(&root, &[]);
    let (ek, ak) = (tpm.ek_public().marshal(), tpm.ak_public().marshal());
    for bit in 0..between.der().len() * 8 {
        let mut flipped = between.der().to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let identity = AttesterIdentity::new(ek.clone(), Some(certificate.clone()), vec![flipped], ak.clone()).unwrap();
        assert!(begin_code(&policy, &identity).is_some(), "bit {bit}");
    }
}

/// Its certificates begin in November 2026.
const JANUARY_2027: u64 = 1_799_000_000;

/// A chain of the shape that `STMicroelectronics`' have, made with openssl.
#[test]
fn a_chain_with_critical_policies_that_openssl_made_is_trusted() {
    let [Some(root), Some(between), Some(certificate), Some(without_purpose)] =
        ["root.pem", "int-policy.pem", "ek-ok.der", "ek-no-eku.der"].map(|name| vector(&format!("ek/{name}")))
    else {
        return;
    };
    let [root, between] = [root, between].map(|pem| String::from_utf8(pem).unwrap());
    let rule = json!({"kind": "ek-chain", "roots": [root], "intermediates": [between]});
    let policy = policy(&policy_json(rule));
    let verdict = |certificate: Vec<u8>| {
        let key = key_in(&certificate);
        let ek = Public { key, ..booted(1).ek_public().clone() }.marshal();
        let ak = booted(1).ak_public().marshal();
        let identity = AttesterIdentity::new(ek, Some(certificate), Vec::new(), ak).unwrap();
        let begun = Appraisal::begin(&policy, &identity, JANUARY_2027, &SystemRandom::new());
        begun.err().map(|refusal| refusal.code())
    };
    assert_eq!(verdict(certificate), None);
    assert_eq!(verdict(without_purpose), Some(ReasonCode::EkCertificateNotForEk));
}

#[test]
fn a_refusal_says_in_words_what_a_chain_lacks() {
    let (tpm, root) = (booted(1), authority("root"));
    let said = |tweak: fn(&mut CertificateParams)| {
        let identity = identity(&tpm, issue(&tpm, &root, tweak), &[]);
        let begun = Appraisal::begin(&chain_policy(&root, &[]), &identity, NOW, &SystemRandom::new());
        begun.unwrap_err().detail().to_owned()
    };
    let wrong = said(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
    assert_eq!(wrong, "its extended key usage does not name tcg-kp-EKCertificate (2.23.133.8.1)");
    let ended = said(|params| params.not_after = date_time_ymd(2026, 1, 1));
    assert_eq!(ended, "a certificate ended at 2026-01-01T00:00:00Z");
    let authority = said(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    assert_eq!(authority, "the certificate is an authority's, and not one of a key");
}

fn unusable(root: &Authority, intermediates: &[&Authority]) -> Vec<(String, String)> {
    let found = chain_policy(root, intermediates).unusable_authorities(NOW);
    found.into_iter().map(|authority| (authority.name, authority.why)).collect()
}

#[test]
fn intermediates_by_which_no_tpm_can_be_verified_are_named_with_their_reason() {
    let (root, stranger) = (authority("root"), authority("stranger"));
    let below = |name, issuer: &Authority, tweak: fn(&mut CertificateParams)| intermediate(name, issuer, tweak);
    let good = below("good", &root, |params| params.custom_extensions.push(critical_policies(&[(ANY_POLICY, &[])])));
    let under_good = below("under good", &good, |_| ());
    assert!(unusable(&root, &[&under_good, &good]).is_empty());
    // Infineon's and STMicroelectronics' roots are on P-384, their intermediates on P-256.
    let on_p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let on_p384 = Authority::self_signed(authority_params("P-384"), on_p384).unwrap();
    assert!(unusable(&on_p384, &[&below("under P-384", &on_p384, |_| ())]).is_empty());
    let ended = below("ended", &root, |params| params.not_after = date_time_ymd(2026, 1, 1));
    let early = below("early", &root, |params| params.not_before = date_time_ymd(2999, 1, 1));
    let foreign = below("foreign", &stranger, |_| ());
    let no_authority = below("no authority", &root, |params| params.is_ca = IsCa::ExplicitNoCa);
    let namesake = below("namesake", &authority("root"), |_| ());
    let strange = below("strange", &root, |params| {
        let mut strange = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![0x05, 0x00]);
        strange.set_criticality(true);
        params.custom_extensions.push(strange);
    });
    for (authority, why) in [
        (ended, "it ended at 2026-01-01T00:00:00Z"),
        (early, "it is valid from 2999-01-01T00:00:00Z on"),
        (foreign, "its issuer is not among the roots and intermediates"),
        (no_authority, "it is not an authority's certificate (basicConstraints)"),
        (namesake, "the signature is not by the key of the issuer that is named"),
        (strange, "a certificate has a critical extension that nobody here understands"),
    ] {
        let found = unusable(&root, &[&good, &authority]);
        assert_eq!(found.iter().map(|(_, why)| why.as_str()).collect::<Vec<_>>(), [why], "{found:?}");
        assert!(found[0].0.starts_with("CN="), "{found:?}");
    }
}

/// Prints what is of no use of a store of makers' authorities, such as keylime's `tpm_cert_store`, which is no part of the project:
/// `LATCHKEY_TPM_AUTHORITIES` names a directory with `roots` and `intermediates` (PEM) and `keys` (DER of certificates of endorsement keys).
#[test]
#[ignore = "needs a store of makers' authorities"]
fn a_store_of_makers_authorities_is_held_against_the_rule() {
    let store = PathBuf::from(std::env::var_os("LATCHKEY_TPM_AUTHORITIES").expect("the store"));
    let files = |name: &str| {
        let mut paths: Vec<_> = fs::read_dir(store.join(name)).unwrap().map(|file| file.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| fs::read(path).unwrap())
    };
    let texts = |name| files(name).map(|pem| String::from_utf8(pem).unwrap()).collect::<Vec<_>>();
    let (roots, intermediates) = (texts("roots"), texts("intermediates"));
    let counted = (roots.len(), intermediates.len());
    let policy = policy(&policy_json(json!({"kind": "ek-chain", "roots": roots, "intermediates": intermediates})));
    let unusable = policy.unusable_authorities(NOW);
    println!("{} roots; of {} intermediates {} are of no use:", counted.0, counted.1, unusable.len());
    for authority in &unusable {
        println!("{}: {}", authority.name, authority.why);
    }
    for certificate in files("keys") {
        let key = key_in(&certificate);
        let template = if matches!(key, PublicKey::Ecc { .. }) { EkTemplate::P256L2 } else { EkTemplate::RsaL1 };
        let ek = Public { key, ..template.public() };
        let ak = booted(1).ak_public().marshal();
        let identity = AttesterIdentity::new(ek.marshal(), Some(certificate), Vec::new(), ak).unwrap();
        let mut json =
            policy_json(json!({"kind": "ek-chain", "roots": texts("roots"), "intermediates": texts("intermediates")}));
        json["ek_templates"] = json!(["ecc-p256", "rsa-2048"]);
        let begun = Appraisal::begin(&support::policy(&json), &identity, NOW, &SystemRandom::new());
        println!("a key's certificate: {:?}", begun.map(drop).map_err(|refusal| refusal.to_string()));
    }
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

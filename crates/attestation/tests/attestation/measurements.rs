//! Which machines are admitted: measurements, versions, validity, the lock.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use crate::support::{ENFORCED, NOW, admitted, booted, image_json, policy_for, provenance_json, references, verified};
use latchkey_attestation::reference::{Description, ManifestName, Source};
use latchkey_attestation::refusal::{Blame, CoarseReason, ReasonCode, Refusal};
use latchkey_attestation::{
    Admission, Component, Digest, ImageVersion, LockExpectation, ManifestFile, ReferenceValues, References,
};
use serde_json::{Value, json};

fn code(result: Result<Admission, Refusal>) -> ReasonCode {
    result.unwrap_err().code()
}

/// Admission against these images.
fn against(tpm: &latchkey_attestation::fake_tpm::FakeTpm, images: &[Value], now: u64) -> Result<Admission, Refusal> {
    let policy = policy_for(tpm);
    policy.validate(&verified(&policy, tpm)?, &references(&policy, images), LockExpectation::Unlocked, now)
}

#[test]
fn each_enforced_pcr_has_its_own_reason() {
    let expected = [
        (4, ReasonCode::BootLoaderDiffers, Component::BootLoader),
        (7, ReasonCode::SecureBootDiffers, Component::SecureBoot),
        (9, ReasonCode::CommandLineDiffers, Component::CommandLine),
        (11, ReasonCode::ImageDiffers, Component::Image),
        (12, ReasonCode::OverridesDiffer, Component::Overrides),
        (13, ReasonCode::ExtensionsDiffer, Component::Extensions),
    ];
    for (pcr, code, component) in expected {
        let mut tpm = booted(1);
        tpm.set_pcr(pcr, [0xee; 32]);
        let refusal = admitted(&tpm, LockExpectation::Unlocked).unwrap_err();
        assert_eq!(refusal.code(), code);
        assert_eq!(refusal.coarse(), CoarseReason::MeasurementsRefused);
        let difference = refusal.difference().unwrap();
        assert_eq!((difference.pcr, difference.component), (pcr, component));
        assert_eq!(
            (difference.expected.as_str(), difference.got.as_str()),
            (&*support::value(1), &*support::value(0xee))
        );
        assert_eq!(difference.image.as_deref(), Some("test/image 1.1.0 on test"));
        assert_eq!(difference.differing, [pcr]);
        assert!(refusal.detail().contains(component.describe()), "{refusal}");
    }
}

#[test]
fn a_foreign_command_line_is_named_as_an_override_and_not_by_the_lowest_register() {
    // What `-kernel uki.efi -append evil` changes: PCR 4 and 11 stay, 9 and 12 do not.
    let mut impostor = booted(1);
    impostor.set_pcr(9, [9; 32]);
    impostor.set_pcr(12, [12; 32]);
    let refusal = admitted(&impostor, LockExpectation::Unlocked).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::OverridesDiffer);
    assert_eq!(refusal.difference().unwrap().differing, [9, 12]);
    assert!(refusal.to_string().contains("command-line override"), "{refusal}");
}

#[test]
fn the_coarse_reason_tells_the_peer_no_values() {
    let mut impostor = booted(1);
    impostor.set_pcr(9, [9; 32]);
    let refusal = admitted(&impostor, LockExpectation::Unlocked).unwrap_err();
    let told = format!("{} {}", refusal.coarse(), refusal.coarse().remedy());
    assert!(!told.contains(&support::value(1)) && !told.contains(&support::value(9)), "{told}");
    assert_eq!(refusal.code().blame(), Blame::Platform);
}

#[test]
fn values_of_two_images_do_not_combine() {
    let mut chimera = booted(1);
    chimera.set_pcr(4, [2; 32]);
    let refusal = against(&chimera, &[image_json(1), image_json(2)], NOW).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::BootLoaderDiffers);
    assert_eq!(
        refusal.difference().unwrap().image.as_deref(),
        Some("test/image 1.1.0 on test"),
        "the closest image is named"
    );
}

#[test]
fn every_listed_image_is_admitted_and_named() {
    for number in [1, 2] {
        let admission = against(&booted(number), &[image_json(1), image_json(2)], NOW).unwrap();
        assert_eq!(admission.image().version, ImageVersion::new(1, number.into(), 0));
        assert_eq!(admission.image().source, Source::Recorded);
    }
}

#[test]
fn a_pcr_only_warned_about_admits_with_a_warning() {
    let mut tpm = booted(1);
    tpm.set_pcr(0, [7; 32]);
    let admission = admitted(&tpm, LockExpectation::Unlocked).unwrap();
    let [warning] = admission.warnings() else { panic!("one warning: {admission:?}") };
    assert_eq!((warning.pcr, warning.component), (0, Component::Firmware));
    assert_eq!((warning.expected, warning.got), (Digest([1; 32]), Digest([7; 32])));
}

#[test]
fn an_image_may_enforce_what_the_policy_only_warns_about() {
    let mut tpm = booted(1);
    tpm.set_pcr(0, [7; 32]);
    let mut strict = image_json(1);
    strict["machines"][0]["pcrs"]["0"]["rule"] = json!("enforce");
    assert_eq!(code(against(&tpm, &[strict], NOW)), ReasonCode::FirmwareDiffers);
}

#[test]
fn an_image_cannot_soften_what_the_policy_enforces() {
    let mut tpm = booted(1);
    tpm.set_pcr(9, [7; 32]);
    let mut soft = image_json(1);
    soft["machines"][0]["pcrs"]["9"]["rule"] = json!("warn");
    assert_eq!(code(against(&tpm, &[soft], NOW)), ReasonCode::CommandLineDiffers);
}

#[test]
fn an_old_image_is_refused_although_its_measurements_are_known() {
    let mut old = image_json(1);
    old["version"] = json!("0.9.9");
    old["provenance"] = provenance_json("0.9.9");
    let refusal = against(&booted(1), &[old, image_json(2)], NOW).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::ImageVersionTooOld);
    assert!(refusal.detail().contains("1.0.0") && refusal.detail().contains("0.9.9"), "{refusal}");
}

#[test]
fn an_image_outside_its_validity_is_refused() {
    let mut image = image_json(1);
    image["not_before"] = json!(NOW);
    image["not_after"] = json!(NOW + 10);
    let tpm = booted(1);
    let images = [image];
    assert_eq!(code(against(&tpm, &images, NOW - 1)), ReasonCode::ImageNotYetValid);
    assert!(against(&tpm, &images, NOW).is_ok());
    assert!(against(&tpm, &images, NOW + 10).is_ok());
    assert_eq!(code(against(&tpm, &images, NOW + 11)), ReasonCode::ImageExpired);
}

#[test]
fn a_second_entry_for_the_same_measurements_can_renew_an_expired_one() {
    let mut expired = image_json(1);
    expired["version"] = json!("1.0.9");
    expired["provenance"] = provenance_json("1.0.9");
    expired["not_after"] = json!(NOW - 1);
    assert!(against(&booted(1), &[expired, image_json(1)], NOW).is_ok());
}

#[test]
fn a_locked_node_may_not_join_again() {
    let mut tpm = booted(1);
    tpm.set_pcr(15, [0x15; 32]);
    let refusal = admitted(&tpm, LockExpectation::Unlocked).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::AlreadyLocked);
    assert_eq!(refusal.coarse(), CoarseReason::LockRefused);
    assert_eq!(refusal.difference().unwrap().component, Component::NodeLock);
}

#[test]
fn only_a_node_locked_to_this_cluster_is_a_member() {
    let cluster = [0x15; 32];
    let mut tpm = booted(1);
    assert_eq!(code(admitted(&tpm, LockExpectation::LockedTo(cluster))), ReasonCode::NotLocked);
    tpm.set_pcr(15, [0x16; 32]);
    assert_eq!(code(admitted(&tpm, LockExpectation::LockedTo(cluster))), ReasonCode::LockedToAnotherCluster);
    tpm.set_pcr(15, cluster);
    assert!(admitted(&tpm, LockExpectation::LockedTo(cluster)).unwrap().locked());
    assert!(!admitted(&booted(1), LockExpectation::Unlocked).unwrap().locked());
}

#[test]
fn a_lock_does_not_excuse_other_measurements() {
    let mut tpm = booted(1);
    tpm.set_pcr(15, [0x15; 32]);
    tpm.set_pcr(4, [2; 32]);
    assert_eq!(code(admitted(&tpm, LockExpectation::LockedTo([0x15; 32]))), ReasonCode::BootLoaderDiffers);
}

#[test]
fn recorded_reference_values_admit_the_same_boot_and_no_other() {
    let tpm = booted(3);
    let policy = policy_for(&tpm);
    let evidence = verified(&policy, &tpm).unwrap();
    let name = ManifestName::new("test").unwrap();
    let version = ImageVersion::new(1, 0, 0);
    let about = Description { manifest: name, serial: 1, image: "image", version, by: "tests", at: Some(NOW) };
    let recorded = ReferenceValues::record(&about, "fake", &evidence, &policy, Vec::new()).unwrap();
    let image = &recorded.images()[0];
    assert_eq!(image.source(), Source::Recorded);
    assert_eq!(image.sources()[0].digest.sha256.as_bytes(), evidence.ek_digest().as_bytes());
    assert_eq!((image.provenance().by(), image.provenance().at()), ("tests", Some("2026-11-18T11:06:40Z")));
    let machine = image.machine("fake").unwrap();
    assert_eq!(machine.enforced().iter().collect::<Vec<_>>(), ENFORCED);
    assert!(!machine.pcrs().contains_key(&15), "the lock is not a measurement");

    let recorded = ManifestFile::new(recorded.to_json().into_bytes(), None).under(&policy).unwrap();
    let references = References::new(&policy, vec![recorded]).unwrap();
    assert!(policy.validate(&evidence, &references, LockExpectation::Unlocked, NOW).is_ok());
    let mut other = tpm;
    other.set_pcr(11, [0; 32]);
    let other = verified(&policy, &other).unwrap();
    assert_eq!(code(policy.validate(&other, &references, LockExpectation::Unlocked, NOW)), ReasonCode::ImageDiffers);
}

#[test]
fn references_of_a_narrower_policy_admit_nobody() {
    let tpm = booted(1);
    let policy = policy_for(&tpm);
    let mut narrow = support::policy_json(support::pinned(&[support::digest_of(&tpm)]));
    narrow["pcrs"]["enforce"] = json!([4]);
    let narrow = support::policy(&narrow);
    let mut image = image_json(1);
    image["machines"][0]["pcrs"] = json!({"4": {"value": support::value(1), "rule": "enforce"}});
    let references = references(&narrow, &[image]);
    let refused = policy.validate(&verified(&policy, &tpm).unwrap(), &references, LockExpectation::Unlocked, NOW);
    assert_eq!(code(refused), ReasonCode::SecureBootDiffers);
}

//! `"firmware": "known"`: whose firmware a manifest lists, and what follows.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::{BINDING, NOW, booted, digest_of, image_json, pinned, policy, policy_json, references, verified};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::policy::Policy;
use latchkey_attestation::record::RecordedEvidence;
use latchkey_attestation::reference::{PlatformProfile, Reference, References, Rule};
use latchkey_attestation::refusal::{CoarseReason, ReasonCode, Refusal};
use latchkey_attestation::{Admission, Appraisal, Digest, FirmwareStanding, LockExpectation};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

/// Image `number`, and on these types of machines beside `test`: name, value of PCR 0 and of PCR 2.
fn image_on(number: u8, machines: &[(&str, u8, u8)]) -> Value {
    let mut image = image_json(number);
    for (name, code, option_roms) in machines {
        let mut machine = image["machines"][0].clone();
        machine["machine"] = json!(name);
        for (pcr, value) in [("0", code), ("2", option_roms)] {
            machine["pcrs"][pcr] = json!({"value": crate::support::value(*value), "rule": "warn"});
        }
        image["machines"].as_array_mut().unwrap().push(machine);
    }
    image
}

/// Image 1 with two types of machines that list firmware, and image 2 with none.
fn images() -> [Value; 2] {
    [image_on(1, &[("model-a", 0xa1, 0xa2), ("model-b", 0xb1, 0xb2)]), image_json(2)]
}

fn policy_of(tpm: &FakeTpm, firmware: Option<&str>) -> Policy {
    let mut json = policy_json(pinned(&[digest_of(tpm)]));
    json["pcrs"]["warn"] = json!([0, 2]);
    if let Some(firmware) = firmware {
        json["firmware"] = json!(firmware);
    }
    policy(&json)
}

fn machine(image: u8, (code, option_roms): (u8, u8)) -> FakeTpm {
    let mut tpm = booted(image);
    tpm.set_pcr(0, [code; 32]);
    tpm.set_pcr(2, [option_roms; 32]);
    tpm
}

fn verdict(policy: &Policy, tpm: &FakeTpm, references: &References) -> Result<Admission, Refusal> {
    policy.validate(&verified(policy, tpm)?, references, LockExpectation::Unlocked, NOW)
}

#[test]
fn firmware_is_known_if_one_type_of_machine_of_any_image_has_both_of_its_values() {
    for (image, firmware, known_as) in [
        (1, (0xa1, 0xa2), Some("model-a")),
        (1, (0xb1, 0xb2), Some("model-b")),
        // The list is of firmware: which image it stands with does not matter.
        (2, (0xb1, 0xb2), Some("model-b")),
        // Values of two types of machines never combine.
        (1, (0xa1, 0xb2), None),
        (1, (0xa1, 0x00), None),
        (1, (0x00, 0x00), None),
        (2, (0xc1, 0xa2), None),
    ] {
        let tpm = machine(image, firmware);
        for demand in [None, Some("any"), Some("known")] {
            let policy = policy_of(&tpm, demand);
            let said = verdict(&policy, &tpm, &references(&policy, &images()));
            match (said, known_as) {
                (Ok(admission), Some(known)) => {
                    let FirmwareStanding::Known { manifest, machine } = admission.firmware() else {
                        panic!("{firmware:x?}: {:?}", admission.firmware())
                    };
                    assert_eq!((manifest.as_str(), machine.as_str()), ("test", known));
                }
                (Ok(admission), None) if demand != Some("known") => {
                    assert_eq!(admission.firmware(), &FirmwareStanding::Unknown);
                }
                (Err(refusal), None) if demand == Some("known") => {
                    assert_eq!(refusal.code(), ReasonCode::FirmwareUnknown);
                    assert_eq!(refusal.coarse(), CoarseReason::MeasurementsRefused);
                    let quoted = format!("PCR 0 is {}", crate::support::value(firmware.0));
                    assert!(refusal.to_string().contains(&quoted), "{refusal}");
                }
                (said, _) => panic!("{firmware:x?} under {demand:?}: {said:?}"),
            }
        }
    }
}

#[test]
fn where_no_manifest_lists_firmware_or_it_is_not_quoted_nothing_is_said_of_it() {
    let tpm = machine(1, (0xa1, 0xa2));
    let policy_of_any = policy_of(&tpm, None);
    let admission = verdict(&policy_of_any, &tpm, &references(&policy_of_any, &[image_json(1)])).unwrap();
    assert_eq!(admission.firmware(), &FirmwareStanding::NotJudged);
    // PCR 0 alone is quoted.
    let policy_of_one = policy(&policy_json(pinned(&[digest_of(&tpm)])));
    let admission = verdict(&policy_of_one, &tpm, &references(&policy_of_one, &images())).unwrap();
    assert_eq!(admission.firmware(), &FirmwareStanding::NotJudged);
}

#[test]
fn a_policy_that_takes_known_firmware_alone_needs_its_registers_and_a_list() {
    let tpm = booted(1);
    let with = |warn: Value, firmware: Value| {
        let mut json = policy_json(pinned(&[digest_of(&tpm)]));
        (json["pcrs"]["warn"], json["firmware"]) = (warn, firmware);
        Policy::from_json(json.to_string().as_bytes()).map_err(|refusal| (refusal.code(), refusal.to_string()))
    };
    let (code, words) = with(json!([0]), json!("known")).unwrap_err();
    assert!(code == ReasonCode::PolicyMalformed && words.contains("PCRs [2] tell"), "{words}");
    for other in [json!("sometimes"), json!(null), json!(["known"])] {
        assert_eq!(with(json!([0, 2]), other).unwrap_err().0, ReasonCode::PolicyMalformed);
    }
    let policy = with(json!([0, 2]), json!("known")).unwrap();
    // A type of machine where nothing was measured into a register lists nothing: every such machine would have that firmware.
    for images in [[image_json(1)], [image_on(1, &[("silent", 0, 0), ("half", 0xa1, 0)])]] {
        let manifest = crate::support::reference_values(&crate::support::reference_json(&images));
        let manifests = vec![latchkey_attestation::AuthenticManifest::local(manifest)];
        let refusal = References::new(&policy, manifests).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::ReferenceUnfit);
        assert!(refusal.to_string().contains("latchkey reference add-firmware"), "{refusal}");
    }
    references(&policy, &images());
}

/// A policy that was reloaded judges what a channel proved before only where it was quoted.
#[test]
fn evidence_for_a_policy_that_did_not_ask_for_firmware_has_to_be_given_anew() {
    let tpm = machine(1, (0xa1, 0xa2));
    let before = policy(&policy_json(pinned(&[digest_of(&tpm)])));
    let admission = verdict(&before, &tpm, &references(&before, &images())).unwrap();
    let not_quoted = policy_of(&tpm, Some("known")).firmware_not_quoted(&admission);
    assert_eq!(not_quoted.iter().collect::<Vec<_>>(), [2]);
    assert!(policy_of(&tpm, None).firmware_not_quoted(&admission).is_empty());
}

#[test]
fn kept_evidence_and_the_comparison_of_images_are_judged_by_the_same_list() {
    for (firmware, known) in [((0xa1, 0xa2), true), ((0xa1, 0xb2), false)] {
        let tpm = machine(1, firmware);
        let policy = policy_of(&tpm, Some("known"));
        let references = references(&policy, &images());
        let (challenge, pending) = Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new()).unwrap();
        let evidence = tpm.evidence(&challenge, &BINDING).unwrap();
        let verified = pending.confirm(evidence.activated_secret()).unwrap().verify(&evidence, &BINDING).unwrap();
        let recording = RecordedEvidence::new(&tpm.identity(), &evidence, &verified, "test", NOW).unwrap();
        let found = recording.appraise_recorded(&policy, &references, LockExpectation::Unlocked, NOW);
        let compared = policy.compare(verified.pcrs(), &references, NOW);
        assert_eq!(compared.iter().any(latchkey_attestation::validate::Comparison::passes), known);
        match found {
            Ok(finding) => assert!(known && matches!(finding.firmware, FirmwareStanding::Known { .. }), "{finding:?}"),
            Err(refusal) => assert!(!known && refusal.code() == ReasonCode::FirmwareUnknown, "{refusal}"),
        }
    }
}

/// An image that is listed with two firmwares: the other one's values are no reason for a warning.
#[test]
fn a_machine_is_of_the_type_whose_firmware_it_has() {
    let mut image = image_on(1, &[("model-a", 0xa1, 0xa2), ("model-b", 0xb1, 0xb2)]);
    image["machines"].as_array_mut().unwrap().remove(0);
    let tpm = machine(1, (0xb1, 0xb2));
    let policy = policy_of(&tpm, None);
    let admission = verdict(&policy, &tpm, &references(&policy, &[image])).unwrap();
    assert_eq!((admission.image().machine.as_str(), admission.warnings()), ("model-b", &[][..]));
}

/// What `latchkey reference add-firmware` makes: nothing of the image is loosened by it.
#[test]
fn a_type_of_machine_with_other_firmware_keeps_what_is_enforced() {
    let value = |byte: u8| Digest([byte; 32]);
    let [enforced, warned] = [Reference::enforced, Reference::warned];
    let own = [(0, enforced(value(1))), (3, enforced(value(3))), (6, warned(value(6))), (11, enforced(value(11)))];
    let recorded =
        [(0, warned(value(0xa0))), (2, warned(value(0xa2))), (6, warned(value(0xa6))), (11, warned(value(9)))];
    let [base, recorded] = [("base", own.to_vec()), ("recorded", recorded.to_vec())]
        .map(|(name, pcrs)| PlatformProfile::new(name, pcrs.into_iter().collect()));
    let made = base.with_firmware_of(&recorded, "model-a");
    let all: Vec<_> = made.pcrs().iter().map(|(&pcr, reference)| (pcr, reference.value, reference.rule)).collect();
    let expected = [
        (0, value(0xa0), Rule::Enforce),
        (2, value(0xa2), Rule::Warn),
        (3, value(3), Rule::Enforce),
        (11, value(11), Rule::Enforce),
    ];
    assert_eq!((made.name(), all.as_slice()), ("model-a", &expected[..]));
    assert_eq!(made.firmware(), recorded.firmware());
}

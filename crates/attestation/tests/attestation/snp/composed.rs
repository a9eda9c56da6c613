//! A TPM's quote and a processor's report together: both must hold, and be of one session, one machine and one image.

use latchkey_attestation::fake_amd::{Change, FakeAmd};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::parse::{ProcessorKind, SigningKey, SnpEvidence, SnpProduct, TpmChallenge};
use latchkey_attestation::validate::AdmittedProcessor;
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{
    Admission, Appraisal, LockExpectation, Policy, ReasonCode, Refusal, TpmEvidence, report_data,
};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

use crate::support::{
    self, BINDING, NOW, booted, digest_of, launched_image_json as image, pinned, policy_json, references,
};

/// What `FakeAmd`'s guests were launched with.
const LAUNCH: u8 = 0xd1;

fn policy(tpm: &FakeTpm) -> Policy {
    let mut policy = policy_json(pinned(&[digest_of(tpm)]));
    policy["snp"] = json!({
        "tcb_floor": {"milan": {"bootloader": 3, "snp": 8, "microcode": 115}}, "keys": ["vcek"],
        "revocation_list": "demanded", "vmpl": 0, "minimum_abi": "0.0", "allow": ["smt"],
    });
    support::policy(&policy)
}

fn over(data: [u8; 64]) -> impl FnOnce(&mut Change) {
    move |change| change.report[0x50..0x90].copy_from_slice(&data)
}

/// A machine that booted image 1, with what `report` makes of the report data that are due.
fn decided(
    images: &[Value],
    report: impl FnOnce(&FakeAmd, &FakeTpm, [u8; 64]) -> Option<SnpEvidence>,
) -> Result<Admission, Refusal> {
    let (tpm, amd) = (booted(1), FakeAmd::new(SnpProduct::Milan));
    let policy = policy(&tpm);
    let (challenge, pending) = Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new())?;
    assert!(challenge.processors().contains(&ProcessorKind::Snp), "a policy with the section asks for a report");
    let mut evidence = tpm.evidence(&challenge, &BINDING).unwrap();
    if let Some(snp) = report(&amd, &tpm, report_data(&BINDING, tpm.ak_public())) {
        evidence = evidence.with_processor(snp.into());
    }
    // As it goes over the wire.
    let evidence = TpmEvidence::from_json(&serde_json::to_vec(&evidence).unwrap()).unwrap();
    let verified = pending.confirm(evidence.activated_secret())?.verify(&evidence, &BINDING)?;
    let collateral = ProcessorCollateral { snp: Some(amd.collateral()), tdx: None };
    let verified = verified.with_processor(&evidence, &policy, &collateral, NOW)?;
    policy.validate(&verified, &references(&policy, images), LockExpectation::Unlocked, NOW)
}

#[expect(clippy::unnecessary_wraps, reason = "as what shows none")]
fn honest(amd: &FakeAmd, _: &FakeTpm, data: [u8; 64]) -> Option<SnpEvidence> {
    Some(amd.guest(SigningKey::Vcek, 3, over(data)).evidence())
}

fn code(decided: Result<Admission, Refusal>) -> ReasonCode {
    decided.unwrap_err().code()
}

#[test]
fn a_quote_and_a_report_of_one_machine_and_one_image_are_admitted_together() {
    let admission = decided(&[image(1, LAUNCH, true)], honest).unwrap();
    let Some(AdmittedProcessor::Snp(processor)) = admission.processor() else { panic!("{admission:?}") };
    assert_eq!((processor.product(), processor.tcb().microcode), (SnpProduct::Milan, 115));
    assert_eq!(admission.image().version.to_string(), "1.1.0");
    // Firmware alone may launch several images: the TPM tells which.
    decided(&[image(1, LAUNCH, false), image(2, LAUNCH, false)], honest).unwrap();
}

#[test]
fn a_host_that_gives_no_certificates_leaves_it_to_the_collateral() {
    let bare = |amd: &FakeAmd, _: &FakeTpm, data: [u8; 64]| {
        let guest = amd.guest(SigningKey::Vcek, 3, over(data));
        SnpEvidence::new(guest.report.to_vec(), None).ok()
    };
    // It was read, and no certificate is there: the collateral of these tests has none of chips.
    assert_eq!(code(decided(&[image(1, LAUNCH, true)], bare)), ReasonCode::SnpCertificateMissing);
}

#[test]
fn a_quote_without_a_report_is_refused() {
    assert_eq!(code(decided(&[image(1, LAUNCH, true)], |_, _, _| None)), ReasonCode::SnpReportMissing);
}

#[test]
fn a_report_of_another_session_or_for_another_ak_is_refused() {
    let images = [image(1, LAUNCH, true)];
    let other = booted(1);
    for data in [report_data(&BINDING, other.ak_public()), [0; 64]] {
        let relayed = decided(&images, |amd, tpm, _| honest(amd, tpm, data));
        assert_eq!(code(relayed), ReasonCode::SnpReportDataMismatch);
    }
    // Of this very AK: a guest's report of an earlier session, beside a fresh quote. Any one bit of the binding makes another session.
    for bit in [0, 100, 255] {
        let mut earlier = BINDING;
        earlier[bit / 8] ^= 1 << (bit % 8);
        let replayed = decided(&images, |amd, tpm, _| honest(amd, tpm, report_data(&earlier, tpm.ak_public())));
        assert_eq!(code(replayed), ReasonCode::SnpReportDataMismatch, "bit {bit}");
    }
}

#[test]
fn the_challenge_says_at_which_level_the_report_is_asked_for() {
    let tpm = booted(1);
    for (vmpl, word) in [(0, None), (2, Some(r#""vmpl":2"#))] {
        let mut json = policy_json(pinned(&[digest_of(&tpm)]));
        json["snp"] = json!({
            "tcb_floor": {"milan": {}}, "keys": ["vcek"], "revocation_list": "demanded", "vmpl": vmpl, "minimum_abi": "0.0",
        });
        let policy = support::policy(&json);
        let (challenge, _) = Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new()).unwrap();
        let wire = serde_json::to_string(&challenge).unwrap();
        // Agents that do not know the word are asked as before where it says nothing new.
        assert!(word.map_or_else(|| !wire.contains("vmpl"), |word| wire.contains(word)), "{wire}");
        assert_eq!(serde_json::from_str::<TpmChallenge>(&wire).unwrap().vmpl(), vmpl);
    }
}

#[test]
fn a_report_of_a_launch_of_nobody_or_of_another_image_is_refused() {
    assert_eq!(code(decided(&[image(1, 0xaa, true)], honest)), ReasonCode::LaunchUnknown);
    let images = [image(1, 0xaa, true), image(2, LAUNCH, true)];
    let refusal = decided(&images, honest).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::LaunchOfAnotherImage);
    assert!(refusal.to_string().contains("launched image 1.2.0, the TPM quotes image 1.1.0"), "{refusal}");
}

#[test]
fn a_guest_that_its_host_may_debug_is_refused_whatever_its_tpm_says() {
    let debug = |amd: &FakeAmd, _: &FakeTpm, data: [u8; 64]| {
        let guest = amd.guest(SigningKey::Vcek, 3, |change| {
            over(data)(change);
            change.report[0x08 + 2] |= 1 << 3;
        });
        Some(guest.evidence())
    };
    assert_eq!(code(decided(&[image(1, LAUNCH, true)], debug)), ReasonCode::SnpDebugAllowed);
}

#[test]
fn a_policy_that_demands_a_report_admits_no_evidence_in_which_nobody_looked_for_one() {
    let tpm = booted(1);
    let policy = policy(&tpm);
    let verified = support::verified(&policy, &tpm).unwrap();
    let references = references(&policy, &[image(1, LAUNCH, true)]);
    let refusal = policy.validate(&verified, &references, LockExpectation::Unlocked, NOW).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::SnpReportMissing);
}

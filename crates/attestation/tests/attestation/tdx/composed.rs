//! A TPM's quote and a TDX quote together: both must hold, and be of one session and one machine; and a policy that takes either vendor's
//! processors.

use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::fake_intel::{FakeIntel, field};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::parse::{ProcessorEvidence, ProcessorKind, SigningKey, SnpProduct};
use latchkey_attestation::validate::AdmittedProcessor;
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{
    Admission, Appraisal, LockExpectation, Policy, ReasonCode, Refusal, TpmEvidence, report_data,
};
use ring::rand::SystemRandom;
use serde_json::json;

use crate::support::{self, BINDING, NOW, booted, digest_of, launched_image_json, pinned, policy_json, references};

/// What `FakeAmd`'s guests were launched with.
const LAUNCH: u8 = 0xd1;

fn policy(tpm: &FakeTpm, kinds: &[ProcessorKind]) -> Policy {
    let mut policy = policy_json(pinned(&[digest_of(tpm)]));
    if kinds.contains(&ProcessorKind::Tdx) {
        policy["tdx"] = crate::tdx::section();
    }
    if kinds.contains(&ProcessorKind::Snp) {
        policy["snp"] = json!({
            "tcb_floor": {"milan": {"bootloader": 3, "snp": 8, "microcode": 115}}, "keys": ["vcek"],
            "revocation_list": "demanded", "vmpl": 0, "minimum_abi": "0.0", "allow": ["smt"],
        });
    }
    support::policy(&policy)
}

/// A machine with what `processor` makes of the report data that are due.
fn decided(
    kinds: &[ProcessorKind],
    processor: impl FnOnce((&FakeAmd, &FakeIntel), &FakeTpm, [u8; 64]) -> Option<ProcessorEvidence>,
) -> Result<Admission, Refusal> {
    let (tpm, amd, intel) = (booted(1), FakeAmd::new(SnpProduct::Milan), FakeIntel::default());
    let policy = policy(&tpm, kinds);
    let (challenge, pending) = Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new())?;
    assert!(kinds.iter().all(|kind| challenge.processors().contains(kind)));
    let mut evidence = tpm.evidence(&challenge, &BINDING).unwrap();
    if let Some(processor) = processor((&amd, &intel), &tpm, report_data(&BINDING, tpm.ak_public())) {
        evidence = evidence.with_processor(processor);
    }
    // As it goes over the wire.
    let evidence = TpmEvidence::from_json(&serde_json::to_vec(&evidence).unwrap()).unwrap();
    let verified = pending.confirm(evidence.activated_secret())?.verify(&evidence, &BINDING)?;
    let collateral = ProcessorCollateral { snp: Some(amd.collateral()), tdx: Some(intel.collateral()) };
    let verified = verified.with_processor(&evidence, &policy, &collateral, NOW)?;
    let references = references(&policy, &[launched_image_json(1, LAUNCH, true)]);
    policy.validate(&verified, &references, LockExpectation::Unlocked, NOW)
}

fn over(intel: &FakeIntel, data: [u8; 64]) -> ProcessorEvidence {
    intel.evidence(|report| report[field::REPORT_DATA..].copy_from_slice(&data)).into()
}

#[expect(clippy::unnecessary_wraps, reason = "as what shows none")]
fn of_intel((_, intel): (&FakeAmd, &FakeIntel), _: &FakeTpm, data: [u8; 64]) -> Option<ProcessorEvidence> {
    Some(over(intel, data))
}

#[expect(clippy::unnecessary_wraps, reason = "as what shows none")]
fn of_amd((amd, _): (&FakeAmd, &FakeIntel), _: &FakeTpm, data: [u8; 64]) -> Option<ProcessorEvidence> {
    let guest = amd.guest(SigningKey::Vcek, 3, |change| change.report[0x50..0x90].copy_from_slice(&data));
    Some(guest.evidence().into())
}

fn code(decided: Result<Admission, Refusal>) -> ReasonCode {
    decided.unwrap_err().code()
}

#[test]
fn either_processor_vouches_where_a_policy_takes_both_and_its_own_section_decides() {
    let both = [ProcessorKind::Snp, ProcessorKind::Tdx];
    let admission = decided(&both, of_intel).unwrap();
    assert!(matches!(admission.processor(), Some(AdmittedProcessor::Tdx(_))), "{admission:?}");
    let admission = decided(&both, of_amd).unwrap();
    assert!(matches!(admission.processor(), Some(AdmittedProcessor::Snp(_))), "{admission:?}");
    let refusal = decided(&both, |_, _, _| None).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::SnpReportMissing);
    assert!(refusal.detail().contains("a SEV-SNP report or a TDX quote"), "{refusal}");
}

#[test]
fn a_processor_that_the_policy_does_not_take_is_none() {
    assert_eq!(code(decided(&[ProcessorKind::Tdx], of_amd)), ReasonCode::TdxQuoteMissing);
    assert_eq!(code(decided(&[ProcessorKind::Tdx], |_, _, _| None)), ReasonCode::TdxQuoteMissing);
    assert_eq!(code(decided(&[ProcessorKind::Snp], of_intel)), ReasonCode::SnpReportMissing);
}

#[test]
fn a_quote_of_another_session_or_for_another_ak_is_refused() {
    let other = booted(1);
    for data in [report_data(&BINDING, other.ak_public()), [0; 64]] {
        let relayed = decided(&[ProcessorKind::Tdx], |(_, intel), _, _| Some(over(intel, data)));
        assert_eq!(code(relayed), ReasonCode::TdxReportDataMismatch);
    }
    // Of this very AK: a quote of an earlier session.
    let replayed = decided(&[ProcessorKind::Tdx], |(_, intel), tpm, _| {
        Some(over(intel, report_data(&[0xb2; 32], tpm.ak_public())))
    });
    assert_eq!(code(replayed), ReasonCode::TdxReportDataMismatch);
}

#[test]
fn a_policy_whose_processors_nobody_here_can_verify_admits_nobody() {
    let tpm = booted(1);
    let policy = policy(&tpm, &[ProcessorKind::Tdx]);
    let none = ProcessorCollateral::default();
    assert_eq!(none.check_means(&policy).unwrap_err().code(), ReasonCode::TdxNotVerifiable);
    assert_eq!(policy.check_demands_no_processor().unwrap_err().code(), ReasonCode::TdxNotVerifiable);
    // Evidence in which nobody looked for a quote.
    let verified = support::verified(&policy, &tpm).unwrap();
    let references = references(&policy, &[launched_image_json(1, LAUNCH, true)]);
    let refusal = policy.validate(&verified, &references, LockExpectation::Unlocked, NOW).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::TdxQuoteMissing);
}

//! `"rtmrs": "manifest"`: the registers that a quote has must be those of the image which the TPM quotes.

use latchkey_attestation::fake_intel::{FakeIntel, field};
use latchkey_attestation::parse::TpmEvidence;
use latchkey_attestation::reference::{KernelMeasures, Rtmr};
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{Admission, Appraisal, LockExpectation, ReasonCode, ReferenceValues, Refusal, report_data};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

use crate::support::{
    self, BINDING, NOW, booted, digest_of, image_json, pinned, policy_json, reference_json, references,
};

/// What `FakeIntel`'s guests have in RTMR 1 and 2.
const R1: &str = "b1";
const R2: &str = "b2";

fn section() -> Value {
    let mut section = crate::tdx::section();
    section["rtmrs"] = json!("manifest");
    section
}

/// An image whose machine has these registers, of two hexadecimal digits each.
fn image(number: u8, rtmrs: &[(&str, &str)]) -> Value {
    let mut image = image_json(number);
    let rtmrs: serde_json::Map<_, _> = rtmrs.iter().map(|(at, of)| ((*at).to_owned(), json!(of.repeat(48)))).collect();
    image["machines"][0]["tdx"] = json!({"kernel_measures": "tpm", "rtmrs": rtmrs});
    image
}

/// A machine whose TPM quotes image 1, in a guest of `FakeIntel`'s.
fn decided(images: &[Value]) -> Result<Admission, Refusal> {
    decided_by(&json!("manifest"), images)
}

fn decided_by(rtmrs: &Value, images: &[Value]) -> Result<Admission, Refusal> {
    let (tpm, intel) = (booted(1), FakeIntel::default());
    let mut policy = policy_json(pinned(&[digest_of(&tpm)]));
    policy["tdx"] = section();
    policy["tdx"]["rtmrs"] = rtmrs.clone();
    let policy = support::policy(&policy);
    let (challenge, pending) = Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new())?;
    let data = report_data(&BINDING, tpm.ak_public());
    let quote = intel.evidence(|report| report[field::REPORT_DATA..].copy_from_slice(&data));
    let evidence = tpm.evidence(&challenge, &BINDING).unwrap().with_processor(quote.into());
    let evidence = TpmEvidence::from_json(&serde_json::to_vec(&evidence).unwrap()).unwrap();
    let verified = pending.confirm(evidence.activated_secret())?.verify(&evidence, &BINDING)?;
    let collateral = ProcessorCollateral { snp: None, tdx: Some(intel.collateral()) };
    let verified = verified.with_processor(&evidence, &policy, &collateral, NOW)?;
    policy.validate(&verified, &references(&policy, images), LockExpectation::Unlocked, NOW)
}

#[test]
fn a_guest_with_the_registers_of_the_image_that_its_tpm_quotes_is_admitted() {
    for rtmrs in [&[("2", R2)][..], &[("1", R1), ("2", R2)]] {
        let admission = decided(&[image(1, rtmrs), image(2, &[("2", "aa")])]).unwrap();
        assert!(admission.processor().is_some());
    }
}

#[test]
fn registers_of_another_image_are_refused_though_a_manifest_lists_them() {
    let refusal = decided(&[image(1, &[("2", "aa")]), image(2, &[("2", R2)])]).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::TdxRtmrDiffers);
    for said in ["image 1.1.0", "RTMR 2", &"aa".repeat(48), &R2.repeat(48)] {
        assert!(refusal.detail().contains(said), "{said}: {refusal}");
    }
    // One register that is right does not make up for another.
    let refusal = decided(&[image(1, &[("1", "aa"), ("2", R2)])]).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::TdxRtmrDiffers);
    assert!(refusal.detail().contains("RTMR 1"), "{refusal}");
}

#[test]
fn an_image_without_registers_is_refused_and_the_mend_is_named() {
    let refusal = decided(&[image_json(1), image(2, &[("2", R2)])]).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::TdxRtmrMissing);
    assert!(refusal.to_string().contains("latchkey image build"), "{refusal}");
    // And where nobody looks into a manifest, such a policy admits nobody.
    let intel = FakeIntel::default();
    let refused = crate::tdx::refused(&intel, &intel.quote(|_| ()), &section());
    assert_eq!(refused, ReasonCode::TdxRtmrMissing);
}

#[test]
fn types_of_machines_that_the_tpm_cannot_tell_apart_may_have_registers_of_their_own() {
    // The first matches by its PCRs; the guest is of the other one.
    let both = |second: &Value| {
        let mut both = image(1, &[("2", "aa")]);
        let mut other = second["machines"][0].clone();
        other["machine"] = json!("other");
        both["machines"].as_array_mut().unwrap().push(other);
        both
    };
    decided(&[both(&image(1, &[("2", R2)]))]).unwrap();
    decided(&[{
        let mut both = both(&image(1, &[("2", R2)]));
        both["machines"][0].as_object_mut().unwrap().remove("tdx");
        both
    }])
    .unwrap();
    // One that lists more registers is not passed by as the one that lists fewer.
    let refusal = decided(&[both(&image(1, &[("1", "aa"), ("2", R2)]))]).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::TdxRtmrDiffers);
    let mut fewer = both(&image(1, &[("1", "aa"), ("2", R2)]));
    fewer["machines"][0]["tdx"]["rtmrs"] = json!({"2": R2.repeat(48)});
    assert_eq!(decided(&[fewer]).unwrap_err().code(), ReasonCode::TdxRtmrDiffers);
    // A type of machine that measures otherwise is another one.
    let refusal = decided(&[both(&image(2, &[("2", R2)]))]).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::TdxRtmrDiffers);
}

#[test]
fn a_manifests_registers_are_a_closed_list_that_says_something() {
    let read = |tdx: Value| {
        let mut image = image_json(1);
        image["machines"][0]["tdx"] = tdx;
        ReferenceValues::from_json(reference_json(&[image]).to_string().as_bytes())
    };
    let value = "b2".repeat(48);
    let good = json!({"kernel_measures": "cc", "rtmrs": {"2": value}});
    let values = read(good.clone()).unwrap();
    let registers = values.images()[0].machines()[0].tdx().unwrap();
    assert_eq!((registers.kernel_measures, registers.rtmrs.len()), (KernelMeasures::Cc, 1));
    assert!(registers.rtmrs.contains_key(&Rtmr::R2));
    let written: Value = serde_json::from_str(&values.to_json()).unwrap();
    assert_eq!(written["images"][0]["machines"][0]["tdx"], good);
    for wrong in [
        json!({"kernel_measures": "tpm", "rtmrs": {}}),
        json!({"kernel_measures": "tpm", "rtmrs": {"2": "00".repeat(48)}}),
        json!({"kernel_measures": "tpm", "rtmrs": {"4": value}}),
        json!({"kernel_measures": "tpm", "rtmrs": {"2": "b2".repeat(32)}}),
        json!({"kernel_measures": "both", "rtmrs": {"2": value}}),
        json!({"rtmrs": {"2": value}}),
        json!({"kernel_measures": "tpm", "rtmrs": {"2": value}, "mrtd": value}),
    ] {
        assert_eq!(read(wrong.clone()).unwrap_err().code(), ReasonCode::ReferenceMalformed, "{wrong}");
    }
    let twice = reference_json(&[image(1, &[("2", R2)])]).to_string();
    let twice = twice.replace(r#""rtmrs":{"#, &format!(r#""rtmrs":{{"2":"{value}","#));
    let refusal = ReferenceValues::from_json(twice.as_bytes()).unwrap_err();
    assert!(refusal.detail().contains("RTMR 2 is there twice"), "{refusal}");
}

#[test]
fn one_register_may_be_the_manifests_and_another_the_policys() {
    let (r1, other) = (R1.repeat(48), "aa".repeat(48));
    let both = json!({"1": [other, r1], "2": "manifest"});
    decided_by(&both, &[image(1, &[("2", R2)])]).unwrap();
    // What the manifest says of a register that the policy lists by value, or does not name, is not asked.
    decided_by(&both, &[image(1, &[("0", "aa"), ("1", "aa"), ("2", R2)])]).unwrap();
    let code = |rtmrs: Value, images: &[Value]| decided_by(&rtmrs, images).unwrap_err().code();
    assert_eq!(code(json!({"1": [other], "2": "manifest"}), &[image(1, &[("2", R2)])]), ReasonCode::TdxRtmrDiffers);
    assert_eq!(code(both.clone(), &[image(1, &[("2", "aa")])]), ReasonCode::TdxRtmrDiffers);
    // A register that is demanded has to be listed, whatever else is.
    assert_eq!(code(json!({"1": "manifest"}), &[image(1, &[("2", R2)])]), ReasonCode::TdxRtmrMissing);
    assert_eq!(code(both, &[image_json(1)]), ReasonCode::TdxRtmrMissing);
}

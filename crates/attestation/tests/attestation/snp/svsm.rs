//! The rule `ek-svsm`: a SEV-SNP report of VMPL 0 over the manifest of an SVSM is what makes its TPM trusted.

use latchkey_attestation::fake_amd::{Change, FakeAmd};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::parse::{ProcessorEvidence, ProcessorKind, SigningKey, SnpProduct, SvsmEvidence};
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{
    Admission, Appraisal, EkTrust, LockExpectation, Policy, ReasonCode, RecordedEvidence, Refusal, TpmEvidence,
    report_data, svsm_report_data,
};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

use crate::support::{self, BINDING, NOW, booted, digest_of, image_json, pinned, policy_json, references};

/// What `FakeAmd`'s guests were launched with.
const LAUNCH: u8 = 0xd1;

fn snp(vmpl: u32) -> Value {
    json!({
        "tcb_floor": {"milan": {"bootloader": 3, "snp": 8, "microcode": 115}}, "keys": ["vcek"],
        "revocation_list": "demanded", "vmpl": vmpl, "minimum_abi": "0.0", "allow": ["smt"],
    })
}

fn rule(launch: u8) -> Value {
    json!({"kind": "ek-svsm", "launch_sha384": [format!("{launch:02x}").repeat(48)]})
}

fn with_snp(trust: Value) -> Value {
    let mut policy = policy_json(trust);
    policy["snp"] = snp(0);
    policy
}

/// A report over these data, and this manifest.
fn svsm(amd: &FakeAmd, data: [u8; 64], manifest: &[u8], change: impl FnOnce(&mut Change)) -> ProcessorEvidence {
    let guest = amd.guest(SigningKey::Vcek, 3, |it| {
        it.report[0x50..0x90].copy_from_slice(&data);
        change(it);
    });
    SvsmEvidence::new(guest.evidence(), manifest.to_vec()).unwrap().into()
}

/// What an SVSM answers that has this TPM.
fn honest(amd: &FakeAmd, tpm: &FakeTpm, nonce: [u8; 64]) -> ProcessorEvidence {
    let manifest = tpm.ek_public().marshal();
    svsm(amd, svsm_report_data(&nonce, &manifest), &manifest, |_| ())
}

type Shown<'a> = dyn Fn(&FakeAmd, &FakeTpm, [u8; 64]) -> Option<ProcessorEvidence> + 'a;

/// What becomes of a nonce and a manifest.
type Data<'a> = dyn Fn([u8; 64], &[u8]) -> [u8; 64] + 'a;

/// A machine that booted image 1, judged live and from a recording.
fn decided_by(policy: &Policy, tpm: &FakeTpm, shown: &Shown<'_>) -> Result<Admission, Refusal> {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let (challenge, pending) = Appraisal::begin(policy, &tpm.identity(), NOW, &SystemRandom::new())?;
    let mut evidence = tpm.evidence(&challenge, &BINDING).unwrap();
    if let Some(processor) = shown(&amd, tpm, report_data(&BINDING, tpm.ak_public())) {
        evidence = evidence.with_processor(processor);
    }
    let evidence = TpmEvidence::from_json(&serde_json::to_vec(&evidence).unwrap()).unwrap();
    let verified = pending.confirm(evidence.activated_secret())?.verify(&evidence, &BINDING)?;
    let recording = RecordedEvidence::new(&tpm.identity(), &evidence, &verified, "test", NOW).unwrap();
    let collateral = ProcessorCollateral { snp: Some(amd.collateral()), tdx: None };
    let references = references(policy, &[image_json(1)]);
    let live = verified
        .with_processor(&evidence, policy, &collateral, NOW)
        .and_then(|verified| policy.validate(&verified, &references, LockExpectation::Unlocked, NOW));
    let lock = LockExpectation::Unlocked;
    let kept = recording.appraise_recorded_with_processor(policy, &references, lock, NOW, &collateral);
    assert_eq!(live.as_ref().map(Admission::trust), kept.as_ref().map(|finding| &finding.trust));
    live
}

fn decided(shown: &Shown<'_>) -> Result<Admission, Refusal> {
    decided_by(&support::policy(&with_snp(rule(LAUNCH))), &booted(1), shown)
}

fn code(decided: Result<Admission, Refusal>) -> ReasonCode {
    decided.unwrap_err().code()
}

#[test]
fn a_tpm_that_an_svsm_vouches_for_is_admitted_and_known_by_its_endorsement_key() {
    let tpm = booted(1);
    let policy = support::policy(&with_snp(rule(LAUNCH)));
    let (challenge, _) = Appraisal::begin(&policy, &tpm.identity(), NOW, &SystemRandom::new()).unwrap();
    assert_eq!(*challenge.processors(), [ProcessorKind::SnpSvsm].into());
    assert!(serde_json::to_string(&challenge).unwrap().contains(r#""processors":["snp-svsm"]"#));
    let admission = decided_by(&policy, &tpm, &|amd, tpm, nonce| Some(honest(amd, tpm, nonce))).unwrap();
    assert_eq!((admission.trust(), admission.ek_digest()), (&EkTrust::EkSvsm, digest_of(&tpm)));
    assert!(policy.trusts_authority() && policy.only_ek().is_none());
}

#[test]
fn without_the_report_or_without_the_manifest_nobody_is_admitted() {
    assert_eq!(code(decided(&|_, _, _| None)), ReasonCode::SnpReportMissing);
    let bare = |amd: &FakeAmd, data: [u8; 64]| {
        Some(amd.guest(SigningKey::Vcek, 3, |it| it.report[0x50..0x90].copy_from_slice(&data)).evidence().into())
    };
    // Neither one over session and AK, nor one that leaves out nothing but the manifest.
    assert_eq!(code(decided(&|amd, _, nonce| bare(amd, nonce))), ReasonCode::SnpSvsmManifestMissing);
    let over_manifest =
        |amd: &FakeAmd, tpm: &FakeTpm, nonce: [u8; 64]| bare(amd, svsm_report_data(&nonce, &tpm.ek_public().marshal()));
    assert_eq!(code(decided(&over_manifest)), ReasonCode::SnpSvsmManifestMissing);
}

#[test]
fn evidence_in_which_nobody_looked_for_the_report_is_not_admitted() {
    let (tpm, policy) = (booted(1), support::policy(&with_snp(rule(LAUNCH))));
    let verified = support::verified(&policy, &tpm).unwrap();
    let references = references(&policy, &[image_json(1)]);
    let refusal = policy.validate(&verified, &references, LockExpectation::Unlocked, NOW).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::SnpReportMissing);
    assert_eq!(policy.check_demands_no_processor().unwrap_err().code(), ReasonCode::SnpNotVerifiable);
    let none = ProcessorCollateral::default();
    assert_eq!(none.check_means(&policy).unwrap_err().code(), ReasonCode::SnpNotVerifiable);
}

#[test]
fn a_manifest_of_another_key_is_refused() {
    let other = booted(1);
    let of_other = decided(&|amd, _, nonce| Some(honest(amd, &other, nonce)));
    assert_eq!(code(of_other), ReasonCode::SnpSvsmManifestOfAnotherKey);
    for cut in [0, 1, 40] {
        let shorter = decided(&|amd, tpm, nonce| {
            let manifest = &tpm.ek_public().marshal()[..cut];
            Some(svsm(amd, svsm_report_data(&nonce, manifest), manifest, |_| ()))
        });
        assert_eq!(code(shorter), ReasonCode::SnpSvsmManifestOfAnotherKey, "{cut}");
    }
    let of_ak = decided(&|amd, tpm, nonce| {
        let manifest = tpm.ak_public().marshal();
        Some(svsm(amd, svsm_report_data(&nonce, &manifest), &manifest, |_| ()))
    });
    assert_eq!(code(of_ak), ReasonCode::SnpSvsmManifestOfAnotherKey);
}

#[test]
fn a_report_of_another_session_ak_or_manifest_is_refused() {
    let other = booted(1);
    let over = |data: &Data<'_>| {
        code(decided(&|amd, tpm, nonce| {
            let manifest = tpm.ek_public().marshal();
            Some(svsm(amd, data(nonce, &manifest), &manifest, |_| ()))
        }))
    };
    // Of this very AK and manifest: an earlier session's.
    let replayed = decided(&|amd, tpm, _| Some(honest(amd, tpm, report_data(&[0xb2; 32], tpm.ak_public()))));
    assert_eq!(code(replayed), ReasonCode::SnpReportDataMismatch);
    let ak = report_data(&BINDING, other.ak_public());
    assert_eq!(over(&|_, manifest| svsm_report_data(&ak, manifest)), ReasonCode::SnpReportDataMismatch);
    // As a guest without an SVSM would have it made: over session and AK alone.
    assert_eq!(over(&|nonce, _| nonce), ReasonCode::SnpReportDataMismatch);
    assert_eq!(over(&|nonce, _| svsm_report_data(&nonce, b"")), ReasonCode::SnpReportDataMismatch);
}

#[test]
fn a_report_of_another_vmpl_is_refused() {
    for vmpl in 1..=3 {
        let lower = decided(&|amd, tpm, nonce| {
            let manifest = tpm.ek_public().marshal();
            let data = svsm_report_data(&nonce, &manifest);
            Some(svsm(amd, data, &manifest, |it| it.report[0x30] = vmpl))
        });
        assert_eq!(code(lower), ReasonCode::SnpVmplRefused);
    }
}

#[test]
fn a_launch_that_the_rule_does_not_name_is_refused() {
    let policy = support::policy(&with_snp(rule(0xaa)));
    let refusal = decided_by(&policy, &booted(1), &|amd, tpm, nonce| Some(honest(amd, tpm, nonce))).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::SnpLaunchNotTrustedWithTpm);
    assert!(refusal.detail().contains(&"d1".repeat(48)), "{refusal}");
}

#[test]
fn a_guest_that_its_host_may_debug_is_refused() {
    let debug = decided(&|amd, tpm, nonce| {
        let manifest = tpm.ek_public().marshal();
        let data = svsm_report_data(&nonce, &manifest);
        Some(svsm(amd, data, &manifest, |it| it.report[0x08 + 2] |= 1 << 3))
    });
    assert_eq!(code(debug), ReasonCode::SnpDebugAllowed);
}

#[test]
fn a_manifest_that_no_rule_asks_for_is_refused() {
    let tpm = booted(1);
    let pin = pinned(&[digest_of(&tpm)]);
    for policy in [with_snp(pin.clone()), policy_json(pin)] {
        let policy = support::policy(&policy);
        let shown: &Shown<'_> = &|amd, tpm, nonce| Some(honest(amd, tpm, nonce));
        assert_eq!(code(decided_by(&policy, &tpm, shown)), ReasonCode::SnpSvsmManifestUnexpected);
    }
}

#[test]
fn a_policy_whose_rule_lacks_what_it_needs_is_refused_at_loading() {
    let refusal = |policy: &Value| Policy::from_json(policy.to_string().as_bytes()).unwrap_err();
    let whole = with_snp(rule(LAUNCH));
    support::policy(&whole);
    let mut no_snp = whole.clone();
    no_snp.as_object_mut().unwrap().remove("snp");
    assert!(refusal(&no_snp).detail().contains("add the section `snp`"));
    let mut vmpl = whole.clone();
    vmpl["snp"] = snp(2);
    assert!(refusal(&vmpl).detail().contains("`snp.vmpl` is 2"));
    let mut two = whole.clone();
    two["ak_trust"] = json!([pinned(&[digest_of(&booted(1))]), rule(LAUNCH)]);
    assert!(refusal(&two).detail().contains("the only one"));
    let mut none = whole.clone();
    none["ak_trust"] = json!([{"kind": "ek-svsm", "launch_sha384": []}]);
    assert_eq!(refusal(&none).code(), ReasonCode::PolicyEmpty);
    for wrong in [json!({"kind": "ek-svsm"}), json!({"kind": "ek-svsm", "launch_sha384": ["d1"]})] {
        none["ak_trust"] = json!([wrong]);
        assert_eq!(refusal(&none).code(), ReasonCode::PolicyMalformed);
    }
    let mut tdx = whole;
    tdx["tdx"] = json!({"mrtd": ["d1".repeat(48)], "tcb_status": ["UpToDate"], "rtmrs": "any"});
    assert!(refusal(&tdx).detail().contains("take out the section `tdx`"), "{}", refusal(&tdx));
}

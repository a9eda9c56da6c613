//! The rule `ak-azure-hcl`: a SEV-SNP report of VMPL 0 over the claims of Azure's paravisor is what makes its attestation key trusted.

use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use latchkey_attestation::fake_amd::{Change, FakeAmd};
use latchkey_attestation::fake_hcl::{claims, content, report_data};
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::parse::{
    AzureHclEvidence, HclReport, ProcessorEvidence, ProcessorKind, SigningKey, SnpProduct, SvsmEvidence,
};
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{
    Admission, Appraisal, EkDigest, EkTrust, LockExpectation, Policy, ReasonCode, RecordedEvidence, Refusal,
    TpmEvidence, report_data as session_data,
};
use latchkey_tpm::wire::{HashAlg, KeyScheme, Public, PublicKey, Signature, attestation_key};
use ring::rand::SystemRandom;
use serde_json::{Value, json};

use crate::support::{self, BINDING, NOW, booted, image_json, pinned, policy_json, references};

/// A machine that booted image 1, with an attestation key as Azure's: RSA with 2048 bits.
struct Machine {
    tpm: FakeTpm,
    key: KeyPair,
    ak: Public,
}

fn modulus(key: &KeyPair) -> Vec<u8> {
    // RSAPublicKey (RFC 8017, appendix A.1.1): two heads, a zero byte, the modulus.
    key.public_key().as_ref()[9..265].to_vec()
}

impl Machine {
    fn new() -> Self {
        let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let public = PublicKey::Rsa { bits: 2048, exponent: 0, modulus: modulus(&key) };
        let ak = Public { scheme: KeyScheme::RsaSsa(HashAlg::Sha256), key: public, ..attestation_key() };
        Self { tpm: booted(1).with_ak_public(ak.clone()), key, ak }
    }

    fn claims(&self) -> Vec<u8> {
        claims(&[("HCLAkPub", &modulus(&self.key)), ("HCLEkPub", &[0xc5; 256])])
    }

    fn evidence(&self, challenge: &latchkey_attestation::TpmChallenge) -> TpmEvidence {
        let attest = self.tpm.attest(challenge.pcrs().selection().unwrap(), &BINDING).marshal();
        let mut signature = vec![0; 256];
        self.key.sign(&RSA_PKCS1_SHA256, &aws_lc_rs::rand::SystemRandom::new(), &attest, &mut signature).unwrap();
        let signature = Signature::RsaSsa { hash: HashAlg::Sha256, signature }.marshal();
        let secret = self.tpm.activate(challenge.credential()).unwrap();
        TpmEvidence::new(attest, signature, self.tpm.pcr_values(challenge.pcrs()), secret, None).unwrap()
    }
}

fn policy(rule: Value) -> Value {
    let mut policy = policy_json(rule);
    policy["ak_algorithms"] = json!(["rsassa-2048-sha256"]);
    policy["snp"] = json!({
        "tcb_floor": {"milan": {"bootloader": 3, "snp": 8, "microcode": 115}}, "keys": ["vcek"],
        "revocation_list": "demanded", "vmpl": 0, "minimum_abi": "0.0", "allow": ["smt"],
    });
    policy
}

fn rule() -> Value {
    json!({"kind": "ak-azure-hcl", "launch_sha384": ["d1".repeat(48)]})
}

/// A report over these claims, changed, beside these.
fn shows(amd: &FakeAmd, over: &[u8], beside: &[u8], change: impl FnOnce(&mut Change)) -> ProcessorEvidence {
    let guest = amd.guest(SigningKey::Vcek, 3, |it| {
        it.report[0x50..0x90].copy_from_slice(&report_data(over));
        change(it);
    });
    AzureHclEvidence::new(guest.evidence(), beside.to_vec()).unwrap().into()
}

type Shown<'a> = dyn Fn(&FakeAmd, &Machine) -> Option<ProcessorEvidence> + 'a;

/// Judged live and from a recording.
fn decided_by(policy: &Policy, shown: &Shown<'_>) -> Result<Admission, Refusal> {
    let (machine, amd) = (Machine::new(), FakeAmd::new(SnpProduct::Milan));
    let identity = machine.tpm.identity();
    let (challenge, pending) = Appraisal::begin(policy, &identity, NOW, &SystemRandom::new())?;
    let evidence = machine.evidence(&challenge);
    let evidence = match shown(&amd, &machine) {
        Some(processor) => evidence.with_processor(processor),
        None => evidence,
    };
    let evidence = TpmEvidence::from_json(&serde_json::to_vec(&evidence).unwrap()).unwrap();
    let verified = pending.confirm(evidence.activated_secret())?.verify(&evidence, &BINDING)?;
    let recording = RecordedEvidence::new(&identity, &evidence, &verified, "test", NOW).unwrap();
    let collateral = ProcessorCollateral { snp: Some(amd.collateral()), tdx: None };
    let (references, lock) = (references(policy, &[image_json(1)]), LockExpectation::Unlocked);
    let live = verified
        .with_processor(&evidence, policy, &collateral, NOW)
        .and_then(|verified| policy.validate(&verified, &references, lock, NOW));
    let kept = recording.appraise_recorded_with_processor(policy, &references, lock, NOW, &collateral);
    assert_eq!(live.as_ref().map(Admission::trust), kept.as_ref().map(|finding| &finding.trust));
    if let Ok(admission) = &live {
        let digest = ring::digest::digest(&ring::digest::SHA256, &machine.ak.marshal());
        assert_eq!(admission.ek_digest().as_bytes(), digest.as_ref(), "known by its attestation key");
    }
    live
}

fn decided(shown: &Shown<'_>) -> Result<Admission, Refusal> {
    decided_by(&support::policy(&policy(rule())), shown)
}

fn code(decided: Result<Admission, Refusal>) -> ReasonCode {
    decided.unwrap_err().code()
}

#[expect(clippy::unnecessary_wraps, reason = "as what shows none")]
fn honest(amd: &FakeAmd, machine: &Machine) -> Option<ProcessorEvidence> {
    let claims = machine.claims();
    Some(shows(amd, &claims, &claims, |_| ()))
}

#[test]
fn a_machine_of_azure_is_admitted_by_its_paravisor_s_claims() {
    let admission = decided(&honest).unwrap();
    assert_eq!(*admission.trust(), EkTrust::AkAzureHcl);
    let challenge =
        Appraisal::begin(&support::policy(&policy(rule())), &Machine::new().tpm.identity(), NOW, &SystemRandom::new());
    assert_eq!(*challenge.unwrap().0.processors(), [ProcessorKind::SnpAzureHcl].into());
    // By who signed the launch, in the place of launches.
    let mut signed = policy(json!({"kind": "ak-azure-hcl"}));
    signed["snp"]["id_key_sha384"] = json!(["1d".repeat(48)]);
    // The same signer's older code would do.
    let refusal = Policy::from_json(signed.to_string().as_bytes()).unwrap_err();
    assert!(refusal.detail().contains("`snp.minimum_guest_svn`"), "{refusal}");
    signed["snp"]["minimum_guest_svn"] = json!(8);
    let signed = support::policy(&signed);
    assert_eq!(code(decided_by(&signed, &honest)), ReasonCode::SnpIdKeyRefused);
    let with_id_key = |amd: &FakeAmd, machine: &Machine| {
        let claims = machine.claims();
        Some(shows(amd, &claims, &claims, |it| {
            it.report[0xe0..0x110].fill(0x1d);
            it.report[4] = 8;
        }))
    };
    decided_by(&signed, &with_id_key).unwrap();
}

#[test]
fn another_key_than_the_one_that_quotes_is_refused() {
    let other = claims(&[("HCLAkPub", &[0xc5; 256])]);
    let of_other = decided(&|amd, _| Some(shows(amd, &other, &other, |_| ())));
    assert_eq!(code(of_other), ReasonCode::SnpHclClaimsOfAnotherKey);
    let as_ek = decided(&|amd, machine| {
        let claims = claims(&[("HCLAkPub", &[0xc5; 256]), ("HCLEkPub", &modulus(&machine.key))]);
        Some(shows(amd, &claims, &claims, |_| ()))
    });
    assert_eq!(code(as_ek), ReasonCode::SnpHclClaimsOfAnotherKey);
}

#[test]
fn a_report_that_is_not_over_the_claims_is_refused() {
    let over_others =
        decided(&|amd, machine| Some(shows(amd, &claims(&[("HCLAkPub", &[0xc5; 256])]), &machine.claims(), |_| ())));
    assert_eq!(code(over_others), ReasonCode::SnpHclClaimsMismatch);
    // Every byte of REPORT_DATA counts, also those that are zero.
    for at in [0x50, 0x6f, 0x70, 0x8f] {
        let changed = decided(&|amd, machine| {
            let claims = machine.claims();
            Some(shows(amd, &claims, &claims, |it| it.report[at] ^= 1))
        });
        assert_eq!(code(changed), ReasonCode::SnpHclClaimsMismatch, "{at:#x}");
    }
    // As other guests have it made.
    let of_session = decided(&|amd, machine| {
        let claims = machine.claims();
        let data = session_data(&BINDING, &machine.ak);
        Some(shows(amd, &claims, &claims, |it| it.report[0x50..0x90].copy_from_slice(&data)))
    });
    assert_eq!(code(of_session), ReasonCode::SnpHclClaimsMismatch);
}

#[test]
fn another_vmpl_or_launch_is_refused() {
    let changed = |at: usize, value: u8| {
        code(decided(&|amd, machine| {
            let claims = machine.claims();
            Some(shows(amd, &claims, &claims, |it| it.report[at] = value))
        }))
    };
    assert_eq!(changed(0x30, 2), ReasonCode::SnpVmplRefused);
    assert_eq!(changed(0x90, 0xaa), ReasonCode::SnpLaunchNotTrustedWithTpm);
}

#[test]
fn claims_that_name_no_one_key_are_refused() {
    let refused = |claims: &[u8]| code(decided(&|amd, _| Some(shows(amd, claims, claims, |_| ()))));
    let key = |kid, kty, n: &str, e| json!({"kid": kid, "kty": kty, "n": n, "e": e});
    let n = "x".repeat(341) + "A";
    let good = key("HCLAkPub", "RSA", &n, "AQAB");
    let of = |keys: &[Value]| json!({"keys": keys}).to_string().into_bytes();
    assert_eq!(refused(&of(std::slice::from_ref(&good))), ReasonCode::SnpHclClaimsOfAnotherKey, "it is one that reads");
    let lists = [
        vec![],
        vec![key("HCLEkPub", "RSA", &n, "AQAB")],
        vec![good.clone(), good.clone()],
        vec![key("HCLAkPub", "EC", &n, "AQAB")],
        vec![key("HCLAkPub", "RSA", &n, "Aw")],
        vec![key("HCLAkPub", "RSA", &n[4..], "AQAB")],
        vec![key("HCLAkPub", "RSA", &("A".repeat(342)), "AQAB")],
        vec![key("HCLAkPub", "RSA", "=", "AQAB")],
        vec![good.clone(); 9],
    ];
    for list in lists {
        assert_eq!(refused(&of(&list)), ReasonCode::SnpHclClaimsMalformed, "{list:?}");
    }
    for json in [&b""[..], b"{}", b"[]", br#"{"keys":[],"keys":[]}"#] {
        assert_eq!(refused(json), ReasonCode::SnpHclClaimsMalformed);
    }
}

#[test]
fn each_kind_of_report_is_refused_where_another_is_due() {
    let bare = |amd: &FakeAmd, data: [u8; 64]| {
        amd.guest(SigningKey::Vcek, 3, |it| it.report[0x50..0x90].copy_from_slice(&data)).evidence()
    };
    assert_eq!(code(decided(&|_, _| None)), ReasonCode::SnpReportMissing);
    let plain = decided(&|amd, machine| Some(bare(amd, report_data(&machine.claims())).into()));
    assert_eq!(code(plain), ReasonCode::SnpHclClaimsMissing);
    let svsm = decided(&|amd, machine| {
        Some(SvsmEvidence::new(bare(amd, report_data(&machine.claims())), vec![1]).unwrap().into())
    });
    assert_eq!(code(svsm), ReasonCode::SnpSvsmManifestUnexpected);
    // The other way round: policies that have no such rule.
    let svsm = json!({"kind": "ek-svsm", "launch_sha384": ["d1".repeat(48)]});
    assert_eq!(code(decided_by(&support::policy(&policy(svsm)), &honest)), ReasonCode::SnpHclClaimsUnexpected);
    let tpm = Machine::new().tpm;
    let pinning = pinned(&[EkDigest::of_public_area(&tpm.ek_public().marshal()).unwrap()]);
    let amd = FakeAmd::new(SnpProduct::Milan);
    let evidence = honest(&amd, &Machine::new());
    let machine = Machine { tpm, ..Machine::new() };
    let machine = Machine { tpm: machine.tpm.with_ak_public(machine.ak.clone()), ..machine };
    for policy in [policy(pinning.clone()), {
        let mut policy = policy(pinning);
        policy.as_object_mut().unwrap().remove("snp");
        policy
    }] {
        let policy = support::policy(&policy);
        let (challenge, pending) =
            Appraisal::begin(&policy, &machine.tpm.identity(), NOW, &SystemRandom::new()).unwrap();
        let shown = machine.evidence(&challenge).with_processor(evidence.clone().unwrap());
        let verified = pending.confirm(shown.activated_secret()).unwrap().verify(&shown, &BINDING).unwrap();
        let collateral = ProcessorCollateral { snp: Some(amd.collateral()), tdx: None };
        let refusal = verified.with_processor(&shown, &policy, &collateral, NOW).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::SnpHclClaimsUnexpected);
    }
}

#[test]
fn a_rule_that_does_not_say_which_code_is_at_vmpl_0_is_refused_at_loading() {
    let refusal = |policy: &Value| Policy::from_json(policy.to_string().as_bytes()).unwrap_err();
    assert!(refusal(&policy(json!({"kind": "ak-azure-hcl"}))).detail().contains("`snp.id_key_sha384`"));
    let mut no_snp = policy(rule());
    no_snp.as_object_mut().unwrap().remove("snp");
    assert!(refusal(&no_snp).detail().contains("`ak-azure-hcl`"));
    let mut ecdsa = policy(rule());
    ecdsa["ak_algorithms"] = json!(["ecdsa-p256-sha256"]);
    assert!(refusal(&ecdsa).detail().contains("`rsassa-2048-sha256`"));
    let mut vmpl = policy(rule());
    vmpl["snp"]["vmpl"] = json!(1);
    assert!(refusal(&vmpl).detail().contains("`snp.vmpl` is 1"));
}

#[test]
fn what_the_paravisor_left_is_read_and_nothing_else() {
    let (report, claims) = ([7; 1184], claims(&[("HCLAkPub", &[0xc5; 256])]));
    for version in [1, 2] {
        let whole = [content(&report, &claims, version), vec![0; 99]].concat();
        assert_eq!(HclReport::parse(&whole).unwrap(), HclReport { report: &report, claims: &claims });
        let evidence = AzureHclEvidence::from_nv(&whole).unwrap();
        assert_eq!((evidence.snp().report(), evidence.claims()), (&report[..], &claims[..]));
        let end = 1236 + if version == 1 { 0 } else { 4 } + claims.len();
        assert_eq!(HclReport::parse(&whole[..end]).unwrap().claims, claims);
        for length in (0..end).step_by(31).chain([end - 1]) {
            let refusal = HclReport::parse(&whole[..length]).unwrap_err();
            assert_eq!(refusal.code(), ReasonCode::SnpHclReportMalformed, "{length}");
        }
        // Signature, version of the data, types of report and hash, size of the claims.
        for (at, value) in [(0, 0), (1220, 9), (1224, 3), (1228, 2), (1235, 1), (1234, 1)] {
            let mut wrong = whole.clone();
            wrong[at] = value;
            let refusal = HclReport::parse(&wrong).unwrap_err();
            assert_eq!(refusal.code(), ReasonCode::SnpHclReportMalformed, "{at}");
        }
    }
}

/// A report of TDX is 1024 bytes, in the same place; the rest is as with SEV-SNP.
#[test]
fn a_machine_with_tdx_is_told_that_it_is_one() {
    let mut report = [0; 1184];
    report[0] = 0x81;
    let mut content = content(&report, &claims(&[("HCLAkPub", &[0xc5; 256])]), 1);
    content[1224] = 4;
    let refusal = HclReport::parse(&content).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::SnpHclReportOfTdx);
    assert!(refusal.detail().contains("Intel TDX"), "{}", refusal.detail());
    assert_eq!(AzureHclEvidence::from_nv(&content).unwrap_err().code(), ReasonCode::SnpHclReportOfTdx);
}

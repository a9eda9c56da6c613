//! What the processor of a TDX guest says: quotes of a fake Intel, whose every part is somebody's to get wrong, and real ones.

#![expect(clippy::unwrap_used, reason = "tests")]

mod composed;
mod inventory;
mod real;
mod registers;

use latchkey_attestation::fake_intel::{FakeIntel, PPID, REPORT_DATA, field};
use latchkey_attestation::policy::TdxPolicy;
use latchkey_attestation::validate::AdmittedTdx;
use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::tdx::{TdxCollateral, TdxQuote};
use latchkey_attestation::{ReasonCode, Refusal};
use serde_json::{Value, json};

use crate::support::NOW;

/// A policy that takes the fake Intel's guests.
fn section() -> Value {
    json!({ "mrtd": ["d1".repeat(48)], "tcb_status": ["UpToDate"], "rtmrs": "any" })
}

fn policy(section: &Value) -> TdxPolicy {
    TdxPolicy::from_json(section.to_string().as_bytes()).unwrap()
}

fn decided(intel: &FakeIntel, quote: &[u8], section: &Value) -> Result<AdmittedTdx, Refusal> {
    let verified = intel.collateral().verify(quote, &REPORT_DATA, NOW)?;
    policy(section).validate(&verified)
}

fn refused(intel: &FakeIntel, quote: &[u8], section: &Value) -> ReasonCode {
    decided(intel, quote, section).unwrap_err().code()
}

#[test]
fn a_guest_of_a_platform_that_is_up_to_date_is_admitted_and_told_of() {
    let intel = FakeIntel::default();
    let admitted = decided(&intel, &intel.quote(|_| ()), &section()).unwrap();
    assert_eq!(admitted.fmspc(), "b0c06f000000");
    assert_eq!(admitted.ppid(), hex::encode(PPID));
    assert_eq!(admitted.to_string(), "TDX, FMSPC b0c06f000000 (UpToDate)");
    assert!(admitted.advisories().is_empty());
    assert!(admitted.collateral_ends() > NOW);
}

#[test]
fn each_bit_of_a_quote_that_is_flipped_is_refused() {
    let intel = FakeIntel::default();
    let (collateral, quote) = (intel.collateral(), intel.quote(|_| ()));
    // Header and report; the length of what follows; signature, key and what vouches for the enclave; the chain of certificates.
    let (lengths, chain) = ([632..636, 766..770, 1254..1258], 1258);
    for at in 0..quote.len() {
        // Of the chain, a byte here and there: what is in it is signed, and PEM may be written in several ways.
        if at >= chain && at % 37 != 0 {
            continue;
        }
        for bit in 0..8 {
            let mut flipped = quote.clone();
            flipped[at] ^= 1 << bit;
            let verified = collateral.verify(&flipped, &REPORT_DATA, NOW);
            let unchanged = || {
                let (before, after) = (TdxQuote::parse(&quote).unwrap(), TdxQuote::parse(&flipped).unwrap());
                (before.mrtd(), before.rtmrs(), before.fmspc()) == (after.mrtd(), after.rtmrs(), after.fmspc())
            };
            // White space in and after PEM may be lost: nothing else of it is taken.
            let loose = at >= chain || lengths.iter().any(|length| length.contains(&at));
            assert!(verified.is_err() || (loose && unchanged()), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn quotes_that_are_cut_or_lie_about_their_lengths_are_refused_and_nothing_panics() {
    let intel = FakeIntel::default();
    let quote = intel.quote(|_| ());
    for length in 0..quote.len() {
        assert!(TdxQuote::parse(&quote[..length]).is_err(), "{length} bytes");
    }
    // The length of the signature data, of what vouches for the enclave, and of the chain.
    for at in [632, 636 + 128 + 2, 636 + 134 + 384 + 64 + 34 + 2] {
        for length in [0, 1, u32::MAX, u32::MAX / 2, 0x0010_0000] {
            let mut lying = quote.clone();
            lying[at..at + 4].copy_from_slice(&length.to_le_bytes());
            let refusal = intel.collateral().verify(&lying, &REPORT_DATA, NOW).unwrap_err();
            assert_eq!(refusal.code(), ReasonCode::TdxQuoteMalformed, "at {at}: {refusal}");
        }
    }
    let mut long = quote;
    long.resize(16 * 1024 + 1, 0);
    assert_eq!(TdxQuote::parse(&long).unwrap_err().code(), ReasonCode::TdxQuoteMalformed);
}

#[test]
fn a_guest_whose_host_may_look_into_it_or_move_it_is_refused_by_every_policy() {
    let intel = FakeIntel::default();
    let with = |bits: u64| intel.quote(|report| report[field::ATTRIBUTES..][..8].copy_from_slice(&bits.to_le_bytes()));
    let all = json!({
        "mrtd": ["d1".repeat(48)], "tcb_status": ["UpToDate"], "rtmrs": "any",
        "allow": ["service-td", "performance-monitoring", "key-locker"],
    });
    let safe = 1 << 28;
    for (bits, code) in [
        (safe | 1, ReasonCode::TdxDebugAllowed),
        (safe | 1 << 4, ReasonCode::TdxDebugAllowed),
        (safe | 1 << 29, ReasonCode::TdxMigrationAllowed),
        (0, ReasonCode::TdxAttributesRefused),
        (safe | 1 << 62, ReasonCode::TdxAttributesRefused),
        // Bits that mean nothing yet are the library's to refuse.
        (safe | 1 << 40, ReasonCode::TdxQuoteUntrusted),
    ] {
        assert_eq!(refused(&intel, &with(bits), &all), code, "{bits:#x}");
    }
    for (bit, word) in [(63, "performance-monitoring"), (31, "key-locker")] {
        let quote = with(safe | 1 << bit);
        assert_eq!(refused(&intel, &quote, &section()), ReasonCode::TdxAttributesRefused);
        let mut allowing = section();
        allowing["allow"] = json!([word]);
        decided(&intel, &quote, &allowing).unwrap();
    }
}

#[test]
fn what_intel_says_of_a_platform_must_be_what_the_policy_takes() {
    let advised = FakeIntel::with(|it| {
        it.status = "SWHardeningNeeded";
        it.advisories = &["INTEL-SA-00837", "INTEL-SA-00960"];
    });
    let quote = advised.quote(|_| ());
    let code = |section: &Value| refused(&advised, &quote, section);
    assert_eq!(code(&section()), ReasonCode::TdxTcbStatusRefused);
    let mut taking = section();
    taking["tcb_status"] = json!(["UpToDate", "SWHardeningNeeded"]);
    assert_eq!(code(&taking), ReasonCode::TdxAdvisoryNotTolerated);
    taking["tolerated_advisories"] = json!(["INTEL-SA-00837"]);
    let refusal = decided(&advised, &quote, &taking).unwrap_err();
    assert!(refusal.detail().contains("INTEL-SA-00960") && !refusal.detail().contains("00837"), "{refusal}");
    taking["tolerated_advisories"] = json!(["INTEL-SA-00837", "INTEL-SA-00960"]);
    assert_eq!(decided(&advised, &quote, &taking).unwrap().advisories().len(), 2);
    taking["minimum_tcb_evaluation"] = json!(18);
    assert_eq!(code(&taking), ReasonCode::TdxEvaluationTooOld);
    let revoked = FakeIntel::with(|it| it.status = "Revoked");
    assert_eq!(refused(&revoked, &revoked.quote(|_| ()), &taking), ReasonCode::TdxTcbRevoked);
}

#[test]
fn each_demand_of_a_policy_refuses_what_does_not_meet_it() {
    let intel = FakeIntel::default();
    let quote = intel.quote(|_| ());
    let other = "aa".repeat(48);
    for (field, value, code) in [
        ("mrtd", json!([other]), ReasonCode::TdxMrtdUnknown),
        ("rtmrs", json!({"1": [other]}), ReasonCode::TdxRtmrDiffers),
        ("mrseam", json!([other]), ReasonCode::TdxModuleRefused),
        ("xfam", json!("e702040000000000"), ReasonCode::TdxXfamDiffers),
        ("mr_config_id", json!(other), ReasonCode::TdxLaunchDiffers),
        ("mr_owner", json!(other), ReasonCode::TdxLaunchDiffers),
        ("mr_owner_config", json!(other), ReasonCode::TdxLaunchDiffers),
        ("denied_platforms", json!([hex::encode(PPID)]), ReasonCode::TdxPlatformDenied),
    ] {
        let mut section = section();
        section[field] = value;
        assert_eq!(refused(&intel, &quote, &section), code, "{field}");
    }
    let mut exact = section();
    exact["rtmrs"] = json!({"0": ["b0".repeat(48)], "1": [other, "b1".repeat(48)], "3": ["b3".repeat(48)]});
    exact["mrseam"] = json!(["e1".repeat(48)]);
    exact["xfam"] = json!("e702060000000000");
    exact["mr_config_id"] = json!("00".repeat(48));
    decided(&intel, &quote, &exact).unwrap();
}

#[test]
fn a_section_that_could_admit_anybody_or_nobody_is_refused() {
    for (field, value, code) in [
        ("mrtd", json!([]), ReasonCode::PolicyEmpty),
        ("tcb_status", json!([]), ReasonCode::PolicyEmpty),
        ("tcb_status", json!(["Revoked"]), ReasonCode::PolicyMalformed),
        ("rtmrs", json!({"1": []}), ReasonCode::PolicyEmpty),
        ("rtmrs", json!({}), ReasonCode::PolicyEmpty),
        ("rtmrs", json!("none"), ReasonCode::PolicyMalformed),
        ("rtmrs", json!({"1": "any"}), ReasonCode::PolicyMalformed),
        ("rtmrs", json!(null), ReasonCode::PolicyMalformed),
        ("xfam", json!(null), ReasonCode::PolicyMalformed),
        ("rtmrs", json!({"4": ["d1".repeat(48)]}), ReasonCode::PolicyMalformed),
        ("tolerated_advisories", json!(["all"]), ReasonCode::PolicyMalformed),
        ("allow", json!(["debug"]), ReasonCode::PolicyMalformed),
        ("mrsignerseam", json!("00"), ReasonCode::PolicyMalformed),
    ] {
        let mut section = section();
        section[field] = value;
        let refusal = TdxPolicy::from_json(section.to_string().as_bytes()).unwrap_err();
        assert_eq!(refusal.code(), code, "{field}: {refusal}");
    }
}

#[test]
fn what_is_missing_over_early_or_revoked_is_named() {
    let intel = FakeIntel::default();
    let quote = intel.quote(|_| ());
    for (left_out, named) in [
        ("pck-platform.crl", "PCK authority platform revoked"),
        ("root.crl", "root revoked"),
        ("tcb.json", "TCB information of FMSPC b0c06f000000"),
        ("qe.json", "quoting enclave"),
    ] {
        let files: Vec<_> = intel.files().iter().filter(|(name, _)| *name != left_out).collect();
        let files: Vec<_> = files.iter().map(|(name, content)| CollateralFile { name, content }).collect();
        let collateral = TdxCollateral::with_fake_root(&files, intel.root()).unwrap();
        let refusal = collateral.verify(&quote, &REPORT_DATA, NOW).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::TdxCollateralMissing, "{left_out}");
        assert!(refusal.detail().contains(named), "{refusal}");
    }
    for (years, code) in
        [([2020, 2024], ReasonCode::TdxCollateralExpired), ([2029, 2030], ReasonCode::TdxCollateralNotYetValid)]
    {
        let intel = FakeIntel::with(|it| it.tcb_years = years);
        let refusal = decided(&intel, &intel.quote(|_| ()), &section()).unwrap_err();
        assert_eq!(refusal.code(), code);
        assert!(refusal.detail().contains("TCB information"), "{refusal}");
    }
    for revoked in [FakeIntel::with(|it| it.platform_revoked = true), FakeIntel::with(|it| it.authority_revoked = true)]
    {
        assert_eq!(refused(&revoked, &revoked.quote(|_| ()), &section()), ReasonCode::TdxCertificateRevoked);
    }
}

#[test]
fn a_platform_that_is_too_old_and_a_module_that_is_unknown_are_told_from_a_quote_that_is_not_intel_s() {
    type Change = fn(&mut [u8; 584]);
    let intel = FakeIntel::default();
    // TEE_TCB_SVN begins the report, MRSIGNERSEAM and SEAMATTRIBUTES stand at 64 and 112.
    let cases: [(Change, ReasonCode); 3] = [
        (|report| report[2] = 1, ReasonCode::TdxTcbTooOld),
        (|report| report[64] = 1, ReasonCode::TdxModuleUnknown),
        (|report| report[112] = 1, ReasonCode::TdxModuleUnknown),
    ];
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        let refusal = decided(&intel, &intel.quote(change), &section()).unwrap_err();
        assert_eq!(refusal.code(), expected, "case {number}: {refusal}");
        assert!(!refusal.detail().contains("No matching"), "the library's words: {refusal}");
    }
    for (days, expected) in [
        (["281128", "400101"], ReasonCode::TdxCertificateNotYetValid),
        (["200101", "250101"], ReasonCode::TdxCertificateExpired),
    ] {
        let intel = FakeIntel::with(|it| it.platform_days = days);
        assert_eq!(refused(&intel, &intel.quote(|_| ()), &section()), expected);
    }
}

#[test]
fn a_quote_of_another_intel_or_over_other_data_is_refused() {
    let (intel, other) = (FakeIntel::default(), FakeIntel::default());
    assert_eq!(refused(&intel, &other.quote(|_| ()), &section()), ReasonCode::TdxQuoteUntrusted);
    let relayed = intel.quote(|report| report[field::REPORT_DATA] ^= 1);
    assert_eq!(refused(&intel, &relayed, &section()), ReasonCode::TdxReportDataMismatch);
    // What a release believes.
    let files: Vec<_> = intel.files().iter().map(|(name, content)| CollateralFile { name, content }).collect();
    assert_eq!(TdxCollateral::new(&files).unwrap_err().code(), ReasonCode::CollateralRootUnknown);
}

//! SEV-SNP reports: real ones of Milan, and all products by an authority made for the test.

#![expect(clippy::unwrap_used, reason = "tests")]

mod certificate_table;
mod composed;
mod fixture;
mod hcl;
mod inventory;
use crate::support;
mod svsm;

use latchkey_attestation::parse::{HostCertificates, SigningKey, SnpProduct, SnpReport};
use latchkey_attestation::policy::{RevocationList, SnpPolicy};
use latchkey_attestation::validate::AdmittedSnp;
use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::snp::SnpCollateral;
use latchkey_attestation::{EkDigest, Policy, ReasonCode, Refusal};
use serde_json::{Value, json};

use crate::support::NOW;
use latchkey_attestation::fake_amd::{Change, FakeAmd, Guest, REPORT_DATA};

const RULE: RevocationList = RevocationList::Demanded;

/// What is refused, and what the report has to say for that.
type ReportCase = (ReasonCode, fn(&mut Change));
/// The same, and what the policy has to say.
type PolicyCase = (ReasonCode, fn(&mut Value), fn(&mut Change));

fn code_of(amd: &FakeAmd, guest: &Guest) -> Option<ReasonCode> {
    code_at(amd, guest, NOW)
}

fn code_at(amd: &FakeAmd, guest: &Guest, now: u64) -> Option<ReasonCode> {
    let report = match SnpReport::parse(&guest.report) {
        Ok(report) => report,
        Err(refusal) => return Some(refusal.code()),
    };
    let verified = amd.collateral().verify(&report, guest.host(), &REPORT_DATA, RULE, now);
    verified.err().map(|refusal| refusal.code())
}

#[test]
fn a_report_of_every_product_and_both_kinds_of_key_is_verified() {
    for product in SnpProduct::ALL {
        let amd = FakeAmd::new(product);
        for kind in [SigningKey::Vcek, SigningKey::Vlek] {
            for version in 2..=5 {
                let guest = amd.guest(kind, version, |_| ());
                let report = SnpReport::parse(&guest.report).unwrap();
                let verified = amd.collateral().verify(&report, guest.host(), &REPORT_DATA, RULE, NOW).unwrap();
                assert_eq!((verified.product(), verified.report().version()), (product, version));
                assert_eq!(verified.reported_tcb(), amd.tcb(), "{product}");
            }
        }
    }
}

#[test]
fn a_certificate_for_another_kind_chip_firmware_or_product_is_refused() {
    let amd = FakeAmd::new(SnpProduct::Genoa);
    let cases: [ReportCase; 6] = [
        (ReasonCode::SnpCertificateOfAnotherChip, |it| it.report[0x1a0] ^= 1),
        (ReasonCode::SnpCertificateOfAnotherChip, |it| it.report[0x48] |= 2),
        (ReasonCode::SnpCertificateOfAnotherTcb, |it| it.report[0x187] ^= 1),
        (ReasonCode::SnpCertificateOfAnotherTcb, |it| it.report[0x180] ^= 1),
        (ReasonCode::SnpCertificateOfAnotherKind, |it| it.report[0x48] = 1 << 2),
        (ReasonCode::SnpCertificateOfAnotherProduct, |it| it.report[0x189] = 1),
    ];
    for (expected, change) in cases {
        let mut guest = amd.guest(SigningKey::Vcek, 3, change);
        if expected == ReasonCode::SnpCertificateOfAnotherKind {
            // A chip's certificate where a provider's belongs.
            guest.vlek = guest.vcek.take();
        }
        assert_eq!(code_of(&amd, &guest), Some(expected));
    }
}

#[test]
fn a_providers_key_under_the_chips_authority_is_refused_and_the_other_way_round() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    for kind in [SigningKey::Vcek, SigningKey::Vlek] {
        let guest = amd.guest(kind, 2, |it| it.issued_by_the_other_authority = true);
        assert_eq!(code_of(&amd, &guest), Some(ReasonCode::SnpCertificateUntrusted));
    }
}

#[test]
fn a_root_that_is_not_built_in_makes_nothing_true() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let files = [CollateralFile { name: "chain.pem", content: &amd.chain }];
    let refusal = SnpCollateral::new(&files).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::CollateralRootUnknown, "{refusal}");
    // Its own root beside AMD's name is no way in, either.
    let other = FakeAmd::new(SnpProduct::Milan);
    let guest = other.guest(SigningKey::Vcek, 2, |_| ());
    assert_eq!(code_of(&amd, &guest), Some(ReasonCode::SnpCertificateUntrusted));
}

#[test]
fn a_revoked_authority_a_list_that_ended_and_a_missing_list_are_refused() {
    let revoked = FakeAmd::with(SnpProduct::Milan, |it| it.revoked = true);
    let guest = revoked.guest(SigningKey::Vcek, 2, |_| ());
    assert_eq!(code_of(&revoked, &guest), Some(ReasonCode::SnpCertificateRevoked));
    let amd = FakeAmd::new(SnpProduct::Milan);
    let guest = amd.guest(SigningKey::Vcek, 2, |_| ());
    let year = 365 * 86_400;
    assert_eq!(code_at(&amd, &guest, NOW + 5 * year), Some(ReasonCode::SnpRevocationListExpired));
    assert_eq!(code_at(&amd, &guest, NOW + 20 * year), Some(ReasonCode::SnpCertificateExpired));
    assert_eq!(code_at(&amd, &guest, NOW - 20 * year), Some(ReasonCode::SnpCertificateNotYetValid));
    let without = FakeAmd::with(SnpProduct::Milan, |it| it.list = false);
    let guest = without.guest(SigningKey::Vcek, 2, |_| ());
    assert_eq!(code_of(&without, &guest), Some(ReasonCode::SnpRevocationListMissing));
}

#[test]
fn what_was_verified_once_is_not_taken_when_its_time_is_over() {
    let amd = FakeAmd::new(SnpProduct::Turin);
    let guest = amd.guest(SigningKey::Vcek, 5, |_| ());
    let (collateral, report) = (amd.collateral(), SnpReport::parse(&guest.report).unwrap());
    let at = |now| collateral.verify(&report, guest.host(), &REPORT_DATA, RULE, now).map(drop).map_err(|it| it.code());
    assert_eq!((at(NOW), at(NOW)), (Ok(()), Ok(())));
    assert_eq!(at(NOW + 5 * 365 * 86_400), Err(ReasonCode::SnpRevocationListExpired));
    assert_eq!(at(NOW), Ok(()));
}

#[test]
fn a_certificate_of_the_collateral_stands_in_for_one_that_the_host_does_not_give() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let guest = amd.guest(SigningKey::Vcek, 2, |_| ());
    let report = SnpReport::parse(&guest.report).unwrap();
    let collateral = amd.collateral_with(&[CollateralFile { name: "vcek.der", content: guest.vcek.as_ref().unwrap() }]);
    let none = HostCertificates::default();
    assert_eq!(collateral.verify(&report, none, &REPORT_DATA, RULE, NOW).unwrap().product(), SnpProduct::Milan);
    let refusal = amd.collateral().verify(&report, none, &REPORT_DATA, RULE, NOW).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::SnpCertificateMissing);
}

#[test]
fn a_report_over_other_data_is_refused() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let guest = amd.guest(SigningKey::Vcek, 2, |it| it.report[0x50] ^= 1);
    assert_eq!(code_of(&amd, &guest), Some(ReasonCode::SnpReportDataMismatch));
}

#[test]
fn every_bit_of_a_report_counts() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let guest = amd.guest(SigningKey::Vcek, 3, |_| ());
    let collateral = amd.collateral();
    for bit in 0..SnpReport::SIZE * 8 {
        let mut changed = guest.report;
        changed[bit / 8] ^= 1 << (bit % 8);
        let outcome = SnpReport::parse(&changed)
            .and_then(|report| collateral.verify(&report, guest.host(), &REPORT_DATA, RULE, NOW).map(drop));
        assert!(outcome.is_err(), "bit {bit}");
    }
}

/// Reports and certificates of real chips, from public projects.
fn real(name: &str) -> Option<Vec<u8>> {
    latchkey_test_support::vector(&format!("snp/{name}"))
}

#[test]
fn reports_of_real_chips_verify_and_with_any_bit_changed_do_not() {
    let (Some(chain), Some(first), Some(second)) =
        (real("chain-milan.pem"), real("report-milan-1.hex"), real("report-milan-2.bin"))
    else {
        return;
    };
    let first = hex::decode(String::from_utf8(first).unwrap().trim()).unwrap();
    // AMD's list of what it revoked is not among the vectors.
    let collateral = SnpCollateral::new(&[CollateralFile { name: "chain", content: &chain }]).unwrap();
    for (bytes, vcek) in [(first, "vcek-milan-1.der"), (second, "vcek-milan-2.der")] {
        let vcek = real(vcek).unwrap();
        let verify = |report: &[u8], vcek: &[u8], rule| {
            let report = SnpReport::parse(report)?;
            let host = HostCertificates { vcek: Some(vcek), vlek: None };
            collateral.verify(&report, host, &report.report_data(), rule, NOW)
        };
        let verified = verify(&bytes, &vcek, RevocationList::IfThere).unwrap();
        assert_eq!(verified.product(), SnpProduct::Milan);
        let refusal = verify(&bytes, &vcek, RULE).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::SnpRevocationListMissing, "{refusal}");
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&changed, &vcek, RevocationList::IfThere).is_err(), "bit {bit} of the report");
        }
        for bit in 0..vcek.len() * 8 {
            let mut changed = vcek.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&bytes, &changed, RevocationList::IfThere).is_err(), "bit {bit} of the certificate");
        }
    }
}

/// Of a processor of the newest generation, which says in bit 6 of `PLATFORM_INFO` that its IOMMU's writes are safe.
#[test]
fn a_report_of_a_real_turin_is_verified_and_admitted_with_what_it_says_of_its_machine() {
    let [Some(bytes), Some(vcek), Some(chain)] =
        ["foreign/ms-turin-report.bin", "foreign/ms-turin-vcek.der", "snp/chain-turin.pem"]
            .map(latchkey_test_support::vector)
    else {
        return;
    };
    let report = SnpReport::parse(&bytes).unwrap();
    assert!(report.platform().iommu_writes_safe() && report.platform().unknown() == 0);
    let collateral = SnpCollateral::new(&[CollateralFile { name: "chain", content: &chain }]).unwrap();
    let host = HostCertificates { vcek: Some(&vcek), vlek: None };
    let verified = collateral.verify(&report, host, &report.report_data(), RevocationList::IfThere, NOW).unwrap();
    assert_eq!((verified.product(), verified.report().version()), (SnpProduct::Turin, 5));
    let demanding = |it: &mut Value| {
        it["tcb_floor"] = json!({"turin": verified.reported_tcb()});
        it["demand"] = json!(["alias-check", "iommu-write-safe"]);
        it["allow"] = json!(["smt", "provisional-firmware"]);
    };
    let admitted = snp_policy(demanding).unwrap().snp().unwrap().validate(&verified).unwrap();
    assert_eq!(admitted.product(), SnpProduct::Turin);
    for bit in 0..0x2a0 * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let outcome = SnpReport::parse(&changed).and_then(|report| {
            collateral.verify(&report, host, &report.report_data(), RevocationList::IfThere, NOW).map(drop)
        });
        assert!(outcome.is_err(), "bit {bit}");
    }
}

fn snp_policy(change: impl FnOnce(&mut Value)) -> Result<Policy, Refusal> {
    let mut snp = json!({
        "tcb_floor": {
            "milan": {"bootloader": 3, "snp": 8, "microcode": 115}, "turin": {"bootloader": 3, "snp": 8, "fmc": 1},
        },
        "keys": ["vcek", "vlek"], "providers": ["plant"], "revocation_list": "demanded", "vmpl": 0, "minimum_abi": "0.0",
        "allow": ["smt"],
    });
    change(&mut snp);
    let mut policy = support::policy_json(support::pinned(&[EkDigest::from_hex(&"ab".repeat(32)).unwrap()]));
    policy["snp"] = snp;
    Policy::from_json(policy.to_string().as_bytes())
}

fn judged(
    amd: &FakeAmd,
    kind: SigningKey,
    policy: impl FnOnce(&mut Value),
    change: impl FnOnce(&mut Change),
) -> Result<AdmittedSnp, ReasonCode> {
    let guest = amd.guest(kind, 5, change);
    let report = SnpReport::parse(&guest.report).unwrap();
    let verified = amd.collateral().verify(&report, guest.host(), &REPORT_DATA, RULE, NOW).unwrap();
    let policy = snp_policy(policy).unwrap();
    policy.snp().unwrap().validate(&verified).map_err(|refusal| refusal.code())
}

#[test]
fn a_guest_that_is_as_the_policy_says_is_admitted_with_its_product_firmware_and_provider() {
    let amd = FakeAmd::new(SnpProduct::Turin);
    let admitted = judged(&amd, SigningKey::Vcek, |_| (), |_| ()).unwrap();
    assert_eq!((admitted.product(), admitted.tcb(), admitted.provider()), (SnpProduct::Turin, amd.tcb(), None));
    assert_eq!(judged(&amd, SigningKey::Vlek, |_| (), |_| ()).unwrap().provider(), Some("plant"));
}

#[test]
fn each_demand_of_a_policy_refuses_what_lacks_it_with_a_code_of_its_own() {
    let set: [PolicyCase; 27] = [
        (ReasonCode::SnpChipDenied, |it| it["denied_chips"] = json!(["c1".repeat(64)]), |_| ()),
        (ReasonCode::SnpChipUnknown, |it| it["chips"] = json!(["c2".repeat(64)]), |_| ()),
        (ReasonCode::SnpProductRefused, |it| it["tcb_floor"] = json!({"genoa": {}}), |_| ()),
        (ReasonCode::SnpTcbTooOld, |it| it["tcb_floor"]["milan"]["microcode"] = 116.into(), |_| ()),
        // What runs, what ran at the launch, and what the host may go back to, each one part below.
        (ReasonCode::SnpTcbTooOld, |_| (), |it| it.report[0x38] = 2),
        (ReasonCode::SnpTcbTooOld, |_| (), |it| it.report[0x1f6] = 7),
        (ReasonCode::SnpTcbTooOld, |_| (), |it| it.report[0x1e7] = 114),
        (ReasonCode::SnpFirmwareProvisional, |_| (), |it| it.report[0x1e8] = 5),
        (ReasonCode::SnpDebugAllowed, |_| (), |it| it.report[0x0a] |= 1 << 3),
        (ReasonCode::SnpMigrationAllowed, |_| (), |it| it.report[0x0a] |= 1 << 2),
        (ReasonCode::SnpSmtAllowed, |it| it["allow"] = json!([]), |_| ()),
        (ReasonCode::SnpCxlAllowed, |_| (), |it| it.report[0x0a] |= 1 << 5),
        (ReasonCode::SnpNotSingleSocket, |it| it["demand"] = json!(["single-socket"]), |_| ()),
        (ReasonCode::SnpAbiTooOld, |it| it["minimum_abi"] = "0.31".into(), |_| ()),
        (ReasonCode::SnpCiphertextVisible, |it| it["demand"] = json!(["ciphertext-hiding"]), |_| ()),
        // The machine hides it, and the guest would start on one that does not.
        (
            ReasonCode::SnpCiphertextVisible,
            |it| it["demand"] = json!(["ciphertext-hiding"]),
            |it| it.report[0x40] |= 16,
        ),
        (ReasonCode::SnpAliasesUnchecked, |it| it["demand"] = json!(["alias-check"]), |_| ()),
        (ReasonCode::SnpIommuWritesUnsafe, |it| it["demand"] = json!(["iommu-write-safe"]), |_| ()),
        (ReasonCode::SnpPlatformInfoUnknown, |_| (), |it| it.report[0x47] = 0x80),
        (ReasonCode::SnpVmplRefused, |_| (), |it| it.report[0x30] = 1),
        (ReasonCode::SnpIdKeyRefused, |it| it["id_key_sha384"] = json!(["1d".repeat(48)]), |_| ()),
        (ReasonCode::SnpAuthorKeyRefused, |it| it["author_key_sha384"] = json!(["1d".repeat(48)]), |_| ()),
        // A digest without the flag that a key signed is nobody's.
        (ReasonCode::SnpAuthorKeyRefused, |it| it["author_key_sha384"] = json!(["00".repeat(48)]), |_| ()),
        (ReasonCode::SnpGuestSvnTooOld, |it| it["minimum_guest_svn"] = 1.into(), |_| ()),
        (ReasonCode::SnpFamilyIdDiffers, |it| it["family_id"] = "01".repeat(16).into(), |_| ()),
        (ReasonCode::SnpImageIdDiffers, |it| it["image_id"] = "01".repeat(16).into(), |_| ()),
        (ReasonCode::SnpHostDataDiffers, |it| it["host_data"] = "01".repeat(32).into(), |_| ()),
    ];
    let amd = FakeAmd::new(SnpProduct::Milan);
    for (number, (expected, policy, change)) in set.into_iter().enumerate() {
        assert_eq!(judged(&amd, SigningKey::Vcek, policy, change).unwrap_err(), expected, "case {number}");
    }
    let only_chips = |it: &mut Value| {
        it["keys"] = json!(["vcek"]);
        it["providers"] = json!([]);
    };
    assert_eq!(judged(&amd, SigningKey::Vlek, only_chips, |_| ()).unwrap_err(), ReasonCode::SnpKeyRefused);
    // A provider's key signs for chips that hide which they are: then nobody can tell that it is none of those denied.
    let denying = |it: &mut Value| it["denied_chips"] = json!(["c2".repeat(64)]);
    let masked = |it: &mut Change| it.report[0x48] |= 2;
    assert_eq!(judged(&amd, SigningKey::Vlek, denying, masked).unwrap_err(), ReasonCode::SnpChipDenied);
    assert!(
        judged(&amd, SigningKey::Vlek, denying, |_| ()).is_ok()
            && judged(&amd, SigningKey::Vlek, |_| (), masked).is_ok()
    );
    // Nor that it is one of those listed.
    let listing = |it: &mut Value| it["chips"] = json!(["c1".repeat(64), "c2".repeat(64)]);
    assert_eq!(judged(&amd, SigningKey::Vlek, listing, masked).unwrap_err(), ReasonCode::SnpChipDenied);
    judged(&amd, SigningKey::Vcek, listing, |_| ()).unwrap();
    let others = |it: &mut Value| it["providers"] = json!(["another"]);
    assert_eq!(judged(&amd, SigningKey::Vlek, others, |_| ()).unwrap_err(), ReasonCode::SnpProviderRefused);
}

#[test]
fn what_a_policy_allows_is_admitted() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let allow = |it: &mut Value| {
        it["allow"] = json!(["smt", "migration", "cxl", "provisional-firmware", "unknown-platform-info"]);
    };
    let change = |it: &mut Change| {
        it.report[0x47] = 0x80;
        it.report[0x0a] |= 1 << 2 | 1 << 5;
        it.report[0x1e8] = 5;
        it.report[0x1e7] = 1;
    };
    assert!(judged(&amd, SigningKey::Vcek, allow, change).is_ok());
}

#[test]
fn a_section_that_says_nothing_or_contradicts_itself_is_refused() {
    let cases: [fn(&mut Value); 11] = [
        |it| it["tcb_floor"] = json!({}),
        |it| it["tcb_floor"] = json!({"naples": {}}),
        |it| it["tcb_floor"]["milan"]["fmc"] = 1.into(),
        |it| it["keys"] = json!([]),
        |it| it["providers"] = json!([]),
        |it| it["vmpl"] = 4.into(),
        |it| it["minimum_abi"] = "1".into(),
        |it| it["allow"] = json!(["debug"]),
        |it| it["denied_chips"] = json!(["c1"]),
        |it| it["chips"] = json!([]),
        |it| it["chips"] = Value::Null,
    ];
    for (number, change) in cases.into_iter().enumerate() {
        assert!(snp_policy(change).is_err(), "case {number}");
    }
    // Of two floors the lower one would do.
    let once = r#""milan":{"snp":8}"#;
    let floors = |floors: &str| {
        format!(
            r#"{{"tcb_floor":{{{floors}}},"keys":["vcek"],"revocation_list":"demanded","vmpl":0,"minimum_abi":"0.0"}}"#
        )
    };
    SnpPolicy::from_json(floors(once).as_bytes()).unwrap();
    let refusal = SnpPolicy::from_json(floors(&format!(r#"{once},"milan":{{}}"#)).as_bytes()).unwrap_err();
    assert!(refusal.detail().contains("there twice"), "{refusal}");
    for field in ["tcb_floor", "keys", "revocation_list", "vmpl", "minimum_abi"] {
        assert!(snp_policy(|it| drop(it.as_object_mut().unwrap().remove(field))).is_err(), "{field}");
    }
}

//! What lies in Intel's part of a collateral directory, thing by thing.

use latchkey_attestation::ReasonCode;
use latchkey_attestation::fake_intel::{FakeIntel, REPORT_DATA};
use latchkey_attestation::policy::TdxTcbStatus;
use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::tdx::{TdxCollateral, TdxInventory, TdxKind};

use crate::support::NOW;

fn inventory(files: &[(&str, Vec<u8>)], intel: &FakeIntel) -> TdxInventory {
    let files: Vec<_> = files.iter().map(|(name, content)| CollateralFile { name, content }).collect();
    TdxInventory::with_fake_root(&files, intel.root())
}

#[test]
fn each_thing_is_told_by_what_it_says_of_itself() {
    let intel = FakeIntel::default();
    let inventory = inventory(intel.files(), &intel);
    let kinds: Vec<_> = inventory.entries().map(|(file, item)| (file.to_owned(), item.unwrap().kind)).collect();
    for (file, kind) in [
        ("root.pem", TdxKind::Root),
        ("pck-platform.pem", TdxKind::PckAuthority),
        ("tcb-signing.pem", TdxKind::TcbSigning),
        ("root.crl", TdxKind::Crl),
        ("tcb.json", TdxKind::TcbInfo),
        ("qe.json", TdxKind::QeIdentity),
    ] {
        assert!(kinds.contains(&(file.to_owned(), kind)), "{file}: {kinds:?}");
    }
    assert!(inventory.check(NOW).all(|verdict| verdict.is_ok()));
    let over: Vec<_> = inventory.check(2_000_000_000).filter_map(Result::err).map(|it| it.code()).collect();
    assert_eq!(over, [ReasonCode::TdxCollateralExpired; 4], "lists and JSON");
    let (what, _) = intel.collateral().first_end().unwrap();
    assert!(what.contains("TCB information") || what.contains("identity"), "{what}");
}

#[test]
fn what_nobody_signed_or_cannot_be_read_is_refused_by_its_file() {
    let (intel, other) = (FakeIntel::default(), FakeIntel::default());
    for at in 1..intel.files().len() {
        let mut files = intel.files().to_vec();
        files[at] = other.files()[at].clone();
        let refusal = inventory(&files, &intel).into_collateral().unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::CollateralMalformed);
        assert!(refusal.detail().contains(files[at].0) && refusal.detail().contains("no signature"), "{refusal}");
    }
    for (content, why) in [
        (&b"{}"[..], "signature"),
        (br#"{"tcbInfo":{},"signature":"00"}"#, "128 hexadecimal digits"),
        (b"notes", "neither a certificate nor a list"),
    ] {
        let mut files = intel.files().to_vec();
        files.push(("notes.txt", content.to_vec()));
        let refusal = inventory(&files, &intel).into_collateral().unwrap_err();
        assert!(refusal.detail().contains("notes.txt") && refusal.detail().contains(why), "{refusal}");
    }
    let mut files = intel.files().to_vec();
    files.remove(0);
    let refusal = inventory(&files, &intel).into_collateral().unwrap_err();
    assert!(refusal.detail().contains("Intel's root is missing"), "{refusal}");
}

#[test]
fn each_byte_of_what_is_published_counts() {
    let intel = FakeIntel::default();
    for (at, (name, content)) in intel.files().iter().enumerate().filter(|(_, (_, content))| content.starts_with(b"{"))
    {
        for byte in (0..content.len()).step_by(7) {
            let mut files = intel.files().to_vec();
            files[at].1[byte] ^= 0x04;
            assert!(inventory(&files, &intel).into_collateral().is_err(), "byte {byte} of {name}");
        }
    }
}

#[test]
fn of_two_the_one_counts_that_knows_more_whenever_it_was_signed() {
    let intel = FakeIntel::default();
    let revised = |evaluation, from, status| {
        intel.tcb_information(|it| {
            (it.tcb_evaluation, it.tcb_years, it.status) = (evaluation, [from, 2030], status);
        })
    };
    // Signed later, by an evaluation that knew less.
    let mut files = intel.files().to_vec();
    files.push(("a.json", revised(16, 2026, "UpToDate")));
    files.push(("b.json", revised(18, 2024, "OutOfDate")));
    files.push(("c.json", files[5].1.clone()));
    for _ in 0..files.len() {
        files.rotate_left(1);
        let inventory = inventory(&files, &intel);
        let (newest, superseded): (Vec<_>, Vec<_>) = inventory
            .entries()
            .map(|(file, item)| (file.to_owned(), item.unwrap()))
            .filter(|(_, item)| item.kind == TdxKind::TcbInfo)
            .partition(|(_, item)| !inventory.is_superseded(item));
        assert_eq!(newest.iter().map(|(file, _)| file.as_str()).collect::<Vec<_>>(), ["b.json"]);
        assert_eq!(superseded.len(), 3);
        let collateral: TdxCollateral = inventory.into_collateral().unwrap();
        let verified = collateral.verify(&intel.quote(|_| ()), &REPORT_DATA, NOW).unwrap();
        assert_eq!(verified.tcb_status(), TdxTcbStatus::OutOfDate);
        assert_eq!(verified.tcb_evaluation(), 17, "the older one of it and the quoting enclave's identity");
    }
}

#[test]
fn pem_of_something_else_is_not_passed_over() {
    let intel = FakeIntel::default();
    for more in ["-----BEGIN PKCS7-----\nMAA=\n-----END PKCS7-----\n", "  -----BEGIN X509 CRL-----\n"] {
        let mut files = intel.files().to_vec();
        files[1].1.extend(more.as_bytes());
        let refusal = inventory(&files, &intel).into_collateral().unwrap_err();
        assert!(refusal.detail().contains("pck-platform.pem"), "{refusal}");
    }
}

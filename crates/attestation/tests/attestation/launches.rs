//! Launch digests of SEV-SNP guests: what a manifest's are, what a report claims, and what may not be concluded.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::path::Path;

use crate::support::{
    NOW, image_json, launched_image_json as image, pinned, policy, policy_json, reference_json, reference_values, value,
};
use latchkey_attestation::parse::{LaunchDigest, SnpReport};
use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_attestation::validate::{Covered, RecognisedLaunch};
use latchkey_attestation::{AuthenticManifest, Policy, References};
use serde_json::{Value, json};

fn site(manifests: &[(&str, Vec<Value>, Value)]) -> (Policy, References) {
    let mut json = policy_json(pinned(&[latchkey_attestation::EkDigest::from_hex(&value(1)).unwrap()]));
    let rule = |name: &str| json!({"manifest": name, "minimum_version": "1.0.0", "unsigned": "trust-local-file"});
    json["references"] = manifests.iter().map(|(name, ..)| rule(name)).collect();
    let policy = policy(&json);
    let authentic = manifests.iter().map(|(name, images, revoked)| {
        let mut json = reference_json(images);
        (json["name"], json["revoked"]) = (json!(name), revoked.clone());
        AuthenticManifest::local(reference_values(&json))
    });
    let references = References::new(&policy, authentic.collect()).unwrap();
    (policy, references)
}

fn look(digest: u8, manifests: &[(&str, Vec<Value>, Value)]) -> Result<RecognisedLaunch, Refusal> {
    let (policy, references) = site(manifests);
    policy.recognise_launch(LaunchDigest([digest; 48]), &references, NOW)
}

fn versions(found: &RecognisedLaunch) -> Vec<String> {
    found.launches.iter().map(|known| known.image.version.to_string()).collect()
}

#[test]
fn a_digest_with_kernel_hashes_names_its_image() {
    let images = vec![image(1, 0xa1, true), image(2, 0xa2, true)];
    let found = look(0xa2, &[("edge", images, json!([]))]).unwrap();
    assert_eq!((found.covers, versions(&found)), (Covered::Image, vec!["1.2.0".to_owned()]));
    assert_eq!(found.launches[0].image.machine, "test");
    assert_eq!(found.launches[0].launch.vcpus, 4);
}

#[test]
fn a_digest_of_the_firmware_alone_names_no_image_whatever_lists_it() {
    let found = look(0xa1, &[("edge", vec![image(1, 0xa1, false), image(2, 0xa1, false)], json!([]))]).unwrap();
    assert_eq!((found.covers, versions(&found).len()), (Covered::Firmware, 2));
    // Nor does a second entry that calls it the image's make it more.
    let found = look(0xa1, &[("edge", vec![image(1, 0xa1, true), image(2, 0xa1, false)], json!([]))]).unwrap();
    assert_eq!(found.covers, Covered::Firmware);
}

#[test]
fn an_unknown_digest_is_refused_with_what_was_expected() {
    let refusal = look(0xee, &[("edge", vec![image(1, 0xa1, true)], json!([]))]).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::LaunchUnknown);
    for part in ["got eeee", "expected one of 1, such as a1a1", "image 1.1.0 on test: 4 × EPYC-v4"] {
        assert!(refusal.detail().contains(part), "{part}: {refusal}");
    }
    let refusal = look(0xee, &[("edge", vec![image_json(1)], json!([]))]).unwrap_err();
    assert!(refusal.detail().contains("no manifest of the policy lists launch digests"), "{refusal}");
}

#[test]
fn a_revoked_image_s_digest_is_refused_in_all_manifests_and_a_shared_firmware_s_is_not() {
    let revoked = || json!([{"name": "image", "version": "1.1.0", "why": "a hole"}]);
    let other = || ("other", vec![image(2, 0xa1, true)], json!([]));
    for manifests in [
        [("edge", vec![image(1, 0xa1, true)], revoked()), other()],
        [other(), ("edge", vec![image(1, 0xa1, true)], revoked())],
    ] {
        let refusal = look(0xa1, &manifests).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::ImageRevoked);
        assert!(refusal.detail().contains("a hole"), "{refusal}");
    }
    let shared = vec![image(1, 0xa1, false), image(2, 0xa1, false)];
    assert_eq!(versions(&look(0xa1, &[("edge", shared, revoked())]).unwrap()), ["1.2.0"]);
    let alone = look(0xa1, &[("edge", vec![image(1, 0xa1, false)], revoked())]).unwrap_err();
    assert_eq!(alone.code(), ReasonCode::ImageRevoked);
}

#[test]
fn an_old_or_expired_image_s_digest_is_known_and_refused() {
    let mut old = image(1, 0xa1, true);
    old["not_after"] = json!(NOW - 1);
    assert_eq!(look(0xa1, &[("edge", vec![old], json!([]))]).unwrap_err().code(), ReasonCode::ImageExpired);
    let mut early = image(1, 0xa1, true);
    early["not_before"] = json!(NOW + 1);
    assert_eq!(look(0xa1, &[("edge", vec![early], json!([]))]).unwrap_err().code(), ReasonCode::ImageNotYetValid);
}

fn report(change: impl FnOnce(&mut Vec<u8>)) -> Result<SnpReport, Refusal> {
    let mut bytes = vec![0; SnpReport::SIZE];
    bytes[0] = 2;
    bytes[0x0a] = 0x02;
    bytes[0x34] = 1;
    bytes[0x90..0xc0].fill(0xab);
    change(&mut bytes);
    SnpReport::parse(&bytes)
}

#[test]
fn a_report_s_claims_are_read_at_the_places_of_the_specification() {
    let read = report(|_| {}).unwrap();
    assert_eq!((read.version(), read.measurement()), (2, LaunchDigest([0xab; 48])));
    assert_eq!((read.policy().allows_debug(), read.vmpl()), (false, 0));
    let read = report(|bytes| (bytes[0x0a], bytes[0x30]) = (0x0a, 3)).unwrap();
    assert_eq!((read.policy().allows_debug(), read.vmpl()), (true, 3));
}

#[test]
fn bytes_that_are_no_report_are_refused() {
    for wrong in [
        report(|bytes| bytes.truncate(0x49f)),
        report(|bytes| bytes.push(0)),
        report(Vec::clear),
        report(|bytes| bytes[0] = 1),
        report(|bytes| bytes[0] = 6),
        report(|bytes| bytes[3] = 1),
        // Another signature, a report that the host asked for, a key that is none.
        report(|bytes| bytes[0x34] = 2),
        report(|bytes| bytes[0x30..0x34].fill(0xff)),
        report(|bytes| bytes[0x48] = 7 << 2),
        report(|bytes| bytes[0x48] = 2 << 2),
    ] {
        assert_eq!(wrong.unwrap_err().code(), ReasonCode::SnpReportMalformed);
    }
}

#[test]
fn what_is_reserved_must_be_empty_and_a_processor_known() {
    for place in [0x4c, 0x18a, 0x19f, 0x1eb, 0x1ef, 0x1f8, 0x29f] {
        let refusal = report(|bytes| bytes[place] = 1).unwrap_err();
        assert_eq!(refusal.code(), ReasonCode::SnpReportReserved, "{place:#x}: {refusal}");
    }
    // Bits: of flags, of the guest's policy (17 must be set).
    let bits: [fn(&mut Vec<u8>); 3] = [|it| it[0x48] = 1 << 5, |it| it[0x0a] = 0, |it| it[0x0b] = 1 << 2];
    for change in bits {
        assert_eq!(report(change).unwrap_err().code(), ReasonCode::SnpReportReserved);
    }
    // What the platform says of itself only describes.
    assert_eq!(report(|bytes| bytes[0x41] = 1).unwrap().platform().unknown(), 1 << 8);
    // Version 5 has vectors where those before had nothing; version 3 the processor.
    assert!(report(|bytes| (bytes[0], bytes[0x188], bytes[0x1f8]) = (5, 0x19, 1)).is_ok());
    let refusal = report(|bytes| (bytes[0], bytes[0x188]) = (3, 0x17)).unwrap_err();
    assert_eq!(refusal.code(), ReasonCode::SnpProductUnknown);
}

/// Reports of real machines, as virtee/sev and go-sev-guest (both Apache-2.0) publish them; the digests were read off with
/// `xxd`.
#[test]
fn the_measurement_of_real_reports_is_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/snp");
    let first = fs::read_to_string(directory.join("report-milan-1.hex")).unwrap();
    let first = SnpReport::parse(&hex::decode(first.trim()).unwrap()).unwrap();
    let second = SnpReport::parse(&fs::read(directory.join("report-milan-2.bin")).unwrap()).unwrap();
    assert_eq!((first.version(), second.version()), (2, 2));
    assert!(second.measurement().to_string().starts_with("b07af9620f3b839b47996422ddec6058338951d984e31211"));
    assert!(second.measurement().to_string().ends_with("6bdf8a9ece31a5a608eb0cf2e4872b01"));
    assert!(first.measurement().to_string().starts_with("7a1e5c266c0108dbc9bb94fa926951320940915d0aafb424"));
    assert!(first.measurement().to_string().ends_with("64bd88b579ea158d3e1a0dc39b2c60bd95b9c480cd81841f"));
}

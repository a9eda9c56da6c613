//! `latchkey measure image --snp-firmware`, and `latchkey measure log` of systemd's log, as a user runs them.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::firmware_sample::Sample;

use std::fs;

use crate::support::command::latchkey;
use latchkey_measurements::launch::{CpuSignature, Firmware, GuestFeatures, KernelHashes, SnpGuest};
use latchkey_measurements::pe_sample::{kernel, unified};
use serde_json::json;
use tempfile::TempDir;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../measurements/tests/fixtures");

fn directory_with_image_and_firmware() -> TempDir {
    let directory = TempDir::new().unwrap();
    let kernel = kernel();
    let sections: [(&str, &[u8]); 3] = [(".osrel", b"ID=test\n"), (".cmdline", b"quiet"), (".linux", &kernel)];
    fs::write(directory.path().join("image.efi"), unified("systemd-stub 252.39", &sections)).unwrap();
    fs::write(directory.path().join("sev.fd"), Sample::amd_sev().build()).unwrap();
    fs::write(directory.path().join("plain.fd"), Sample::plain().build()).unwrap();
    fs::write(directory.path().join("old.fd"), Sample { metadata: false, ..Sample::plain() }.build()).unwrap();
    directory
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(ring::digest::digest(&ring::digest::SHA256, bytes))
}

#[test]
fn launch_digests_are_shown_for_the_firmware_alone_and_for_a_direct_boot() {
    let directory = directory_with_image_and_firmware();
    let arguments = ["measure", "image", "image.efi", "--snp-firmware", "sev.fd", "--vcpus", "1,4", "--vcpu-type"];
    let more = ["EPYC-Milan-v2", "--guest-features", "0x21", "--append", "console=ttyS0"];
    let arguments = [&arguments[..], &more].concat();
    let json = latchkey(directory.path(), &[&arguments[..], &["--output", "json"]].concat()).succeeded().json();
    let firmware = &Firmware::parse(&Sample::amd_sev().build()).unwrap();
    let uki = fs::read(directory.path().join("image.efi")).unwrap();
    let hashes = KernelHashes::of(&uki, b"", "console=ttyS0").unwrap();
    let (cpu, features) = (CpuSignature(0x00a0_0f11), GuestFeatures::new(0x21).unwrap());
    let mut expected = Vec::new();
    for direct_boot in [None, Some(&hashes)] {
        for vcpus in [1, 4] {
            let digest = hex::encode(SnpGuest { firmware, vcpus, cpu, features, direct_boot }.digest().unwrap());
            expected.push(json!({
                "digest": digest, "firmware_sha256": sha256(&Sample::amd_sev().build()),
                "kernel_hashes": direct_boot.is_some(), "vcpus": vcpus, "vcpu_type": "EPYC-Milan-v2",
                "guest_features": 0x21,
            }));
        }
    }
    assert_eq!(json["snp_launch"]["digests"], json!(expected));
    assert_eq!(json["snp_launch"]["vcpu_signature"], "0x00a00f11");
    assert!(json["machines"][0]["pcrs"]["4"].is_string());
    let text = latchkey(directory.path(), &arguments).succeeded().out;
    for digest in expected.iter().map(|row| row["digest"].as_str().unwrap()) {
        assert!(text.contains(digest), "{text}");
    }
}

#[test]
fn a_firmware_without_kernel_hashes_has_one_digest() {
    let directory = directory_with_image_and_firmware();
    let arguments = ["measure", "image", "image.efi", "--snp-firmware", "plain.fd", "--output", "json"];
    let json = latchkey(directory.path(), &arguments).succeeded().json();
    assert_eq!(json["snp_launch"]["takes_kernel_hashes"], false);
    let digests = json["snp_launch"]["digests"].as_array().unwrap();
    assert_eq!(
        (digests.len(), digests[0]["vcpus"].as_u64(), digests[0]["kernel_hashes"].as_bool()),
        (1, Some(1), Some(false))
    );
    let without = latchkey(directory.path(), &["measure", "image", "image.efi", "--output", "json"]).succeeded().json();
    assert!(without.get("snp_launch").is_none());
}

#[test]
fn a_launch_that_cannot_be_predicted_is_refused_with_reason_and_fix() {
    let directory = directory_with_image_and_firmware();
    for (arguments, reason) in [
        (&["--snp-firmware", "old.fd"][..], "the firmware has no SEV metadata"),
        (&["--snp-firmware", "old.fd"], "fix: use an OVMF that was built for SEV-SNP"),
        (&["--snp-firmware", "plain.fd", "--append", "x"], "it would boot any kernel"),
        (&["--snp-firmware", "image.efi"], "no OVMF: there is no table"),
        (&["--snp-firmware", "missing.fd"], "cannot read missing.fd"),
        (&["--snp-firmware", "sev.fd", "--vcpus", "0"], "0 processors, expected 1 to 4096"),
        (&["--snp-firmware", "sev.fd", "--vcpus", "1,x"], "--vcpus x: expected 1 to 4096"),
        (&["--snp-firmware", "sev.fd", "--vcpu-type", "qemu64"], "known are EPYC, "),
        (&["--snp-firmware", "sev.fd", "--guest-features", "0x2"], "without bit 0, which is SNP itself"),
        (&["--vcpus", "2"], "--vcpus needs --snp-firmware"),
        (&["--append", "x"], "--append needs --snp-firmware"),
    ] {
        let ran = latchkey(directory.path(), &[&["measure", "image", "image.efi"], arguments].concat()).failed(2);
        assert!(ran.err.contains(reason), "{arguments:?}: {}", ran.err);
        assert_eq!(ran.out, "", "{arguments:?}");
    }
}

#[test]
fn systemds_log_is_listed_replayed_and_continued() {
    let directory = TempDir::new().unwrap();
    let (log, firmware) = (format!("{FIXTURES}/systemd-257.cel"), format!("{FIXTURES}/honest.bin"));
    let ran = latchkey(directory.path(), &["measure", "log", &log, "--bank", "sha256"]).succeeded();
    assert!(
        ran.out.contains("4      15   systemd machine-id  machine id 0123456789abcdef0123456789abcdef\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("11   38d2047d0545f701a253005037bd1d1662e5f59388885f9e9443f38e2f23531e"), "{}", ran.out);
    assert!(ran.err.contains("--firmware-log goes on from there"), "{}", ran.err);
    let arguments = ["measure", "log", &log, "--firmware-log", &firmware, "--pcr", "4,11", "--output", "json"];
    let json = latchkey(directory.path(), &arguments).succeeded().json();
    let registers = json["pcrs"]["sha256"].as_object().unwrap();
    assert!(registers.len() == 2 && registers.contains_key("4"), "{registers:?}");
    assert_eq!(registers["11"], "542a039cf42a6e63d16ceaaec33aac1403c264526a07ca7ec86becfe2aa8194d");
}

#[test]
fn the_record_that_differs_from_a_trusted_boots_is_named() {
    let directory = TempDir::new().unwrap();
    let trusted = fs::read_to_string(format!("{FIXTURES}/systemd-257.cel")).unwrap();
    let records: Vec<_> = trusted.lines().collect();
    let shorter = records.iter().filter(|record| !record.contains("\"sysinit\"")).map(|record| format!("{record}\n"));
    fs::write(directory.path().join("shorter.cel"), shorter.collect::<String>()).unwrap();
    let arguments = ["measure", "log", "shorter.cel", "--reference-log", &format!("{FIXTURES}/systemd-257.cel")];
    let told = latchkey(directory.path(), &arguments).succeeded().out;
    assert!(told.contains("event 2 (systemd phase): expected boot phase sysinit, got boot phase ready"), "{told}");
}

#[test]
fn a_canonical_log_that_is_malformed_or_compared_with_other_things_is_refused() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("cut.cel"), "\u{1e}{\"pcr\":11").unwrap();
    let log = format!("{FIXTURES}/systemd-257.cel");
    for (arguments, reason) in [
        (&["cut.cel"][..], "record 0, at byte 0: the log is cut off"),
        (&["cut.cel"], "fix: give systemd's /run/log/systemd/tpm2-measure.log"),
        (&[&log, "--expect", "x.json"], "--expect is for the firmware's log"),
        (&[&log, "--reference-log", &format!("{FIXTURES}/honest.bin")], "honest.bin cannot be used"),
        (&[&log, "--firmware-log", &log], "no valid event log"),
        (&[&format!("{FIXTURES}/honest.bin"), "--firmware-log", &log], "--firmware-log is for a canonical log"),
    ] {
        let ran = latchkey(directory.path(), &[&["measure", "log"], arguments].concat()).failed(2);
        assert!(ran.err.contains(reason), "{arguments:?}: {}", ran.err);
    }
}

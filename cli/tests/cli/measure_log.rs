//! `latchkey measure log` beside a TPM (swtpm) and with the data of events, as a user runs it.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::path::Path;

use crate::support::command::{Ran, latchkey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_swtpm_rig::Swtpm;
use serde_json::Value;

/// Real logs: one bank of SHA-1, and twice the three banks that rented machines have.
const LOGS: [(&str, &[&str]); 3] = [
    ("gce-debian-10", &["sha1"]),
    ("gce-rhel8-uefi", &["sha1", "sha256", "sha384"]),
    ("gce-ubuntu-2104-no-secure-boot", &["sha1", "sha256", "sha384"]),
];

fn fixture(name: &str) -> String {
    format!("{}/../measurements/tests/fixtures/{name}.bin", env!("CARGO_MANIFEST_DIR"))
}

fn measure_log(log: &str, more: &[&str]) -> Ran {
    latchkey(Path::new("/"), &[&["measure", "log", log], more].concat())
}

/// A TPM with banks of SHA-1, SHA-256 and SHA-384, all of zeros. `None`, and a skip, without swtpm or tpm2-tools.
fn swtpm_of_three_banks() -> Option<Swtpm> {
    let mut swtpm = Swtpm::start()?;
    swtpm.tool("tpm2_pcrallocate", &["sha1:all+sha256:all+sha384:all"])?;
    swtpm.restart().unwrap();
    Some(swtpm)
}

/// Extends the TPM with every event of a log that extends a register, as tpm2-tools do it: in each bank of the log.
fn extend(swtpm: &Swtpm, log: &Value) {
    let extending = log["events"].as_array().unwrap().iter().filter(|event| event["type"] != "EV_NO_ACTION");
    let specified = extending.map(|event| {
        let digests = event["digests"].as_object().unwrap().iter();
        let digests: Vec<_> = digests.map(|(bank, digest)| format!("{bank}={}", digest.as_str().unwrap())).collect();
        format!("{}:{}", event["pcr"], digests.join(","))
    });
    let specified: Vec<String> = specified.collect();
    swtpm.tool("tpm2_pcrextend", &specified.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
}

#[test]
fn a_real_log_is_that_of_a_tpm_which_was_extended_with_it_in_every_bank() {
    for (name, banks) in LOGS {
        let Some(swtpm) = swtpm_of_three_banks() else { return };
        let (log, socket) = (fixture(name), swtpm.socket_path().display().to_string());
        let listed = measure_log(&log, &["--output", "json"]).succeeded().json();
        extend(&swtpm, &listed);
        let json = measure_log(&log, &["--tpm", &socket, "--output", "json"]).succeeded().json();
        assert_eq!(json["tpm"]["matches"], true, "{name}: {}", json["tpm"]);
        let compared = json["tpm"]["banks"].as_object().unwrap();
        assert_eq!(compared.keys().map(String::as_str).collect::<Vec<_>>(), banks, "{name}");
        for (bank, registers) in compared {
            // 0 to 9 and 11 to 14: all that firmware's log accounts for, with or without an event.
            assert_eq!(registers.as_object().unwrap().len(), 14, "{name}");
            for (pcr, value) in listed["pcrs"][bank].as_object().unwrap() {
                assert_eq!((&registers[pcr]["register"], &registers[pcr]["replayed"]), (value, value), "{name} {bank}");
            }
        }
    }
}

#[test]
fn a_log_of_another_boot_is_told_register_by_register() {
    let Some(swtpm) = swtpm_of_three_banks() else { return };
    let (log, socket) = (fixture("gce-rhel8-uefi"), swtpm.socket_path().display().to_string());
    extend(&swtpm, &measure_log(&log, &["--output", "json"]).succeeded().json());
    // One more measurement in one bank of one register, and one into a register of which the log says nothing.
    swtpm.tool("tpm2_pcrextend", &[&format!("4:sha384={}", "ab".repeat(48))]).unwrap();
    swtpm.tool("tpm2_pcrextend", &[&format!("12:sha256={}", "cd".repeat(32))]).unwrap();
    let ran = measure_log(&log, &["--tpm", &socket]).failed(3);
    for text in [
        "sha1: 14 of 14 registers of",
        "sha256: 13 of 14 registers of",
        "sha384: 13 of 14 registers of",
        "PCR 4 (boot loader or unified kernel image)",
        "PCR 12 (command-line override or credentials)",
        "is of another boot, was altered, or ended before the last measurement",
    ] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    // Only what was asked for is compared.
    measure_log(&log, &["--tpm", &socket, "--pcr", "4", "--bank", "sha256"]).succeeded();
    let json = measure_log(&log, &["--tpm", &socket, "--pcr", "4", "--output", "json"]).failed(3).json();
    assert_eq!(json["tpm"]["banks"]["sha384"]["4"]["matches"], false);
    assert_eq!(json["tpm"]["banks"]["sha1"]["4"]["matches"], true);
}

#[test]
fn a_tpm_that_is_not_there_or_has_no_bank_of_the_log_is_an_error_with_a_fix() {
    let log = fixture("gce-debian-10");
    let ran = measure_log(&log, &["--tpm", "/nowhere/tpm"]).failed(1);
    assert!(ran.err.contains("the TPM at /nowhere/tpm cannot be used") && ran.err.contains("fix: "), "{}", ran.err);
    // A TPM of a SHA-256 bank alone, beside a log of SHA-1 alone.
    let Some(swtpm) = Swtpm::start() else { return };
    let socket = swtpm.socket_path().display().to_string();
    let more_banks = measure_log(&fixture("gce-rhel8-uefi"), &["--tpm", &socket]).failed(3).out;
    assert!(more_banks.contains(&format!("sha384: {socket} has no such bank")), "{more_banks}");
    let ran = measure_log(&log, &["--tpm", &socket]).failed(2);
    assert!(ran.err.contains("replays in no register that the TPM at") && ran.err.contains("fix: "), "{}", ran.err);
}

#[test]
fn the_data_of_events_is_whole_in_json_and_bounded_on_a_screen() {
    let log = fixture("gce-ubuntu-2104-no-secure-boot");
    let file = hex::encode(fs::read(&log).unwrap());
    let json = measure_log(&log, &["--raw", "--output", "json"]).succeeded().json();
    let events = json["events"].as_array().unwrap();
    for event in events {
        let raw = event["raw"].as_str().unwrap();
        assert_eq!(raw.len() as u64, 2 * event["size"].as_u64().unwrap(), "{}", event["index"]);
        assert!(file.contains(raw), "{}", event["index"]);
    }
    let (large, size) = events
        .iter()
        .map(|event| (&event["index"], event["size"].as_u64().unwrap()))
        .max_by_key(|event| event.1)
        .unwrap();
    assert!(size > 1024);
    let text = measure_log(&log, &["--raw"]).succeeded().out;
    assert!(text.contains("event 0, "), "{text}");
    assert!(text.contains("|Spec ID Event03."), "{text}");
    let of_large = text.split(&format!("\nevent {large}, {size} bytes\n")).nth(1).unwrap();
    let of_large = of_large.split("\nevent ").next().unwrap();
    assert!(of_large.contains(&format!("{} bytes more", size - 1024)), "{of_large}");
    assert_eq!(of_large.lines().filter(|line| line.contains('|')).count(), 64);
    // Without the word nothing of it is shown.
    let json = measure_log(&log, &["--output", "json"]).succeeded().json();
    assert!(json["events"][0].get("raw").is_none());
}

/// The log of a TDX machine of Google's; `None`, and a skip, without the folder of vectors.
fn confidential() -> Option<String> {
    latchkey_test_support::vector_path("eventlog/ccel-gce-tdx.bin").map(|path| path.display().to_string())
}

#[test]
fn the_log_of_a_confidential_machine_is_listed_and_replayed_to_its_registers() {
    let Some(log) = confidential() else { return };
    let text = measure_log(&log, &[]).succeeded().out;
    assert!(text.contains("REGISTER") && text.contains("REPLAYED, SHA384"), "{text}");
    assert!(text.contains("1      RTMR0     EFI_HANDOFF_TABLES2"), "{text}");
    assert!(text.contains("operating system; as a TPM's PCR 8 to 15"), "{text}");
    let json = measure_log(&log, &["--output", "json", "--raw"]).succeeded().json();
    assert_eq!((&json["format"], &json["events"][12]["mr"]), (&"ccel".into(), &"RTMR1".into()), "{json}");
    assert_eq!(json["events"][8]["raw"], "00000000");
    assert_eq!(json["rtmrs"]["RTMR3"]["value"], "00".repeat(48));
    assert_eq!(json["rtmrs"]["RTMR0"]["pcrs"], serde_json::json!([1, 7]));
    assert_eq!(json["pcrs"], serde_json::json!({}));
}

#[test]
fn the_kernels_padded_table_and_a_header_for_register_0_are_read_too() {
    let Some(log) = confidential() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (mut bytes, path) = (fs::read(log).unwrap(), directory.path().join("CCEL"));
    bytes.resize(64 * 1024, 0xff);
    fs::write(&path, &bytes).unwrap();
    let path = path.display().to_string();
    let json = measure_log(&path, &["--output", "json"]).succeeded().json();
    assert_eq!(json["padding"], 64 * 1024 - 2026);
    bytes[0] = 0;
    fs::write(&path, &bytes).unwrap();
    let said = measure_log(&path, &["--ccel", "--output", "json"]).succeeded().json();
    assert_eq!(said["rtmrs"], json["rtmrs"]);
}

#[test]
fn what_is_of_a_tpm_is_refused_beside_a_confidential_machines_log() {
    let Some(log) = confidential() else { return };
    for arguments in [["--pcr", "1"], ["--tpm", "/dev/tpmrm0"], ["--reference-log", "x"], ["--bank", "sha256"]] {
        let ran = measure_log(&log, &arguments);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(arguments[0]), "{}", ran.err);
    }
    let ran = measure_log(&fixture("honest"), &["--ccel"]);
    assert!(ran.err.contains("not the log of a confidential machine") && ran.err.contains("CCEL"), "{}", ran.err);
}

/// Recorded evidence of a TPM with this event log in it: the file.
fn evidence_with(log: &str, directory: &Path) -> String {
    let recorded =
        format!("{}/../crates/attestation/tests/fixtures/ek-p256-pinned/evidence.json", env!("CARGO_MANIFEST_DIR"));
    let mut evidence: Value = serde_json::from_slice(&fs::read(recorded).unwrap()).unwrap();
    evidence["event_log"] = STANDARD.encode(fs::read(log).unwrap()).into();
    let path = directory.join("evidence.json");
    fs::write(&path, evidence.to_string()).unwrap();
    path.display().to_string()
}

/// The quote beside it is a TPM's, and would be listed as if it had been looked at.
#[test]
fn evidence_with_a_tpms_quote_is_not_listed_as_a_confidential_machines_log() {
    let directory = tempfile::tempdir().unwrap();
    let evidence = evidence_with(&fixture("honest"), directory.path());
    assert!(measure_log(&evidence, &["--output", "json"]).json()["quote"].is_object());
    let refused = |arguments: &[&str]| {
        let ran = measure_log(&evidence, arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains("evidence with a TPM's quote") && ran.err.contains("CCEL"), "{}", ran.err);
    };
    refused(&["--ccel"]);
    let Some(log) = confidential() else { return };
    evidence_with(&log, directory.path());
    refused(&[]);
    refused(&["--ccel"]);
}

#[test]
fn a_canonical_log_is_no_confidential_machines() {
    let log = format!("{}/../measurements/tests/fixtures/systemd-257.cel", env!("CARGO_MANIFEST_DIR"));
    measure_log(&log, &[]).succeeded();
    let ran = measure_log(&log, &["--ccel"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("--ccel is for a confidential machine's log, and this one is canonical"), "{}", ran.err);
}

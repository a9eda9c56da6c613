//! `latchkey measure image` and `latchkey measure log` of TDX guests, as a user runs them.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::path::Path;

use crate::support::command::latchkey;
use latchkey_measurements::pe_sample::{confidential_kernel, kernel, unified};
use serde_json::{Value, json};
use tempfile::TempDir;

fn image(command_line: &str, stub: &str, kernel: &[u8]) -> Vec<u8> {
    let sections: [(&str, &[u8]); 3] =
        [(".osrel", b"ID=test\n"), (".cmdline", command_line.as_bytes()), (".linux", kernel)];
    unified(&format!("systemd-stub {stub}"), &sections)
}

fn machine(measures: &str) -> String {
    json!({"name": "trusted", "secure_boot": "off", "secure_boot_variable": "empty", "tdx": {"kernel_measures": measures}})
        .to_string()
}

fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    let put = |name: &str, content: &[u8]| fs::write(directory.path().join(name), content).unwrap();
    put("image.efi", &image("quiet", "257.13", &confidential_kernel()));
    put("other.efi", &image("loud", "257.13", &confidential_kernel()));
    put("silent.efi", &image("quiet", "252.39", &kernel()));
    put("tpm.json", machine("tpm").as_bytes());
    put("cc.json", machine("cc").as_bytes());
    directory
}

fn predicted(directory: &Path, machine: &str) -> Value {
    let arguments = ["measure", "image", "image.efi", "--machine", machine, "--output", "json"];
    latchkey(directory, &arguments).succeeded().json()["machines"][0]["tdx"].clone()
}

/// A log of these events in the form that TDX firmware writes, with what no image knows between them.
fn log(events: &[Value]) -> Vec<u8> {
    let mut log = [1, 3].map(u32::to_le_bytes).concat();
    log.extend([0; 20]);
    log.extend(33_u32.to_le_bytes());
    log.extend(b"Spec ID Event03\0\0\0\0\0\0\x02\0\x02\x01\0\0\0\x0c\0\x30\0\0");
    let mut put = |mr: u32, kind: u32, digest: &[u8], data: &[u8]| {
        log.extend([mr, kind, 1].map(u32::to_le_bytes).concat());
        log.extend([0x0c, 0]);
        log.extend(digest);
        log.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        log.extend(data);
    };
    for event in events {
        let data: &[u8] = b"Calling EFI Application from Boot Option";
        let (kind, data) = match event["type"].as_str().unwrap() {
            "EV_EVENT_TAG" => (6, &data[..4]),
            "EV_IPL" => (0xd, &data[..4]),
            "EV_EFI_BOOT_SERVICES_APPLICATION" => (0x8000_0003, &data[..4]),
            _ => (0x8000_0007, data),
        };
        let mr = if event["register"] == "1" { 2 } else { 3 };
        put(mr, kind, &hex::decode(event["digest"].as_str().unwrap()).unwrap(), data);
        // A partition table.
        put(2, 0x8000_0006, &[7; 48], b"");
    }
    log
}

#[test]
fn registers_are_shown_for_types_of_machines_with_tdx_guests_alone() {
    let directory = directory();
    let (tpm, cc) = (predicted(directory.path(), "tpm.json"), predicted(directory.path(), "cc.json"));
    assert_eq!((&tpm["kernel_measures"], &cc["kernel_measures"]), (&json!("tpm"), &json!("cc")));
    assert_ne!(tpm["rtmrs"]["2"], cc["rtmrs"]["2"]);
    for one in [&tpm, &cc] {
        assert_eq!(one["rtmrs"].as_object().unwrap().len(), 1, "{one}");
    }
    assert!(predicted(directory.path(), "debian-13-ovmf").is_null());
    let text = latchkey(directory.path(), &["measure", "image", "image.efi", "--machine", "cc.json"]).succeeded().out;
    assert!(text.contains("as a TDX guest of the type trusted") && text.contains("RTMR 2"), "{text}");
    assert!(text.contains(cc["rtmrs"]["2"].as_str().unwrap()), "{text}");
    let refused = latchkey(directory.path(), &["measure", "image", "silent.efi", "--machine", "tpm.json"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("systemd-stub 257"), "{}", refused.err);
}

#[test]
fn a_guests_log_is_held_against_an_image_and_the_first_event_that_differs_is_named() {
    let directory = directory();
    let at = directory.path();
    for name in ["tpm.json", "cc.json"] {
        let prediction = predicted(at, name);
        fs::write(at.join("CCEL"), log(prediction["events"].as_array().unwrap())).unwrap();
        let arguments = ["measure", "log", "CCEL", "--ccel", "--expect", "image.efi", "--output", "json"];
        let same = latchkey(at, &arguments).succeeded().json()["predicted_rtmrs"].clone();
        assert_eq!((&same["rtmrs"], &same["differences"]), (&prediction["rtmrs"], &json!([])), "{name}");
        let other = latchkey(at, &["measure", "log", "CCEL", "--expect-image", "other.efi", "--machine", name]);
        assert_eq!(other.code, 3, "{}", other.err);
        assert!(other.out.contains("content of section .cmdline"), "{}", other.out);
    }
    let text = latchkey(at, &["measure", "log", "CCEL", "--expect", "image.efi"]).succeeded().out;
    assert!(text.contains("are as predicted from image.efi"), "{text}");
    let refused = latchkey(at, &["measure", "log", "CCEL", "--expect", "cc.json"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("--expect-image IMAGE"), "{}", refused.err);
    let refused = latchkey(at, &["measure", "log", "CCEL", "--expect", "image.efi", "--machine", "debian-13-ovmf"]);
    assert!(refused.err.contains("`tdx`"), "{}", refused.err);
}

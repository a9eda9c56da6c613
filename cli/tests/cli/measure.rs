//! `latchkey measure image` and `latchkey measure log --expect`, as a user runs them.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;

use crate::support::command::latchkey;
use latchkey_attestation::reference::{Description, ExpectedEvent, ManifestName, Origin, PlatformProfile, Reference};
use latchkey_attestation::{Digest, ReferenceValues};
use latchkey_measurements::pe_sample::{kernel, unified};
use tempfile::TempDir;

/// The log of a recorded boot, of another image than the tests' own.
const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../measurements/tests/fixtures/override.bin");

fn directory_with_image() -> TempDir {
    let directory = TempDir::new().unwrap();
    let kernel = kernel();
    let sections: [(&str, &[u8]); 4] =
        [(".osrel", b"ID=test\n"), (".cmdline", b"console=ttyS0"), (".initrd", b"initrd"), (".linux", &kernel)];
    fs::write(directory.path().join("image.efi"), unified("systemd-stub 252.39", &sections)).unwrap();
    directory
}

#[test]
fn an_image_s_registers_are_shown_for_every_machine_asked_for() {
    let directory = directory_with_image();
    let out = latchkey(directory.path(), &["measure", "image", "image.efi"]).succeeded().out;
    for text in ["systemd-stub 252", "on debian-12-ovmf\n", "after systemd's phase enter-initrd", "Secure Boot state"] {
        assert!(out.contains(text), "{text}: {out}");
    }
    fs::write(
        directory.path().join("lab.json"),
        r#"{"name": "lab", "boot": "qemu-kernel", "secure_boot": "off", "secure_boot_variable": "empty"}"#,
    )
    .unwrap();
    let arguments = ["measure", "image", "image.efi", "--output", "json", "--machine", "debian-13-ovmf-kernel"];
    let json = latchkey(directory.path(), &[&arguments[..], &["--machine", "lab.json"]].concat()).succeeded().json();
    let machines = json["machines"].as_array().unwrap();
    assert_eq!(
        (machines[0]["machine"].as_str(), machines[1]["machine"].as_str()),
        (Some("debian-13-ovmf-kernel"), Some("lab"))
    );
    assert_eq!(machines[0]["pcrs"], machines[1]["pcrs"]);
    assert_eq!(machines[0]["pcrs"].as_object().unwrap().keys().count(), 6);
    assert_eq!(machines[0]["phases"].as_array().unwrap().len(), 6);
}

#[test]
fn what_cannot_be_predicted_is_refused_with_reason_and_fix() {
    let directory = directory_with_image();
    fs::write(directory.path().join("disk.qcow2"), b"QFI\xfb\0\0\0\x03").unwrap();
    fs::write(directory.path().join("nothing"), b"nothing").unwrap();
    fs::write(directory.path().join("new.efi"), unified("systemd-stub 300.1", &[])).unwrap();
    fs::write(directory.path().join("odd.json"), r#"{"name": "odd", "secure_boot": "perhaps"}"#).unwrap();
    for (arguments, reason) in [
        (&["disk.qcow2"][..], "fix: qemu-img convert -O raw disk.qcow2 disk.qcow2.raw"),
        (&["nothing"], "neither a raw disk image"),
        (&["new.efi"], r#""systemd-stub 300.1" measures is not known"#),
        (&["image.efi", "--machine", "pdp-11"], "neither a file nor one of debian-12-ovmf"),
        (&["image.efi", "--machine", "odd.json"], "unknown variant `perhaps`"),
    ] {
        let ran = latchkey(directory.path(), &[&["measure", "image"], arguments].concat()).failed(2);
        assert!(ran.err.contains(reason), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn a_log_of_another_image_is_told_by_the_first_event_of_each_register() {
    let directory = directory_with_image();
    let out = latchkey(directory.path(), &["measure", "log", LOG, "--expect", "image.efi"]).failed(3).out;
    for text in [
        "not as predicted from image.efi on debian-12-ovmf-kernel:",
        "PCR 4 (boot loader or unified kernel image): event 10",
        r#"expected kernel command line "console=ttyS0", got kernel command line "console=ttyS0 panic=-1 evil=1""#,
        "PCR 12 (command-line override or credentials): event 29",
    ] {
        assert!(out.contains(text), "{text}: {out}");
    }
    assert!(!out.contains("  PCR 7 (Secure Boot state): event"), "{out}");
}

#[test]
fn a_log_is_held_against_a_manifest_register_by_register() {
    let directory = directory_with_image();
    let secure_boot_off = "65caf8dd1e0ea7a6347b635d2b379c93b9a1351edc2afc3ecda700e534eb3068";
    let values = [(7, Digest::from_hex(secure_boot_off).unwrap()), (12, Digest::ZERO)];
    let expected = ExpectedEvent::new(14, "EV_IPL", "a machine owner key", Digest([0x14; 32]));
    let made = ExpectedEvent::fold(std::slice::from_ref(&expected), 14);
    let values = values.into_iter().chain([(14, made)]).map(|(pcr, value)| (pcr, Reference::enforced(value)));
    let machine = PlatformProfile::new("lab", values.collect()).with_events(vec![expected]);
    let about = Description {
        manifest: ManifestName::new("edge").unwrap(),
        serial: 1,
        image: "edge",
        version: "1.0.0".parse().unwrap(),
        by: "a test",
        at: None,
    };
    let origin = Origin { products: [("edge.raw".to_owned(), Digest::ZERO)].into(), ..Origin::default() };
    let manifest = ReferenceValues::predicted(&about, origin, vec![machine]).unwrap().to_json();
    fs::write(directory.path().join("edge.json"), manifest).unwrap();
    let out = latchkey(directory.path(), &["measure", "log", LOG, "--expect", "edge.json"]).failed(3).out;
    assert!(out.contains("the log is not that of edge 1.0.0 on lab; what differs:"), "{out}");
    for text in [
        "the first event of each PCR that is not as edge 1.0.0 on lab has it:",
        "PCR 12 (command-line override or credentials): event 29",
        "PCR 14 (machine owner keys): without the event a machine owner key (EV_IPL)",
    ] {
        assert!(out.contains(text), "{text}: {out}");
    }
    assert!(out.contains(&format!("expected {}, got caa5ae3d732efcee", Digest::ZERO)), "{out}");
    let arguments = ["measure", "log", LOG, "--expect", "edge.json", "--pcr", "7", "--output", "json"];
    assert_eq!(latchkey(directory.path(), &arguments).succeeded().json()["expected"][0]["matches"], true);
}

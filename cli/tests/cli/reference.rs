//! `latchkey reference` and signed policies: publishing, upgrading and revoking an image, with stock `minisign` beside.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::command::{Ran, latchkey_fed};
use crate::support::node::{FakeNode, IMAGE};
use crate::support::operator::Operator;
use serde_json::{Value, json};

const NEW: [u8; 32] = [0x1b; 32];

/// A node on version 1.0.0, a key, and a signed manifest `edge.json` that names it.
fn published() -> (Operator, FakeNode) {
    let (operator, node) = Operator::with_node();
    operator.record_version(&node, "1.0.0", "edge.json");
    operator.run(&["reference", "new-key", "--out", "release.key"]).succeeded();
    operator.run(&["reference", "sign", "edge.json", "--key", "release.key"]).succeeded();
    let ek = node.ek().to_string();
    let policy = ["policy", "new", "--ek-pin", &ek, "--manifest", "demo", "--signer", "release.pub"];
    operator.run(&[&policy[..], &["--out", "signed.json"]].concat()).succeeded();
    (operator, node)
}

fn verify(operator: &Operator, node: &FakeNode, reference: &str, more: &[&str]) -> Ran {
    let address = node.address();
    let arguments = ["verify", &address, "--policy", "signed.json", "--reference", reference, "--output", "json"];
    operator.run(&[&arguments[..], more].concat())
}

fn code(ran: Ran, exit: i32) -> Value {
    ran.failed(exit).json()["error"]["code"].clone()
}

/// `None`, and a line that says so, where it is not installed.
fn minisign(operator: &Operator, arguments: &[&str]) -> Option<bool> {
    let ran = latchkey_test_support::output(Command::new("minisign").args(arguments).current_dir(operator.directory()));
    if ran.is_err() {
        latchkey_test_support::skip("minisign is missing: apt-get install minisign");
    }
    Some(ran.ok()?.status.success())
}

#[test]
fn a_new_key_is_private_named_unencrypted_and_never_overwritten() {
    let operator = Operator::new();
    let ran = operator.run(&["reference", "new-key", "--out", "release.key"]).succeeded();
    assert!(ran.err.contains("NOT encrypted"), "{}", ran.err);
    assert!(ran.out.starts_with("RW") && ran.out.trim_end().len() == 56, "{}", ran.out);
    let mode = std::fs::metadata(operator.path("release.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let public = std::fs::read_to_string(operator.path("release.pub")).unwrap();
    assert!(public.contains(ran.out.trim_end()), "{public}");
    let secret = std::fs::read(operator.path("release.key")).unwrap();
    assert_eq!(
        code(operator.run(&["reference", "new-key", "--out", "release.key", "--output", "json"]), 2),
        "file-exists"
    );
    assert_eq!(std::fs::read(operator.path("release.key")).unwrap(), secret);
}

#[test]
fn a_key_with_a_password_signs_with_it_and_not_without() {
    let (operator, _) = published();
    let arguments = ["reference", "new-key", "--out", "locked.key", "--password", "-"];
    let ran = latchkey_fed(operator.directory(), &arguments, b"correct horse\n").succeeded();
    assert!(ran.err.contains("encrypted with the password"), "{}", ran.err);
    let sign = ["reference", "sign", "edge.json", "--key", "locked.key", "--output", "json"];
    let without = operator.run(&sign).failed(2);
    assert!(without.json()["error"]["fix"].as_str().unwrap().contains("--password"), "{without:?}");
    let with = [&sign[..], &["--password", "-"]].concat();
    assert_eq!(code(latchkey_fed(operator.directory(), &with, b"wrong\n"), 2), "key-unusable");
    latchkey_fed(operator.directory(), &with, b"correct horse\n").succeeded();
    operator.run(&["reference", "check", "edge.json", "--signer", "locked.pub"]).succeeded();
}

#[test]
fn a_secret_key_that_others_can_read_signs_nothing() {
    let (operator, _) = published();
    let key = operator.path("release.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = operator.run(&["reference", "sign", "edge.json", "--key", "release.key", "--output", "json"]);
    assert_eq!(code(ran, 2), "secret-unusable");
}

#[test]
fn a_signed_manifest_is_shown_and_verified_by_stock_minisign_too() {
    let (operator, _) = published();
    let ran = operator.run(&["reference", "check", "edge.json", "--signer", "release.pub"]).succeeded();
    for part in ["demo, serial ", "(manifest:demo serial:", "demo 1.0.0", "recorded", "always", "qemu", "(0) (2) (3) 4"]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let json = operator
        .run(&["reference", "check", "edge.json", "--signer", "release.pub", "--output", "json"])
        .succeeded()
        .json();
    assert_eq!(json["authority"]["kind"], "signed");
    assert_eq!(json["manifest"], operator.json("edge.json"));
    assert!(minisign(&operator, &["-V", "-m", "edge.json", "-p", "release.pub"]).unwrap_or(true));
    // And the other way round.
    if minisign(&operator, &["-S", "-s", "release.key", "-m", "edge.json", "-t", "by hand"]).is_some() {
        let ran = operator.run(&["reference", "check", "edge.json", "--signer", "release.pub"]).succeeded();
        assert!(ran.out.contains("(by hand)"), "{}", ran.out);
    }
}

#[test]
fn a_manifest_that_is_not_signed_as_the_policy_demands_is_refused_with_the_mend() {
    let (operator, node) = published();
    verify(&operator, &node, "edge.json", &[]).succeeded();
    let good = std::fs::read(operator.path("edge.json")).unwrap();
    let text = String::from_utf8(good.clone()).unwrap();
    std::fs::write(operator.path("edge.json"), text.replace("0b0b", "0c0c")).unwrap();
    assert_eq!(code(verify(&operator, &node, "edge.json", &[]), 2), "reference-signature-invalid");
    std::fs::write(operator.path("edge.json"), &good).unwrap();
    operator.run(&["reference", "new-key", "--out", "thief.key"]).succeeded();
    operator.run(&["reference", "sign", "edge.json", "--key", "thief.key"]).succeeded();
    assert_eq!(code(verify(&operator, &node, "edge.json", &[]), 2), "reference-signature-unknown-signer");
    assert_eq!(
        code(operator.run(&["reference", "check", "edge.json", "--signer", "release.pub", "--output", "json"]), 2),
        "reference-signature-unknown-signer"
    );
    std::fs::remove_file(operator.path("edge.json.minisig")).unwrap();
    let missing = verify(&operator, &node, "edge.json", &[]).failed(2).json();
    assert_eq!(missing["error"]["code"], "reference-signature-missing");
    assert!(missing["error"]["fix"].as_str().unwrap().contains("latchkey reference sign"), "{missing}");
}

/// What an operator does for an upgrade: record or build the new image, publish it, and later revoke the old one.
#[test]
fn an_upgrade_is_published_and_the_old_version_revoked_with_one_command_each() {
    let (operator, node) = published();
    node.set_pcr(11, NEW);
    operator.record_version(&node, "1.1.0", "new.json");
    assert_eq!(code(verify(&operator, &node, "edge.json", &[]), 3), "image-differs");
    let add = ["reference", "add", "edge.json", "new.json", "--old-until", "14d", "--key", "release.key"];
    let ran = operator.run(&[&add[..], &["--out", "edge-2.json"]].concat()).succeeded();
    assert!(ran.out.contains("demo 1.1.0") && ran.out.contains("until 2"), "{}", ran.out);
    assert_eq!(operator.serial("edge-2.json"), operator.serial("edge.json") + 1);
    let on = |version: &str| {
        let image = &verify(&operator, &node, "edge-2.json", &[]).succeeded().json()["claims"]["image"];
        assert_eq!((&image["version"], &image["machine"]), (&json!(version), &json!("qemu")));
    };
    on("1.1.0");
    node.set_pcr(11, IMAGE[3].1);
    on("1.0.0");
    let revoke = ["reference", "revoke", "edge-2.json", "demo", "1.0.0", "--why", "its kernel has a hole"];
    operator.run(&[&revoke[..], &["--key", "release.key", "--out", "edge-3.json"]].concat()).succeeded();
    let refused = verify(&operator, &node, "edge-3.json", &[]).failed(3).json();
    assert_eq!(refused["error"]["code"], "image-revoked");
    assert!(refused["error"]["because"].to_string().contains("its kernel has a hole"), "{refused}");
}

#[test]
fn what_is_added_keeps_its_revocations_and_ends_only_older_versions_of_its_own() {
    let (operator, node) = published();
    operator.record_version(&node, "0.9.0", "older.json");
    let revoke = ["reference", "revoke", "older.json", "demo", "0.9.0", "--why", "a hole", "--out", "bad.json"];
    operator.run(&revoke).succeeded();
    let add = ["reference", "add", "edge.json", "bad.json", "--out", "next.json"];
    let nothing_older = operator.run(&[&add[..], &["--old-until", "14d"]].concat()).failed(2);
    assert!(nothing_older.err.contains("no image of BASE is older"), "{}", nothing_older.err);
    operator.run(&add).succeeded();
    let next: Value = serde_json::from_slice(&std::fs::read(operator.path("next.json")).unwrap()).unwrap();
    assert_eq!((&next["revoked"][0]["version"], &next["revoked"][0]["why"]), (&json!("0.9.0"), &json!("a hole")));
}

#[test]
fn a_revision_that_makes_no_sense_is_not_written() {
    let (operator, _) = published();
    let revoke = |name: &str, version: &str| {
        let arguments = ["reference", "revoke", "edge.json", name, version, "--why", "x", "--out", "next.json"];
        operator.run(&[&arguments[..], &["--output", "json"]].concat())
    };
    let unknown = revoke("demo", "2.0.0").failed(2);
    assert!(unknown.json()["error"]["because"].to_string().contains("demo 1.0.0"), "{unknown:?}");
    let same = ["reference", "add", "edge.json", "edge.json", "--out", "next.json", "--output", "json"];
    assert_eq!(code(operator.run(&same), 2), "reference-malformed");
    let serial = ["reference", "add", "edge.json", "demo.json", "--serial", "1", "--out", "next.json"];
    assert_eq!(code(operator.run(&[&serial[..], &["--output", "json"]].concat()), 2), "reference-malformed");
    let time = ["reference", "add", "edge.json", "demo.json", "--not-after", "tomorrow", "--out", "next.json"];
    assert!(operator.run(&time).failed(2).err.contains("2026-01-31T23:59:59Z"));
    assert!(!operator.path("next.json").exists() && !operator.path("next.json.minisig").exists());
}

#[test]
fn a_cluster_s_directory_remembers_revisions_and_commands_without_one_say_that_they_do_not() {
    let (operator, node) = published();
    let add = ["reference", "revoke", "edge.json", "demo", "1.0.0", "--why", "a test", "--key", "release.key"];
    operator.run(&[&add[..], &["--out", "edge-2.json"]].concat()).succeeded();
    std::fs::remove_file(operator.path("demo.json")).unwrap();
    std::fs::rename(operator.path("edge.json"), operator.path("demo.json")).unwrap();
    std::fs::rename(operator.path("edge.json.minisig"), operator.path("demo.json.minisig")).unwrap();
    std::fs::rename(operator.path("signed.json"), operator.path("policy.json")).unwrap();
    operator.init(&node, &[]).succeeded();
    assert!(operator.path("plant/references/demo.json.minisig").exists());
    assert!(operator.path("plant/revisions.json").exists());

    let address = node.address();
    let check = |arguments: &[&str]| operator.run(&[&["verify", &address, "--output", "json"], arguments].concat());
    let files = ["--policy", "policy.json", "--reference", "demo.json"];
    assert_eq!(check(&files).succeeded().json()["rollback"], "unnoticed");
    assert_eq!(check(&[&files[..], &["--cluster", "plant"]].concat()).succeeded().json()["rollback"], "refused");
    assert_eq!(check(&["--cluster", "plant"]).succeeded().json()["rollback"], "refused");
    // The directory takes up the next revision, and then nothing older: not from its own files, and not from elsewhere.
    let install = |file: &str| operator.run(&["reference", "install", file, "--cluster", "plant", "--output", "json"]);
    let installed = install("edge-2.json").succeeded().json();
    assert_eq!(installed["file"], "plant/references/demo.json", "{installed}");
    assert_eq!(code(check(&["--cluster", "plant"]), 3), "image-revoked");
    assert_eq!(code(install("demo.json"), 2), "reference-rolled-back");
    std::fs::remove_file(operator.path("edge-2.json.minisig")).unwrap();
    assert_eq!(code(install("edge-2.json"), 2), "reference-signature-missing");
    assert_eq!(code(check(&["--cluster", "plant"]), 3), "image-revoked");
    assert_eq!(code(check(&[&files[..], &["--cluster", "plant"]].concat()), 2), "reference-rolled-back");
    for file in ["demo.json", "demo.json.minisig"] {
        std::fs::copy(operator.path(file), operator.path("plant/references").join(file)).unwrap();
    }
    let rolled_back = check(&["--cluster", "plant"]).failed(2).json();
    assert_eq!(rolled_back["error"]["code"], "reference-rolled-back");
    assert!(rolled_back["error"]["message"].to_string().contains("plant/references/demo.json"), "{rolled_back}");
    let recover = operator.recover(&node, "master.json", &["--output", "json"]);
    assert_eq!(code(recover, 2), "reference-rolled-back");
}

#[test]
fn a_policy_explains_against_which_image_and_machine_evidence_passes_or_fails_and_why() {
    let (operator, node) = published();
    operator
        .run(&[
            "verify",
            &node.address(),
            "--policy",
            "policy.json",
            "--reference",
            "demo.json",
            "--save-evidence",
            "good.json",
        ])
        .succeeded();
    node.set_pcr(11, NEW);
    operator.record_version(&node, "1.1.0", "new.json");
    let add = ["reference", "add", "edge.json", "new.json", "--key", "release.key", "--out", "edge-2.json"];
    operator.run(&add).succeeded();
    let check = |more: &[&str]| {
        let arguments = ["policy", "check", "--policy", "signed.json", "--reference", "edge-2.json"];
        operator.run(&[&arguments[..], more].concat()).succeeded()
    };
    let ran = check(&["--evidence", "good.json"]);
    for part in ["would be admitted", "passes", "fails: PCR 11 differ: sections of the unified kernel image"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let json = check(&["--evidence", "good.json", "--output", "json"]).json();
    assert_eq!(json["evidence"]["verdict"], "consistent");
    assert_eq!(json["evidence"]["images"][0]["passes"], true);
    let other = &json["evidence"]["images"][1];
    assert_eq!((&other["passes"], &other["image"]["version"]), (&json!(false), &json!("1.1.0")));
    assert_eq!(other["differing"][0]["pcr"], 11);
    assert_eq!(
        (&other["differing"][0]["expected"], &other["differing"][0]["got"]),
        (&json!("1b".repeat(32)), &json!("0b".repeat(32)))
    );
    assert_eq!(json["manifests"][0]["authority"]["kind"], "signed");

    let mut evidence = operator.json("good.json");
    evidence["pcrs"]["9"] = json!("66".repeat(32));
    std::fs::write(operator.path("altered.json"), evidence.to_string()).unwrap();
    let json = check(&["--evidence", "altered.json", "--output", "json"]).json();
    assert_eq!(json["evidence"]["refusal"]["code"], "pcr-digest-mismatch");
    assert_eq!(json["evidence"]["images"][0]["passes"], false);
}

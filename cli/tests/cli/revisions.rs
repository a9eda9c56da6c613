//! What a revision of a manifest may not do unnoticed: forget revocations, bring back an old version, take a serial that
//! locks out all later revisions.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::command::{Ran, finish, start};
use crate::support::node::FakeNode;
use crate::support::operator::Operator;
use latchkey_attestation::{ManifestFile, References};
use latchkey_cluster_store::ClusterStore;
use latchkey_test_support::PATIENCE;
use serde_json::{Value, json};
use std::fs;
use std::time::Instant;

const LARGEST: &str = "9007199254740991";

/// A cluster that follows `demo`, signed, with version 1.0.0.
fn cluster() -> (Operator, FakeNode) {
    let (operator, node) = Operator::with_node();
    operator.run(&["reference", "new-key", "--out", "release.key"]).succeeded();
    operator.run(&["reference", "sign", "demo.json", "--key", "release.key"]).succeeded();
    let ek = node.ek().to_string();
    std::fs::remove_file(operator.path("policy.json")).unwrap();
    let policy = ["policy", "new", "--ek-pin", &ek, "--manifest", "demo", "--signer", "release.pub"];
    operator.run(&[&policy[..], &["--out", "policy.json"]].concat()).succeeded();
    operator.init(&node, &[]).succeeded();
    (operator, node)
}

fn install(operator: &Operator, file: &str, more: &[&str]) -> Ran {
    let arguments = ["reference", "install", file, "--cluster", "plant", "--output", "json"];
    operator.run(&[&arguments[..], more].concat())
}

fn code(ran: Ran, exit: i32) -> Value {
    ran.failed(exit).json()["error"]["code"].clone()
}

/// The next revision of `base`, with a new description of the image's first version as revoked.
fn revoked(operator: &Operator, base: &str, out: &str, more: &[&str]) -> Ran {
    let revoke =
        ["reference", "revoke", base, "demo", "1.0.0", "--why", "a hole", "--key", "release.key", "--out", out];
    operator.run(&[&revoke[..], more].concat())
}

/// A build makes its manifest anew and knows nothing of revocations; signed and installed as it is, it would end them.
#[test]
fn a_revision_that_forgets_a_revocation_is_installed_only_if_that_is_said() {
    let (operator, node) = cluster();
    revoked(&operator, "demo.json", "revoked.json", &[]).succeeded();
    install(&operator, "revoked.json", &[]).succeeded();
    let mut anew = operator.json("demo.json");
    anew["serial"] = json!(operator.serial("revoked.json") + 1);
    std::fs::write(operator.path("anew.json"), anew.to_string()).unwrap();
    let signed = operator.run(&["reference", "sign", "anew.json", "--key", "release.key"]).succeeded();
    assert!(
        signed.out.contains("demo 1.0.0") && signed.out.contains("REVOKED"),
        "what is signed is shown: {}",
        signed.out
    );
    let refused = install(&operator, "anew.json", &[]).failed(2).json();
    assert_eq!(refused["error"]["code"], "revocations-missing");
    assert!(refused["error"]["because"].to_string().contains("demo 1.0.0: a hole"), "{refused}");
    let verify = ["verify", &node.address(), "--cluster", "plant", "--output", "json"];
    assert_eq!(code(operator.run(&verify), 3), "image-revoked");
    install(&operator, "anew.json", &["--forget-revocations"]).succeeded();
    operator.run(&verify).succeeded();
}

#[test]
fn a_serial_that_locks_out_all_later_revisions_is_warned_of_and_there_is_a_way_back() {
    let (operator, node) = cluster();
    let ran = revoked(&operator, "demo.json", "last.json", &["--serial", LARGEST]).succeeded();
    assert!(ran.err.contains("lies beyond the seconds since 1970"), "{}", ran.err);
    let ran = install(&operator, "last.json", &[]).succeeded();
    assert!(ran.err.contains("--replace-newer"), "{}", ran.err);
    // Nothing can follow it.
    let beyond = revoked(&operator, "last.json", "beyond.json", &["--output", "json"]);
    assert_eq!(code(beyond, 2), "reference-malformed");
    revoked(&operator, "demo.json", "next.json", &[]).succeeded();
    assert_eq!(code(install(&operator, "next.json", &[]), 2), "reference-rolled-back");
    // Nor is it a way around the signature.
    std::fs::rename(operator.path("next.json.minisig"), operator.path("kept")).unwrap();
    assert_eq!(code(install(&operator, "next.json", &["--replace-newer"]), 2), "reference-signature-missing");
    std::fs::rename(operator.path("kept"), operator.path("next.json.minisig")).unwrap();
    let installed = install(&operator, "next.json", &["--replace-newer"]).succeeded().json();
    assert_eq!(installed["serial"], json!(operator.serial("next.json")));
    let verify = ["verify", &node.address(), "--cluster", "plant", "--output", "json"];
    assert_eq!(code(operator.run(&verify), 3), "image-revoked");
    // From here on everything older is refused again.
    assert_eq!(code(install(&operator, "demo.json", &["--forget-revocations"]), 2), "reference-rolled-back");
}

/// Both may look before either writes: the older revision would then be in force and the newer one be what is remembered, and
/// the directory of no use to anybody.
#[test]
fn an_installation_that_a_newer_one_overtakes_is_refused_and_the_newer_one_stays_in_force() {
    let (operator, node) = cluster();
    revoked(&operator, "demo.json", "older.json", &[]).succeeded();
    let next = (operator.serial("older.json") + 1).to_string();
    revoked(&operator, "demo.json", "newer.json", &["--serial", &next]).succeeded();
    let directory = ClusterStore::open(operator.path("plant")).unwrap();
    let policy = directory.policy().unwrap();
    let [manifest, signature] = ["newer.json", "newer.json.minisig"].map(|file| fs::read(operator.path(file)).unwrap());
    let revision = ManifestFile::new(manifest.clone(), Some(signature.clone())).under(&policy).unwrap();

    let mut writer = directory.writer().unwrap();
    let late =
        start(operator.directory(), &["reference", "install", "older.json", "--cluster", "plant", "--output", "json"]);
    let begun = Instant::now();
    while !has_open(late.id(), "plant/.lock") {
        assert!(begun.elapsed() < PATIENCE, "it never came to the directory's lock");
        std::thread::yield_now();
    }
    let place = directory.references_path().join("demo.json");
    writer.put_manifest(&policy, &place, &manifest, Some(&signature)).unwrap();
    writer.remember(&References::new(&policy, vec![revision]).unwrap(), 1_800_000_000).unwrap();
    drop(writer);

    assert_eq!(code(finish(late), 2), "reference-rolled-back");
    assert_eq!(directory.references(&policy).unwrap().iter().next().unwrap().values().serial().to_string(), next);
    assert_eq!(
        code(operator.run(&["verify", &node.address(), "--cluster", "plant", "--output", "json"]), 3),
        "image-revoked"
    );
}

/// Whether a process has a file open whose path ends so.
fn has_open(process: u32, path: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file.ends_with(path))
}

#[test]
fn an_old_version_that_a_revision_brings_back_is_pointed_out() {
    let (operator, node) = Operator::with_node();
    node.set_pcr(11, [0x1b; 32]);
    operator.record_version(&node, "0.9.0", "older.json");
    let add = ["reference", "add", "demo.json", "older.json", "--out", "next.json"];
    let ran = operator.run(&add).succeeded();
    assert!(ran.err.contains("demo 0.9.0 is older than a version that is there"), "{}", ran.err);
}

/// Whoever can write where revisions lie waiting would otherwise have anything signed with the next one.
#[test]
fn a_base_that_the_signer_did_not_sign_is_pointed_out() {
    let (operator, _node) = Operator::with_node();
    operator.run(&["reference", "new-key", "--out", "release.key"]).succeeded();
    operator.run(&["reference", "sign", "demo.json", "--key", "release.key"]).succeeded();
    let said = revoked(&operator, "demo.json", "signed.json", &[]).succeeded().err;
    assert!(!said.contains("is not signed by key"), "{said}");
    let mut altered = operator.json("demo.json");
    altered["serial"] = json!(operator.serial("demo.json") + 5);
    std::fs::write(operator.path("demo.json"), altered.to_string()).unwrap();
    let said = revoked(&operator, "demo.json", "altered.json", &[]).succeeded().err;
    assert!(said.contains("demo.json is not signed by key"), "{said}");
}

#[test]
fn a_policy_is_installed_only_if_the_manifests_in_force_are_what_it_demands() {
    let (operator, node) = cluster();
    let (ek, in_force) = (node.ek().to_string(), operator.path("plant/policy.json"));
    let before = fs::read(&in_force).unwrap();
    operator.run(&["reference", "new-key", "--out", "other.key"]).succeeded();
    let install = |signer: &str, out: &str| {
        let policy = ["policy", "new", "--ek-pin", &ek, "--manifest", "demo", "--signer", signer, "--out", out];
        operator.run(&policy).succeeded();
        operator.run(&["policy", "install", out, "--cluster", "plant", "--output", "json"])
    };
    assert_eq!(code(install("other.pub", "other.json"), 2), "reference-signature-unknown-signer");
    assert!(fs::read(&in_force).unwrap() == before, "it stays as it was");
    fs::write(operator.path("broken.json"), "{").unwrap();
    let broken = operator.run(&["policy", "install", "broken.json", "--cluster", "plant", "--output", "json"]);
    assert_eq!(code(broken, 2), "policy-malformed");
    let arguments = ["policy", "new", "--ek-pin", &ek, "--manifest", "demo", "--signer", "release.pub"];
    operator.run(&[&arguments[..], &["--firmware-refuse", "0", "--out", "strict.json"]].concat()).succeeded();
    operator.run(&["policy", "install", "strict.json", "--cluster", "plant"]).succeeded();
    assert_eq!(fs::read(&in_force).unwrap(), fs::read(operator.path("strict.json")).unwrap());
}

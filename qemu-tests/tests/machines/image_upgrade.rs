//! From one version of an image to the next, and no way back: what a running join service admits follows its manifest.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use latchkey_attestation::ReferenceValues;
use latchkey_attestation::reference::{Revocation, format_rfc3339};
use latchkey_qemu_tests::cluster::Services;
use latchkey_qemu_tests::fleet::{Fleet, MANIFEST, MEMBER, STEP, VERSION};
use latchkey_qemu_tests::publisher::{Publisher, replace, signature};
use latchkey_qemu_tests::rootfs::{Form, SHOW_ROOT};
use latchkey_qemu_tests::vm::Vm;

const NEXT: &str = "2.0.0";

/// What the running join service says of what it follows.
const RELOADED: &str = "Configuration reloaded";
const KEPT: &str = "what was read before stays in use";
const WHY: &str = "its kernel has a hole";
/// The end of the upgrade's window, from when the operator sets it: enough for the service to take the revision up before.
const SHORTLY: u64 = 3;

/// The operator's command makes the next revision and puts it in force.
fn publish(fleet: &Fleet, services: &Services, command: &[&str], revision: &str) {
    let (key, revision) = (fleet.path("release.key"), fleet.path(revision));
    let made = fleet.cli(&[&["reference"], command, &["--key", &key, "--out", &revision]].concat()).unwrap();
    made.success(command[0]).unwrap();
    let install = ["reference", "install", &revision, "--cluster", &fleet.path("cluster")];
    fleet.cli(&install).unwrap().success("reference install").unwrap();
    services.join.console().expect(RELOADED, STEP).unwrap();
}

/// What the publisher never signed, or somebody holds back: a revision with both images and no window.
fn revision(old: &ReferenceValues, new: &ReferenceValues, serial: u64, revoked: bool) -> ReferenceValues {
    let revocation = Revocation { name: MANIFEST.into(), version: VERSION.parse().unwrap(), why: WHY.to_owned() };
    let change = |images: &mut Vec<_>, revocations: &mut Vec<_>| {
        images.extend(new.images().iter().cloned());
        revocations.extend(revoked.then_some(revocation));
    };
    old.edited(serial, change).unwrap()
}

/// Puts a manifest where the running service follows it, past the operator's command, and waits for what it says.
fn plant(fleet: &Fleet, services: &Services, publisher: &Publisher, values: &ReferenceValues, says: &str) -> String {
    publisher.sign(values, &fleet.deployed_manifest()).unwrap();
    services.join.console().expect(says, STEP).unwrap().text
}

/// Boots the node until it is refused: that is when the window has ended.
fn refused_in_the_end(node: &mut Vm) {
    let begun = Instant::now();
    loop {
        node.restart().unwrap();
        let (which, line) = node.expect_any(&["no ticket yet: measurements-refused", MEMBER], STEP).unwrap();
        if which == 0 {
            return;
        }
        assert!(begun.elapsed() < STEP, "the window does not end: {}", line.text);
    }
}

/// What is at `/`, and where a file of an earlier boot is not and a new one can be.
fn root_is(node: &Vm, kind: &str, writable: &str) {
    let line = node.expect("OS root is ", STEP).unwrap().text;
    assert!(line.ends_with(&format!("OS root is {kind}, writes to {writable}")), "{line}");
}

fn data(node: &Vm, step: &str) -> String {
    node.console().value(&format!("{step}: data ")).unwrap()
}

#[test]
fn old_and_new_are_admitted_during_the_window_and_the_old_one_never_again_after_it() {
    let fleet = Fleet::with("upgrade", "", SHOW_ROOT).unwrap();
    // Nothing says that the next version has its root in the same form.
    let new =
        fleet.build_image_of((Form::DirectoryForErofs, SHOW_ROOT), "next", NEXT, "latchkey.writable=none").unwrap();
    let (services, first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    drop(first);
    let mut node = fleet.machine("node-2").unwrap().start().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    let written = data(&node, "cluster-step");
    root_is(&node, "overlay", "/run / /etc /var and not to");

    // Before the new image is known, a node that boots it gets nothing; it keeps asking, and is let in once it is.
    node.restart_with(new.boot()).unwrap();
    node.expect("no ticket yet: measurements-refused", STEP).unwrap();
    let (base, next) = (fleet.path("reference.json"), fleet.path("next/reference.json"));
    let add = |serial, until| ["add", &base, &next, "--serial", serial, "--old-until", until].map(str::to_owned);
    let with = |command: [String; 7], revision| {
        publish(&fleet, &services, &command.each_ref().map(String::as_str), revision);
    };
    with(add("2", "14d"), "revision-2.json");
    node.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&node, "start-member"), written);
    root_is(&node, "erofs", "/run and not to / /etc /var");
    // The window: the old one is as good. What was written over the root is gone with the power.
    node.restart_with(fleet.image().boot()).unwrap();
    node.expect(MEMBER, STEP).unwrap();
    root_is(&node, "overlay", "/run / /etc /var and not to");

    // Its end, which comes while the service runs: nothing tells it.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    with(add("3", &format_rfc3339(now + SHORTLY)), "revision-3.json");
    refused_in_the_end(&mut node);
    services.join.console().expect("image-expired", STEP).unwrap();

    // The old one is revoked. The node keeps asking while others try to make the service forget.
    let revoke = ["revoke", &fleet.path("revision-3.json"), MANIFEST, VERSION, "--why", WHY];
    publish(&fleet, &services, &revoke, "revision-4.json");
    let line = services.join.console().expect("image-revoked", STEP).unwrap().text;
    assert!(line.contains(WHY), "{line}");

    let values = |serial, revoked| revision(&fleet.image().values, &new.values, serial, revoked);
    let line = plant(&fleet, &services, fleet.publisher(), &values(3, false), "reference-rolled-back");
    assert!(line.contains(KEPT), "{line}");
    let stranger = Publisher::new().unwrap();
    let line = plant(&fleet, &services, &stranger, &values(5, false), "reference-signature-unknown-signer");
    assert!(line.contains(KEPT), "{line}");
    // What the publisher signed, with a revocation taken out.
    let path = fleet.deployed_manifest();
    fleet.publisher().sign(&values(6, true), &fleet.run().file("signed.json")).unwrap();
    let signed = std::fs::read_to_string(signature(&fleet.run().file("signed.json"))).unwrap();
    replace(&signature(&path), &signed).unwrap();
    replace(&path, &format!("{}\n", values(6, false).to_json())).unwrap();
    let line = services.join.console().expect("reference-signature-invalid", STEP).unwrap().text;
    assert!(line.contains(KEPT), "{line}");
    services.join.console().expect("image-revoked", STEP).unwrap();

    // Not revoked any more, but below what the site's policy wants.
    let policy = std::fs::read_to_string(fleet.path("cluster/policy.json")).unwrap();
    let mut stricter: serde_json::Value = serde_json::from_str(&policy).unwrap();
    stricter["references"][0]["minimum_version"] = NEXT.into();
    plant(&fleet, &services, fleet.publisher(), &values(7, false), RELOADED);
    replace(&fleet.run().file("cluster/policy.json"), &stricter.to_string()).unwrap();
    services.join.console().expect(RELOADED, STEP).unwrap();
    services.join.console().expect("image-version-too-old", STEP).unwrap();
    assert!(!node.console().contains("lock: begin"));

    // The new one still is what the policy wants.
    node.restart_with(new.boot()).unwrap();
    node.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&node, "start-member"), written);
}

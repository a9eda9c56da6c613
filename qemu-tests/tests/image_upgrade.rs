//! From one version of an image to the next, and no way back: what a running join service admits follows its manifest.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use latchkey_attestation::ReferenceValues;
use latchkey_attestation::reference::Revocation;
use latchkey_qemu_tests::cluster::Services;
use latchkey_qemu_tests::fleet::{Fleet, MANIFEST, MEMBER, STEP, VERSION};
use latchkey_qemu_tests::publisher::{Publisher, replace, signature};
use latchkey_qemu_tests::vm::Vm;

const NEXT: &str = "2.0.0";

/// A manifest with images of both, of an edition.
fn edition(old: &ReferenceValues, new: &ReferenceValues, serial: u64, revoked: bool) -> ReferenceValues {
    let why = "its kernel has a hole".to_owned();
    let revocation = Revocation { name: MANIFEST.into(), version: VERSION.parse().unwrap(), why };
    let change = |images: &mut Vec<_>, revocations: &mut Vec<_>| {
        images.extend(new.images().iter().cloned());
        revocations.extend(revoked.then_some(revocation));
    };
    old.edited(serial, change).unwrap()
}

/// Puts a manifest where the running service follows it, and waits for what it says.
fn deploy(fleet: &Fleet, services: &Services, publisher: &Publisher, values: &ReferenceValues, says: &str) -> String {
    publisher.sign(values, &fleet.deployed_manifest()).unwrap();
    services.join.console().expect(says, STEP).unwrap().text
}

fn data(node: &Vm, step: &str) -> String {
    node.console().value(&format!("{step}: data ")).unwrap()
}

#[test]
fn old_and_new_are_admitted_during_the_window_and_the_old_one_never_again_after_it() {
    let fleet = Fleet::new("upgrade").unwrap();
    let new = fleet.build_image("next", NEXT, "").unwrap();
    let (services, first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    drop(first);
    let mut node = fleet.machine("node-2").unwrap().start().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    let written = data(&node, "cluster-step");

    // Before the new image is known, a node that boots it gets nothing; it keeps asking, and is let in once it is.
    node.restart_with(new.boot()).unwrap();
    node.expect("no ticket yet: measurements-refused", STEP).unwrap();
    let (reloaded, kept) = ("Configuration reloaded", "what was read before stays in use");
    let values = |serial, revoked| edition(&fleet.image().values, &new.values, serial, revoked);
    deploy(&fleet, &services, fleet.publisher(), &values(2, false), reloaded);
    node.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&node, "start-member"), written);
    // The window: the old one is as good.
    node.restart_with(fleet.image().boot()).unwrap();
    node.expect(MEMBER, STEP).unwrap();

    // The old one is revoked. The node keeps asking while others try to make the service forget.
    deploy(&fleet, &services, fleet.publisher(), &values(3, true), reloaded);
    node.restart().unwrap();
    node.expect("no ticket yet: ", STEP).unwrap();
    let line = services.join.console().expect("image-revoked", STEP).unwrap().text;
    assert!(line.contains("its kernel has a hole"), "{line}");

    let line = deploy(&fleet, &services, fleet.publisher(), &values(2, false), "reference-rolled-back");
    assert!(line.contains(kept), "{line}");
    let stranger = Publisher::new().unwrap();
    let line = deploy(&fleet, &services, &stranger, &values(4, false), "reference-signature-unknown-signer");
    assert!(line.contains(kept), "{line}");
    // What the publisher signed, with a revocation taken out.
    let path = fleet.deployed_manifest();
    fleet.publisher().sign(&values(5, true), &fleet.run().file("signed.json")).unwrap();
    let signed = std::fs::read_to_string(signature(&fleet.run().file("signed.json"))).unwrap();
    replace(&signature(&path), &signed).unwrap();
    replace(&path, &format!("{}\n", values(5, false).to_json())).unwrap();
    let line = services.join.console().expect("reference-signature-invalid", STEP).unwrap().text;
    assert!(line.contains(kept), "{line}");
    services.join.console().expect("image-revoked", STEP).unwrap();

    // Not revoked any more, but below what the site's policy wants.
    let policy = std::fs::read_to_string(fleet.path("cluster/policy.json")).unwrap();
    let mut stricter: serde_json::Value = serde_json::from_str(&policy).unwrap();
    stricter["references"][0]["minimum_version"] = NEXT.into();
    deploy(&fleet, &services, fleet.publisher(), &values(6, false), reloaded);
    replace(&fleet.run().file("cluster/policy.json"), &stricter.to_string()).unwrap();
    services.join.console().expect(reloaded, STEP).unwrap();
    services.join.console().expect("image-version-too-old", STEP).unwrap();
    assert!(!node.console().contains("lock: begin"));

    // The new one still is what the policy wants.
    node.restart_with(new.boot()).unwrap();
    node.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&node, "start-member"), written);
}

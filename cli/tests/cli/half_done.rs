//! What commands say of what they did in part, of what there is nothing of, and of what cannot be read: with a stand-in for kubectl.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::command::latchkey;
use crate::support::plant::error_code;
use crate::support::stand_in::StandIn;
use serde_json::json;

fn ek(byte: &str) -> String {
    byte.repeat(32)
}

/// Its role is not known: it may be a control plane, whose member of etcd would stay.
#[test]
fn a_machine_whose_record_cannot_be_read_is_not_removed_and_not_shut_out() {
    let plant = StandIn::new();
    plant.record(&ek("ab"), &json!({ "version": 1, "ek_sha256": ek("ab"), "role": "control-plane" }));
    let ran = plant.run(&["node", "remove", &ek("ab")]).failed(2);
    assert_eq!(error_code(&ran), "file-malformed");
    assert!(ran.out.contains("cannot be read as a record"), "{}", ran.out);
    assert_eq!(plant.changes(), [] as [String; 0]);
    assert_eq!(plant.data("latchkey-denied"), json!({}));
}

/// A digest that was mistyped would be denied for ever, and nobody told.
#[test]
fn of_what_there_is_nothing_nothing_is_removed_and_nobody_is_shut_out() {
    let plant = StandIn::new();
    let ran = plant.run(&["node", "remove", &ek("ab")]).failed(2);
    assert_eq!(error_code(&ran), "node-unknown");
    assert_eq!(plant.changes(), [] as [String; 0]);
    assert_eq!(plant.data("latchkey-denied"), json!({}));
    // A rule is something.
    plant.rules(&json!([{ "ek_sha256": ek("ab"), "role": "worker" }]));
    let removed = plant.run(&["node", "remove", &ek("ab")]).succeeded().json();
    assert_eq!(removed["denied"], true);
    assert!(plant.data("latchkey-denied").get(ek("ab")).is_some());
}

#[test]
fn a_removal_that_fails_says_that_it_shut_the_machine_out() {
    let plant = StandIn::new();
    plant.rules(&json!([{ "ek_sha256": ek("ab"), "role": "worker" }]));
    plant.fail("latchkey-enrolment");
    let ran = plant.run(&["node", "remove", &ek("ab")]).failed(1);
    assert_eq!(error_code(&ran), "api-server-failed");
    assert!(ran.out.contains("the machine is shut out by now"), "{}", ran.out);
    assert!(plant.data("latchkey-denied").get(ek("ab")).is_some());
}

/// Whoever is told that it failed would look for another way, or give up.
#[test]
fn a_denial_in_force_is_reported_as_one_with_what_is_still_to_be_done() {
    let plant = StandIn::new();
    plant.fail("latchkey-cluster");
    let ran = plant.run(&["node", "deny", &ek("ab")]).failed(1);
    let denied = ran.json();
    assert_eq!((&denied["denied"], &denied["half_done"]), (&json!(true), &json!("denial-not-counted")), "{denied}");
    assert!(ran.err.contains("denial-not-counted") && ran.err.contains("etcd is full"), "{}", ran.err);
    assert!(plant.data("latchkey-denied").get(ek("ab")).is_some());
    // The other way round it stands in the cluster's document.
    let plant = StandIn::new();
    plant.fail("latchkey-denied");
    let ran = plant.run(&["node", "deny", &ek("ab")]).failed(1);
    let denied = ran.json();
    assert_eq!((&denied["denied"], &denied["half_done"]), (&json!(true), &json!("denial-not-listed")), "{denied}");
    let list = plant.run(&["node", "list"]).failed(7).json();
    assert_eq!(list["denied"], json!([ek("ab")]), "{list}");
    // Neither of both is a failure.
    let plant = StandIn::new();
    for map in ["latchkey-denied", "latchkey-cluster"] {
        plant.fail(map);
    }
    assert_eq!(error_code(&plant.run(&["node", "deny", &ek("ab")]).failed(1)), "api-server-failed");
}

#[test]
fn a_cluster_whose_document_is_gone_is_not_said_to_lack_nothing() {
    let plant = StandIn::new();
    plant.run(&["upgrade", "store"]).succeeded();
    std::fs::remove_file(plant.path("latchkey-cluster.json")).unwrap();
    for command in [&["upgrade", "store"] as &[&str], &["upgrade", "store", "--denials", "0"]] {
        let ran = plant.run(command).failed(6);
        assert_eq!(error_code(&ran), "cluster-place-missing");
        assert!(ran.out.contains("latchkey-cluster"), "{}", ran.out);
    }
    assert_eq!(plant.changes(), [] as [String; 0]);
}

#[test]
fn revisions_that_begin_anew_are_said_to() {
    let plant = StandIn::new();
    std::fs::remove_file(plant.path("latchkey-revisions.json")).unwrap();
    let done = plant.run(&["upgrade", "store", "--denials", "0"]).succeeded().json();
    assert_eq!((&done["missing"], &done["begun_anew"]), (&json!([]), &json!(["latchkey-revisions"])));
    assert!(plant.path("latchkey-revisions.json").exists());
    std::fs::remove_file(plant.path("latchkey-revisions.json")).unwrap();
    let for_people = ["--kubeconfig", "admin.conf", "--kubectl-program", "./kubectl"];
    let directory = plant.path(".");
    let (shown, said): (&[&str], &[&str]) = (&[], &["--denials", "0"]);
    for (more, code) in [(shown, 1), (said, 0)] {
        let ran = latchkey(&directory, &[&["upgrade", "store"], more, &for_people].concat());
        assert!(ran.failed(code).out.contains("the manifests' revisions begin anew"));
    }
}

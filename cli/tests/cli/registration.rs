//! `latchkey cluster invite`, `uninvite`, `held`, `admit`: the operator's word in the enrol service's directory, read back as the service
//! reads it.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::command::{Ran, latchkey};
use latchkey_attestation::EkDigest;
use latchkey_cluster_store::registration::{Held, InvitationFile, RegistrationStore, Rules};
use tempfile::TempDir;

struct Site(TempDir);

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("enrol")).unwrap();
        let site = Self(directory);
        // As `latchkey centre up` makes it.
        let chart = "729fe070-5e67-4bc7-94b5-afd75cb42b03".parse().unwrap();
        let store = RegistrationStore::make(site.0.path().join("enrol")).unwrap();
        store.write_rules(&Rules::of(chart, "fplus-edge")).unwrap();
        site
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let all: Vec<&str> = ["cluster"].iter().chain(arguments).copied().chain(["--directory", "enrol"]).collect();
        latchkey(self.0.path(), &all)
    }

    fn store(&self) -> RegistrationStore {
        RegistrationStore::open(self.0.path().join("enrol")).unwrap()
    }
}

#[test]
fn an_invitation_is_a_private_file_and_the_service_has_its_hash_alone() {
    let site = Site::new();
    let ran = site.run(&["invite", "Press_4", "--to", "press.invitation", "--namespace", "hall"]).succeeded();
    assert!(ran.out.contains("press.invitation"), "{}", ran.out);
    let path = site.0.path().join("press.invitation");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let token = InvitationFile::read(&path).unwrap().token().unwrap();
    let known = site.store().invitation(&token.hash()).unwrap().unwrap();
    assert_eq!((known.cluster.name.as_str(), known.cluster.namespace.as_deref()), ("Press_4", Some("hall")));
    assert_eq!(known.expires - known.made, 24 * 60 * 60);
    let file = fs::read_to_string(&path).unwrap();
    let text = serde_json::from_str::<serde_json::Value>(&file).unwrap()["token"].as_str().unwrap().to_owned();
    assert!(!ran.out.contains(&text) && !ran.err.contains(&text), "the token is in its file alone");

    site.run(&["uninvite", "Press_4"]).succeeded();
    assert_eq!(site.store().invitation(&token.hash()).unwrap(), None);
}

/// No service reads what would be said there: the token would register nothing, and the machine wait for ever.
#[test]
fn a_directory_that_is_no_enrol_services_is_refused_and_left_as_it_is() {
    let site = Site::new();
    fs::create_dir(site.0.path().join("wrong")).unwrap();
    let ek = "ab".repeat(32);
    for command in [
        &["invite", "Press_4", "--to", "press.invitation"] as &[&str],
        &["uninvite", "Press_4"],
        &["held"],
        &["admit", &ek, "--name", "Press_4"],
    ] {
        for directory in ["wrong", "missing"] {
            let all = [&["cluster"], command, &["--directory", directory, "--output", "json"]].concat();
            let ran = latchkey(site.0.path(), &all).failed(6);
            assert_eq!(ran.json()["error"]["code"], "directory-unusable", "{all:?}");
        }
    }
    assert_eq!(fs::read_dir(site.0.path().join("wrong")).unwrap().count(), 0);
    assert!(!site.0.path().join("press.invitation").exists());
}

#[test]
fn what_cannot_be_an_invitation_is_refused_and_leaves_no_file() {
    let site = Site::new();
    for bad in [
        &["invite", "Press 4", "--to", "x"] as &[&str],
        &["invite", "admin", "--to", "x"],
        &["invite", "Press_4", "--to", "x", "--lifetime", "1s"],
        &["invite", "Press_4"],
    ] {
        site.run(bad).failed(2);
        assert!(!site.0.path().join("x").exists(), "{bad:?}");
    }
    fs::write(site.0.path().join("x"), "mine").unwrap();
    site.run(&["invite", "Press_4", "--to", "x"]).failed(2);
    assert_eq!(fs::read_to_string(site.0.path().join("x")).unwrap(), "mine");
    assert_eq!(site.store().invitations().unwrap(), []);
}

#[test]
fn a_machine_that_waits_is_shown_and_admitted_by_digits_of_its_key() {
    let site = Site::new();
    let held = |ek: &str| Held {
        version: 1,
        ek_sha256: EkDigest::from_hex(ek).unwrap(),
        disk: "f1f1f1f1-0000-4000-8000-000000000001".parse().unwrap(),
        image: "edge/edge-node 1.0.0".to_owned(),
        why: "enrol-not-invited".to_owned(),
        node_name: "node\u{1b}[2J".to_owned(),
        kubernetes_version: "v1.34.4".to_owned(),
        first_seen: 1,
        last_seen: 1,
    };
    let (one, two) = ("a1".repeat(32), format!("{}{}", "a1".repeat(16), "b2".repeat(16)));
    site.store().hold(&held(&one)).unwrap();
    site.store().hold(&held(&two)).unwrap();
    let shown = site.run(&["held"]).succeeded().out;
    assert!(shown.contains(&one) && shown.contains(&two) && !shown.contains('\u{1b}'), "{shown}");
    site.run(&["admit", "a1a1a1a1", "--name", "Press_4"]).failed(2);
    site.run(&["admit", "b2", "--name", "Press_4"]).failed(2);
    site.run(&["admit", &two, "--name", "Press_4"]).succeeded();
    let admitted = site.store().admitted(&EkDigest::from_hex(&two).unwrap()).unwrap().unwrap();
    assert_eq!(admitted.cluster.name.as_str(), "Press_4");
    assert_eq!(site.store().admitted(&EkDigest::from_hex(&one).unwrap()).unwrap(), None);
    fs::write(site.0.path().join("enrol/denied").join(&one), "").unwrap();
    assert!(site.run(&["admit", &one, "--name", "Press_5"]).failed(2).err.contains("shut out"));
}

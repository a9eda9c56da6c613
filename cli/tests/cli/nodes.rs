//! `latchkey node …` and `latchkey secret disk-key`: the operator's word about one machine, or one disk.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::command::Ran;
use crate::support::node::FakeNode;
use crate::support::operator::Operator;
use latchkey_cluster_store::{ClusterStore, NodeRecord, PendingRecord, RoleRule};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::json;

fn founded() -> (Operator, FakeNode, ClusterStore) {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    let store = ClusterStore::open(operator.path("plant")).unwrap();
    (operator, node, store)
}

fn node(operator: &Operator, arguments: &[&str]) -> Ran {
    operator.run(&[&["node"], arguments, &["--cluster", "plant", "--output", "json"]].concat())
}

fn error_code(ran: &Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn a_machine_that_waits_is_listed_with_its_tpm_and_admitted_by_it() {
    let (operator, _, store) = founded();
    let other = FakeNode::start(&operator.init_secret());
    let ek = other.ek().to_string();
    // As the join service writes it down. It asks for the name of a node that is there.
    let pending = PendingRecord::new(other.ek(), "edge-1", None, other.state().disk, 1_800_000_000);
    store.writer().unwrap().hold(&pending).unwrap();
    let list = node(&operator, &["list"]).succeeded().json();
    assert_eq!(list["held"][0]["ek_sha256"], ek);
    assert_eq!(list["nodes"].as_array().unwrap().len(), 1);
    // A name that a machine asks for names nobody: this is the node on record.
    assert_ne!(node(&operator, &["show", "edge-1"]).succeeded().json()["ek_sha256"], ek);
    assert_eq!(error_code(&node(&operator, &["admit", "edge-9"]).failed(2)), "usage");
    let admitted = node(&operator, &["admit", &ek, "--name", "edge-2"]).succeeded().json();
    assert_eq!((&admitted["ek_sha256"], &admitted["asked_for_name"]), (&ek.into(), &"edge-1".into()));
    let rules = store.enrolment().unwrap();
    let rule = rules.of(&other.ek()).pinned.unwrap();
    assert_eq!((rule.role, rule.name.as_ref().unwrap().as_str()), (RoleRule::Worker, "edge-2"));
    assert!(store.pending().unwrap().is_empty());
}

#[test]
fn a_denial_is_a_file_of_its_own_and_counts_whatever_the_policy_says() {
    let (operator, first, store) = founded();
    std::fs::write(operator.path("plant/policy.json"), "{").unwrap();
    std::fs::write(operator.path("plant/enrolment.json"), "{").unwrap();
    node(&operator, &["deny", "edge-1", "--reason", "stolen\u{1b}[2J"]).succeeded();
    assert!(store.denials().unwrap().has(&first.ek()));
    let shown = node(&operator, &["show", "edge-1"]).succeeded().json();
    assert_eq!(shown["denied"], true);
    let human = operator.run(&["node", "show", "edge-1", "--cluster", "plant"]).succeeded().out;
    assert!(human.contains("yes: stolen\u{fffd}[2J"), "{human}");
    let ek = first.ek().to_string();
    assert_eq!(error_code(&node(&operator, &["admit", &ek]).failed(2)), "machine-denied");
    node(&operator, &["allow", "edge-1"]).succeeded();
    assert!(!store.denials().unwrap().has(&first.ek()));
    assert_eq!(error_code(&node(&operator, &["allow", "edge-1"]).failed(2)), "not-denied");
}

/// Nobody vouches for the endorsement key beside a certified attestation key: a denial of it would shut out nobody, and is said to.
#[test]
fn a_denial_says_which_of_a_tpms_keys_it_names() {
    let (operator, _, store) = founded();
    let other = "ab".repeat(32);
    let denied = node(&operator, &["deny", &other]).succeeded().json();
    assert_eq!((&denied["known_by"], &denied["seen"]), (&json!("endorsement-key"), &json!(false)));
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let cloud = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let mut policy = operator.json("plant/policy.json");
    policy["ak_trust"] = json!([{"kind": "ak-chain", "roots": [cloud.pem()], "purpose": "demanded"}]);
    store.write_policy(&policy.to_string()).unwrap();
    let text = |digest: &str| operator.run(&["node", "deny", digest, "--cluster", "plant"]).succeeded().out;
    let unseen = text(&other);
    assert!(
        unseen.contains("denies nobody here: take `claimed_identity` of the join service's audit line"),
        "{unseen}"
    );
    let seen = text("edge-1");
    assert!(seen.contains("attestation key, by which the policy knows it") && !seen.contains("nobody"), "{seen}");
    assert_eq!(node(&operator, &["deny", &other]).succeeded().json()["known_by"], "attestation-key");
}

#[test]
fn a_machine_that_was_removed_gets_no_key_of_its_disk() {
    let (operator, first, store) = founded();
    let ek = first.ek().to_string();
    node(&operator, &["admit", &ek, "--role", "control-plane"]).succeeded();
    let removed = node(&operator, &["remove", "edge-1"]).succeeded().json();
    assert_eq!(removed["disks"][0], first.state().disk.to_string());
    assert_eq!(store.record(&first.ek()).unwrap(), None);
    assert!(store.enrolment().unwrap().of(&first.ek()).pinned.is_none());
    first.restart(support::node::Stage::Existing);
    let ran = operator.recover(&first, "master.json", &["--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "machine-not-on-record");
    assert_eq!(error_code(&node(&operator, &["remove", &ek]).failed(2)), "node-unknown");
}

#[test]
fn a_master_secret_of_another_cluster_is_not_rotated_for_this_one() {
    let (operator, ..) = founded();
    operator.run(&["secret", "new", "other.json"]).succeeded();
    let before = std::fs::read(operator.path("other.json")).unwrap();
    let rotate = |file: &str| operator.run(&["secret", "rotate", file, "--cluster", "plant", "--output", "json"]);
    assert_eq!(error_code(&rotate("other.json").failed(2)), "master-secret-of-another-cluster");
    assert_eq!(std::fs::read(operator.path("other.json")).unwrap(), before);
    let rotated = rotate("master.json").succeeded().json();
    assert_eq!(
        (&rotated["version"], &rotated["cluster_id"]),
        (&json!(2), &operator.json("plant/cluster.json")["cluster_id"])
    );
}

#[test]
fn the_key_of_a_disk_is_written_by_an_explicit_word_to_a_private_file() {
    let (operator, first, _) = founded();
    operator.run(&["secret", "rotate", "master.json"]).succeeded();
    let disk = first.state().disk.to_string();
    let arguments = ["secret", "disk-key", "--cluster", "plant", "--master-secret", "master.json", "--disk", &disk];
    let ran = operator.run(&[&arguments[..], &["--out", "disk.key", "--output", "json"]].concat()).failed(2);
    assert_eq!(error_code(&ran), "word-missing");
    assert!(!operator.path("disk.key").exists());
    let word = [&arguments[..], &["--without-its-machine"]].concat();
    operator.run(&[&word[..], &["--out", "disk.key"]].concat()).succeeded();
    let key = std::fs::read(operator.path("disk.key")).unwrap();
    assert_eq!(key, first.state().keys.as_ref().unwrap().0.expose(), "of the version on record, not the current one");
    assert_eq!(std::fs::metadata(operator.path("disk.key")).unwrap().permissions().mode() & 0o777, 0o600);
    let piped = support::command::latchkey_bytes(operator.directory(), &word);
    assert_eq!(piped, key);
    // Another cluster's master secret gives a key, too: one that opens nothing.
    operator.run(&["secret", "new", "other.json"]).succeeded();
    let others = ["secret", "disk-key", "--cluster", "plant", "--master-secret", "other.json", "--disk", &disk];
    let ran =
        operator.run(&[&others[..], &["--without-its-machine", "--out", "x", "--output", "json"]].concat()).failed(2);
    assert_eq!(error_code(&ran), "master-secret-of-another-cluster");
    assert!(!operator.path("x").exists());
    let unknown = latchkey_keys::Uuid::random().unwrap().to_string();
    let others = ["secret", "disk-key", "--cluster", "plant", "--master-secret", "master.json", "--disk", &unknown];
    let ran =
        operator.run(&[&others[..], &["--without-its-machine", "--out", "x", "--output", "json"]].concat()).failed(2);
    assert_eq!(error_code(&ran), "disk-not-on-record");
}

/// A denial there would be said to count, and nobody would hear of it.
#[test]
fn a_directory_that_is_no_clusters_is_refused_and_left_as_it_is() {
    let (operator, first, _) = founded();
    std::fs::create_dir(operator.path("wrong")).unwrap();
    let (address, ek, disk) = (first.address(), first.ek().to_string(), first.state().disk.to_string());
    let disk_key = ["secret", "disk-key", "--master-secret", "master.json", "--disk", &disk, "--without-its-machine"];
    for command in [
        &["node", "list"] as &[&str],
        &["node", "show", &ek],
        &["node", "admit", &ek],
        &["node", "deny", &ek],
        &["node", "allow", &ek],
        &["node", "remove", &ek],
        &["status"],
        &["policy", "install", "policy.json"],
        &["policy", "accept-firmware", &ek],
        &["reference", "install", "demo.json"],
        &["credentials", "admin", "--api-server", "10.0.0.5", "--out", "x"],
        &["credentials", "join-service", "--out", "x"],
        &["secret", "rotate", "master.json"],
        &["verify", &address],
        &["recover", &address, "--master-secret", "master.json"],
        &disk_key,
    ] {
        let ran = operator.run(&[command, &["--cluster", "wrong", "--output", "json"]].concat()).failed(6);
        assert_eq!(error_code(&ran), "cluster-missing", "{command:?}");
    }
    assert_eq!(std::fs::read_dir(operator.path("wrong")).unwrap().count(), 0);
}

/// A line among others is overlooked, and a script sees none.
#[test]
fn a_record_that_cannot_be_read_is_an_exit_code_and_the_others_are_shown() {
    let (operator, _, _) = founded();
    let commands = [["node", "list", "--cluster", "plant"].as_slice(), &["status", "--cluster", "plant"]];
    for command in commands {
        operator.run(command).succeeded();
    }
    std::fs::write(operator.path(&format!("plant/nodes/{}.json", "ab".repeat(32))), "{").unwrap();
    for command in commands {
        let ran = operator.run(command).failed(7);
        assert!(ran.out.contains("edge-1") && ran.err.contains(&"ab".repeat(32)), "{} {}", ran.out, ran.err);
    }
    std::fs::remove_file(operator.path(&format!("plant/nodes/{}.json", "ab".repeat(32)))).unwrap();
    // A file that is no digest denies nobody, though somebody meant it to.
    std::fs::write(operator.path("plant/denied/AB12"), "").unwrap();
    for command in commands {
        let ran = operator.run(command).failed(7);
        assert!(ran.err.contains("AB12"), "{}", ran.err);
    }
}

#[test]
fn the_status_of_a_directory_has_the_machines_that_wait_and_those_that_are_denied() {
    let (operator, first, store) = founded();
    let other = FakeNode::start(&operator.init_secret());
    let pending = PendingRecord::new(other.ek(), "edge-\u{1b}[2J9", None, other.state().disk, 1_800_000_000);
    store.writer().unwrap().hold(&pending).unwrap();
    let status = operator.run(&["status", "--cluster", "plant"]).succeeded().out;
    let admit = format!("waits: `latchkey node admit {}`", other.ek());
    assert!(status.contains(&admit) && !status.contains('\u{1b}'), "{status}");
    let json = operator.run(&["status", "--cluster", "plant", "--output", "json"]).succeeded().json();
    assert_eq!(json["held"][0]["ek_sha256"], other.ek().to_string());
    for denied in [other.ek(), first.ek()] {
        node(&operator, &["deny", &denied.to_string()]).succeeded();
    }
    let status = operator.run(&["status", "--cluster", "plant"]).succeeded().out;
    assert!(status.contains("denied") && !status.contains("waits"), "{status}");
}

#[test]
fn the_first_digits_of_a_known_digest_name_its_machine_where_no_other_begins_so() {
    let (operator, first, store) = founded();
    let hold = |digits: &str| {
        let ek = latchkey_attestation::EkDigest::from_hex(&format!("{digits:0<64}")).unwrap();
        let pending = PendingRecord::new(ek, "edge-9", None, first.state().disk, 1_800_000_000);
        store.writer().unwrap().hold(&pending).unwrap();
        ek.to_string()
    };
    let (one, other) = (hold("aaaaaaaa11"), hold("aaaaaaaa22"));
    let whole = first.ek().to_string();
    assert_eq!(node(&operator, &["show", &whole[..8].to_uppercase()]).succeeded().json()["ek_sha256"], whole);
    let several = node(&operator, &["admit", "aaaaaaaa"]).failed(2);
    assert_eq!(error_code(&several), "usage");
    assert!(several.out.contains(&one) && several.out.contains(&other), "{}", several.out);
    assert_eq!(node(&operator, &["admit", "aaaaaaaa2"]).succeeded().json()["ek_sha256"], other);
    // Of a machine that nobody knows only the whole digest will do, and too few digits name none.
    fs::write(operator.path("bbbbbbbbbbbbbbbb"), "cc".repeat(32)).unwrap();
    assert_eq!(error_code(&node(&operator, &["deny", "bbbbbbbbbbbbbbbb"]).failed(2)), "usage");
    assert_eq!(error_code(&node(&operator, &["deny", &whole[..7]]).failed(2)), "usage");
    node(&operator, &["deny", &"bb".repeat(32)]).succeeded();
    // Then it is known.
    node(&operator, &["allow", "bbbbbbbb"]).succeeded();
}

/// What the console shows is read over the phone; and a machine that took another's beginning as its name is not taken for it.
#[test]
fn the_words_of_a_digest_name_its_machine_too_and_are_shown_beside_it() {
    let (operator, first, store) = founded();
    let other = FakeNode::start(&operator.init_secret());
    let pending = PendingRecord::new(other.ek(), "edge-9", None, other.state().disk, 1_800_000_000);
    store.writer().unwrap().hold(&pending).unwrap();
    let words = other.ek().words().to_string();
    let three: Vec<&str> = words.split('-').take(3).collect();
    for named in [&words, &three.join("-"), &three.join(" ").to_uppercase()] {
        assert_eq!(node(&operator, &["show", named]).succeeded().json()["words"], words);
    }
    let list = operator.run(&["node", "list", "--cluster", "plant"]).succeeded().out;
    assert!(list.contains(&words) && list.contains(&first.ek().words().to_string()), "{list}");
    let shown = operator.run(&["node", "show", &words, "--qr", "--cluster", "plant"]).succeeded().out;
    assert!(shown.contains(&words) && shown.ends_with(&other.ek().qr().to_string()), "{shown}");
    // What the first machine proved when its cluster was made.
    let proven = node(&operator, &["list"]).succeeded().json()["nodes"][0]["seen"].clone();
    assert_eq!((&proven["image"], &proven["agent_version"]), (&json!("demo"), &json!("0.1.0")), "{proven}");
    assert!(list.contains(proven["last_attestation"].as_str().unwrap()), "{list}");
    node(&operator, &["admit", &three.join("-"), "--name", "edge-2"]).succeeded();
    assert!(store.enrolment().unwrap().of(&other.ek()).pinned.is_some());
    // A node on record that is called as the other one's digest begins.
    let record = store.record(&first.ek()).unwrap().unwrap().into_inner();
    let hostile = NodeRecord { name: three.join("-").parse().unwrap(), ..record };
    drop(store.writer().unwrap().put(&hostile).unwrap());
    store.deny(&other.ek(), "").unwrap();
    let several = node(&operator, &["remove", &three.join("-")]).failed(2);
    assert!(several.out.contains(&words) && several.out.contains(&first.ek().to_string()), "{}", several.out);
    node(&operator, &["show", &first.ek().to_string()[..8]]).succeeded();
}

/// Who is admitted anew, for another name or after a mistake, stays what it is.
#[test]
fn a_role_that_is_not_said_stays_and_the_rule_is_told_as_it_is_written() {
    let (operator, first, store) = founded();
    let other = "ab".repeat(32);
    let admit = |more: &[&str]| node(&operator, &[&["admit"], more].concat()).succeeded().json();
    let role = |digest: &str| {
        let ek = latchkey_attestation::EkDigest::from_hex(digest).unwrap();
        store.enrolment().unwrap().of(&ek).pinned.unwrap().role
    };
    assert_eq!(admit(&[&other])["role"], "worker");
    admit(&[&other, "--role", "control-plane", "--name", "edge-2"]);
    let again = admit(&[&other]);
    assert_eq!((&again["role"], &again["name"]), (&json!("control-plane"), &json!("edge-2")));
    assert_eq!(role(&other), RoleRule::ControlPlane);
    assert_eq!(admit(&[&other, "--role", "worker"])["role"], "worker");
    assert_eq!(role(&other), RoleRule::Worker);
    // Without a rule its record says it: the first machine is a control plane.
    assert_eq!(admit(&["edge-1"])["role"], "control-plane");
    assert_eq!(role(&first.ek().to_string()), RoleRule::ControlPlane);
    // A rule that let nobody in says no role.
    let mut rules = store.enrolment().unwrap();
    let third = latchkey_attestation::EkDigest::from_hex(&"cd".repeat(32)).unwrap();
    rules.admit(third, RoleRule::Refuse, None);
    store.write_enrolment(&rules).unwrap();
    assert_eq!(admit(&[&third.to_string()])["role"], "worker");
    // The name of another machine would let it in never.
    let taken = node(&operator, &["admit", &other, "--name", "edge-1"]).failed(2);
    assert_eq!(error_code(&taken), "name-on-record");
    assert_eq!(admit(&[&other])["name"], "edge-2");
    assert_eq!(admit(&["edge-1", "--name", "edge-1"])["name"], "edge-1", "its own");
}

/// The denial is in force, and an operator who reads that it failed looks for another way.
#[test]
fn a_denial_that_cannot_be_counted_is_reported_as_one_that_is_in_force() {
    let (operator, first, store) = founded();
    fs::write(operator.path("plant/cluster.json"), "{").unwrap();
    let ran = node(&operator, &["deny", "edge-1"]).failed(1);
    let denied = ran.json();
    assert_eq!((&denied["denied"], &denied["half_done"]), (&json!(true), &json!("denial-not-counted")), "{denied}");
    assert!(ran.err.contains("cluster.json"), "{}", ran.err);
    assert!(store.denials().unwrap().has(&first.ek()));
}

/// What cannot be read may begin alike.
#[test]
fn a_beginning_names_nobody_while_records_or_denials_cannot_be_read() {
    let (operator, first, _) = founded();
    let whole = first.ek().to_string();
    for damaged in [format!("plant/nodes/{}.json", "ab".repeat(32)), "plant/denied/AB12".to_owned()] {
        node(&operator, &["show", &whole[..8]]).succeeded();
        fs::write(operator.path(&damaged), "{").unwrap();
        for named in [&whole[..8], &whole[..63], &first.ek().words().to_string()] {
            let ran = node(&operator, &["show", named]).failed(2);
            assert!(ran.out.contains("not all records and denials can be read"), "{}", ran.out);
        }
        for named in [whole.as_str(), "edge-1"] {
            node(&operator, &["show", named]).succeeded();
        }
        fs::remove_file(operator.path(&damaged)).unwrap();
    }
}

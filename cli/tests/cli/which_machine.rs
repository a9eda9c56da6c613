//! Which machine a key goes to: that a machine is admitted, with the right image and a TPM that is trusted, does not make it the
//! one that is meant.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::command::Ran;
use crate::support::node::{Behaviour, FakeNode, Happened, Stage};
use crate::support::operator::Operator;
use latchkey_test_support::wait;

fn error_code(ran: &Ran) -> String {
    ran.json()["error"]["code"].as_str().unwrap().to_owned()
}

/// A cluster of one node, which was restarted, and another machine that the policy trusts as much.
fn cluster_and_other_machine() -> (Operator, FakeNode, FakeNode) {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    node.restart(Stage::Existing);
    let other = FakeNode::start(&operator.init_secret());
    operator.trust(&[&node, &other]);
    (operator, node, other)
}

#[test]
fn recover_refuses_a_machine_that_is_not_on_record_for_the_disk() {
    let (operator, node, other) = cluster_and_other_machine();
    other.take_disk_of(&node);
    let ran = operator.recover(&other, "master.json", &["--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "disk-of-another-machine");
    assert_eq!(other.state().recoveries, 0, "no key was sent");
    operator.recover(&node, "master.json", &[]).succeeded();
    // Nor a disk that is nobody's.
    other.state().disk = latchkey_keys::Uuid::random().unwrap();
    let ran = operator.recover(&other, "master.json", &["--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "machine-not-on-record");
    // Nor one of the machine's own that was replaced.
    let record = operator.path(&format!("plant/nodes/{}.json", node.ek()));
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
    json["disks"][0]["uuid"] = "0a0a0a0a-0000-4000-8000-000000000001".into();
    json["retired"] = serde_json::json!([node.state().disk]);
    std::fs::write(&record, json.to_string()).unwrap();
    let ran = operator.recover(&node, "master.json", &["--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "disk-replaced");
    assert_eq!((other.state().recoveries, node.state().recoveries), (0, 1));
}

#[test]
fn a_disk_that_was_moved_is_recovered_by_the_operators_word_and_recorded() {
    let (operator, node, other) = cluster_and_other_machine();
    other.take_disk_of(&node);
    let (old, new) = (node.ek().to_string(), other.ek().to_string());
    let wrong = operator.recover(&other, "master.json", &["--moved-to", &old, "--output", "json"]).failed(3);
    assert_eq!(error_code(&wrong), "another-machine");
    let short = operator.recover(&other, "master.json", &["--moved-to", &new[..31], "--output", "json"]).failed(2);
    assert_eq!(error_code(&short), "usage");
    let words = other.ek().words().to_string();
    let ran = operator.recover(&other, "master.json", &["--moved-to", &words]).succeeded();
    assert!(ran.err.contains("is on the record of this machine from now on"), "{}", ran.err);
    let status = operator.run(&["status", "--cluster", "plant", "--output", "json"]).succeeded().json();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(status["nodes"][0]["ek_sha256"], new);
    assert_eq!(status["nodes"][0]["moved"]["from"], old);
    // From here on it is the record that speaks, for the new machine and against the old one.
    operator.recover(&other, "master.json", &[]).succeeded();
    let ran = operator.recover(&node, "master.json", &["--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "disk-of-another-machine");
    assert_eq!(node.state().recoveries, 0);
}

#[test]
fn a_machine_that_joined_later_is_recovered_by_the_directory_if_the_operator_names_it() {
    let (operator, node, other) = cluster_and_other_machine();
    let (first, ek) = (node.ek().to_string(), other.ek().to_string());
    let recover =
        |machine, more: &[&str]| operator.recover(machine, "master.json", &[more, &["--output", "json"]].concat());
    // Where the directory has all records, nobody's word takes the place of one.
    other.take_disk_of(&node);
    let ran = recover(&other, &["--by-directory", "--ek", &ek]).failed(2);
    assert_eq!(error_code(&ran), "usage");
    // From here on records are in the API server, but the first machine's; this one made its disk with the same master secret.
    let elsewhere = r#"{"version": 1, "kubernetes": {"kubeconfig": "admin.conf"}}"#;
    std::fs::write(operator.path("plant/store.json"), elsewhere).unwrap();
    assert_eq!(error_code(&recover(&other, &["--by-directory", "--ek", &ek]).failed(3)), "disk-of-another-machine");
    std::fs::remove_file(operator.path(&format!("plant/nodes/{first}.json"))).unwrap();
    let ran = recover(&other, &["--by-directory"]).failed(3);
    let error = &ran.json()["error"];
    assert_eq!(error["code"], "machine-not-on-record");
    assert!(error["fix"].as_str().unwrap().contains("--ek"), "{error}");
    assert_eq!(error_code(&recover(&other, &["--by-directory", "--ek", &first]).failed(3)), "another-machine");
    assert_eq!(other.state().recoveries, 0, "no key was sent");
    let wrong = recover(&other, &["--by-directory", "--ek", &ek, "--key-version", "7"]);
    assert_eq!(other.state().recoveries, 0, "{}", wrong.err);
    recover(&other, &["--by-directory", "--ek", &ek]).succeeded();
    assert_eq!(other.state().recoveries, 1);
}

#[test]
fn a_move_that_was_cut_in_the_middle_is_ended_by_the_same_command() {
    let (operator, node, other) = cluster_and_other_machine();
    other.take_disk_of(&node);
    let nodes = operator.path("plant/nodes");
    let before = std::fs::read(nodes.join(format!("{}.json", node.ek()))).unwrap();
    let new = other.ek().to_string();
    operator.recover(&other, "master.json", &["--moved-to", &new]).succeeded();
    // As if the power had gone before the old record was removed.
    std::fs::write(nodes.join(format!("{}.json", node.ek())), before).unwrap();
    for machine in [&node, &other] {
        let ran = operator.recover(machine, "master.json", &["--output", "json"]).failed(3);
        assert_eq!(error_code(&ran), "disk-of-another-machine");
    }
    operator.recover(&other, "master.json", &["--moved-to", &new]).succeeded();
    assert!(!nodes.join(format!("{}.json", node.ek())).exists());
}

#[test]
fn recover_gives_nothing_to_a_denied_machine() {
    let (operator, node, _) = cluster_and_other_machine();
    std::fs::write(operator.path(&format!("plant/denied/{}", node.ek())), "").unwrap();
    for more in [vec![], vec!["--moved-to".to_owned(), node.ek().to_string()]] {
        let more: Vec<&str> = more.iter().map(String::as_str).chain(["--output", "json"]).collect();
        let ran = operator.recover(&node, "master.json", &more).failed(3);
        assert_eq!(error_code(&ran), "machine-denied");
    }
    assert_eq!(node.state().recoveries, 0);
}

#[test]
fn recover_and_resume_work_after_a_rotation() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { hold_attach: true, ..Behaviour::default() });
    let mut init = operator.init_started(&node, &[]);
    node.wait_for(Happened::Attached);
    init.kill().unwrap();
    wait("an init that was killed", &mut init);
    let rotated = operator.run(&["secret", "rotate", "master.json", "--output", "json"]).succeeded().json();
    assert_eq!(rotated["version"], 2);
    node.restart(Stage::Existing);
    node.behave(Behaviour::default());
    operator.init(&node, &["--resume"]).succeeded();
    node.restart(Stage::Existing);
    operator.recover(&node, "master.json", &[]).succeeded();
    let status = operator.run(&["status", "--cluster", "plant", "--output", "json"]).succeeded().json();
    assert_eq!(status["nodes"][0]["disks"][0]["key_version"], 1);
    // A cluster that begins now is of the new version, and stays so.
    let second = FakeNode::start(&operator.init_secret());
    operator.trust(&[&second]);
    operator.init(&second, &["--cluster", "second"]).succeeded();
    operator.run(&["secret", "rotate", "master.json"]).succeeded();
    second.restart(Stage::Existing);
    let address = second.address();
    operator.run(&["recover", &address, "--cluster", "second", "--master-secret", "master.json"]).succeeded();
    let status = operator.run(&["status", "--cluster", "second", "--output", "json"]).succeeded().json();
    assert_eq!(status["nodes"][0]["disks"][0]["key_version"], 2);
}

#[test]
fn init_sends_no_key_to_another_admitted_machine() {
    let (operator, node) = Operator::with_node();
    let other = FakeNode::start(&operator.init_secret());
    operator.trust(&[&node, &other]);
    // The connection to the one ends at the other, which has the same image, the same metadata and a TPM that is trusted.
    let ek = node.ek().to_string();
    let ran = operator.init(&other, &["--ek", &ek, "--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "another-machine");
    // Nor if nobody said which is meant: then it is shown, and there is no terminal to answer on.
    let address = other.address();
    let files = ["--master-secret", "master.json", "--init-secret", "init.secret", "--policy", "policy.json"];
    let rest = ["--reference", "demo.json", "--cluster", "plant", "--output", "json"];
    let unnamed = [&["init", &address, "--name", "plant"][..], &files, &rest].concat();
    let ran = operator.run(&unnamed).failed(2);
    assert_eq!(error_code(&ran), "machine-not-named");
    assert!(ran.json()["error"]["because"][0].as_str().unwrap().contains(&other.ek().to_string()), "{ran:?}");
    assert_eq!(other.shown(), (0, 0), "neither secret nor key was sent");
    // Nor to one that does not know the init secret, whatever the operator says: no key travels before the secret is proven.
    other.state().init_secret = b"another machine's own secret".to_vec();
    let ran = operator.init(&other, &["--accept-any-ek", "--output", "json"]).failed(4);
    assert_eq!(error_code(&ran), "wrong-init-secret");
    assert_eq!(other.shown(), (1, 0));
    // Whoever makes keys until one begins so is not what a short beginning means, where nothing is known that it could be.
    let ran = operator.init(&other, &["--ek", "aaaaaaaa", "--output", "json"]).failed(2);
    assert!(ran.json()["error"]["fix"].as_str().unwrap().contains("twelve words"), "{}", ran.out);
    let ran = operator.init(&other, &["--ek", &node.ek().words().to_string(), "--output", "json"]).failed(3);
    assert_eq!(error_code(&ran), "another-machine");
    std::fs::write(operator.path("ek"), format!("{ek}\n")).unwrap();
    operator.init(&node, &["--ek", "ek"]).succeeded();
}

#[test]
fn verify_of_another_node_of_the_cluster_is_refused() {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    let cluster = node.state().cluster.unwrap();
    // Another member: the same image, locked to the same cluster.
    let other = FakeNode::start(&operator.init_secret());
    operator.trust(&[&node, &other]);
    other.join(cluster);
    let id = cluster.to_string();
    let verify =
        |of: &FakeNode, more: &[&str]| operator.verify(of, &[&["--locked", &id, "--output", "json"], more].concat());
    let (ek, by_name) = (node.ek().to_string(), ["--cluster", "plant", "--node", "edge-1"]);
    // As the console shows it; and of a machine that the policy pins, or that is on record, less will do.
    let (words, digits) = (node.ek().words().to_string(), ek[..8].to_owned());
    let on_record = ["--ek", "edge-1", "--cluster", "plant"];
    for named in [&["--ek", &ek][..], &["--ek", &words], &["--ek", &digits], &on_record, &by_name] {
        let ran = verify(&other, named).failed(3);
        assert_eq!(error_code(&ran), "another-machine");
        verify(&node, named).succeeded();
    }
    assert_eq!(verify(&node, &by_name).json()["on_record_as"], "edge-1");
    verify(&node, &[]).failed(2);
    verify(&other, &["--accept-any-ek"]).succeeded();
}

/// Two clusters with one master secret, so that a disk's key is the same whoever asks: the disk itself says whose it is.
#[test]
fn a_disk_that_opens_and_is_of_another_cluster_is_no_recovery() {
    let (operator, node) = Operator::with_node();
    let second = FakeNode::start(&operator.init_secret());
    operator.trust(&[&node, &second]);
    operator.init(&node, &[]).succeeded();
    operator.init(&second, &["--cluster", "second"]).succeeded();
    let of_plant = operator.run(&["status", "--cluster", "plant", "--output", "json"]).succeeded().json();
    // The node's record was copied to where the other cluster has its own.
    let record = format!("nodes/{}.json", node.ek());
    let [from, to] = ["plant", "second"].map(|cluster| operator.path(cluster).join(&record));
    std::fs::copy(from, to).unwrap();
    node.restart(Stage::Existing);
    let address = node.address();
    let arguments = ["recover", &address, "--cluster", "second", "--master-secret", "master.json", "--output", "json"];
    let ran = operator.run(&arguments).failed(4);
    assert_eq!(error_code(&ran), "wrong-cluster");
    assert!(ran.out.contains(of_plant["cluster_id"].as_str().unwrap()), "{}", ran.out);
    node.restart(Stage::Existing);
    operator.recover(&node, "master.json", &[]).succeeded();
}

/// What the node says at the end of `Init` is held against what it was given.
#[test]
fn init_does_not_found_a_cluster_with_a_node_that_says_it_is_in_another() {
    let (operator, node) = Operator::with_node();
    node.behave(Behaviour { another_cluster: true, ..Behaviour::default() });
    let ran = operator.init(&node, &["--output", "json"]).failed(4);
    assert_eq!(error_code(&ran), "wrong-cluster");
    assert!(!operator.path("plant/cluster.json").exists());
}

#[test]
fn recover_names_the_components_of_a_version_where_it_is_told_to() {
    let (operator, node, _) = cluster_and_other_machine();
    let recover = |more: &[&str]| operator.recover(&node, "master.json", &[more, &["--output", "json"]].concat());
    assert_eq!(error_code(&recover(&["--components", "http://mirror.example"]).failed(2)), "usage");
    assert_eq!(error_code(&recover(&["--kubernetes", "1.99"]).failed(2)), "kubernetes-version-unknown");
    assert_eq!(node.state().recoveries, 0, "no key was sent");
    recover(&[]).succeeded();
    assert!(node.state().components.is_none());
    recover(&["--kubernetes", "1.34", "--components", "http://mirror.example"]).succeeded();
    let named = node.state().components.clone().unwrap();
    let list = latchkey_kubernetes::ComponentList::parse(&named.list).unwrap();
    assert_eq!((&*named.kubernetes_version, list.mirror()), ("1.34", Some("http://mirror.example")));
}

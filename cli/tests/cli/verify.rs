//! `latchkey record`, `verify`, `policy` and `status`: what they print, for people and for programs.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use crate::support::node::FakeNode;
use crate::support::operator::Operator;
use serde_json::json;

/// Replaces what differs between runs by its name.
fn stable(operator: &Operator, node: &FakeNode, text: &str) -> String {
    let disk = node.state().disk.to_string();
    let cluster = node.state().cluster;
    let mut stable = text
        .replace(&node.address(), "NODE")
        .replace(&node.ek().to_string(), "EK")
        .replace(&node.ek().words().to_string(), "WORDS")
        .replace(&disk, "DISK")
        .replace(&operator.directory().display().to_string(), "DIRECTORY")
        .replace(&operator.serial("demo.json").to_string(), "SERIAL");
    if let Some(cluster) = cluster {
        stable = stable.replace(&cluster.to_string(), "CLUSTER");
    }
    let took = |line: &str| if line.starts_with("took") { "took         TIME".to_owned() } else { line.to_owned() };
    stable.lines().map(|line| took(line) + "\n").collect()
}

#[test]
fn the_progress_and_the_result_of_an_init() {
    let (operator, node) = Operator::with_node();
    let ran = operator.init(&node, &[]).succeeded();
    assert_eq!(stable(&operator, &node, &ran.err), include_str!("../golden/init.err"));
    assert_eq!(stable(&operator, &node, &ran.out), include_str!("../golden/init.out"));
}

#[test]
fn a_program_reads_one_document_and_progress_of_one_object_per_line() {
    let (operator, node) = Operator::with_node();
    let ran = operator.init(&node, &["--output", "json"]).succeeded();
    let mut result = ran.json();
    assert!(result["seconds"].as_f64().unwrap() < 60.0);
    result["seconds"] = json!(0);
    let expected = json!({
        "cluster": "plant", "cluster_id": node.state().cluster.unwrap(), "node": "edge-1", "ek_sha256": node.ek(),
        "disk_uuid": node.state().disk, "admin_config": "plant/admin.conf", "seconds": 0, "schema": 1,
    });
    assert_eq!(result, expected);
    let progress: Vec<serde_json::Value> = ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<_> =
        progress.iter().filter(|line| line["event"] == "step").map(|line| line["step"].clone()).collect();
    assert_eq!(steps, ["lock", "format-disk", "cluster-step", "cluster-step"]);
}

#[test]
fn quiet_is_quiet() {
    let (operator, node) = Operator::with_node();
    assert_eq!(operator.init(&node, &["--quiet"]).succeeded().err, "");
}

#[test]
fn what_a_node_proves() {
    let (operator, node) = Operator::with_node();
    let ran = operator.verify(&node, &[]).succeeded();
    assert_eq!(stable(&operator, &node, &ran.out), include_str!("../golden/verify.out"));
    let json = operator.verify(&node, &["--output", "json"]).succeeded().json();
    assert_eq!(json["verdict"], "admitted");
    assert_eq!(json["claims"]["image"]["name"], "demo");
    assert_eq!(json["claims"]["locked"], false);
}

#[test]
fn a_refusal_names_the_component_that_differs_and_the_fix() {
    let (operator, node) = Operator::with_node();
    node.set_pcr(4, [0x66; 32]);
    node.set_pcr(9, [0x66; 32]);
    node.set_pcr(11, [0x66; 32]);
    let ran = operator.verify(&node, &[]).failed(3);
    assert_eq!(stable(&operator, &node, &ran.err), include_str!("../golden/refusal.err"));
    assert_eq!(ran.out, "");
}

#[test]
fn a_lock_is_verified_against_the_cluster_that_is_asked_for() {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    let id = node.state().cluster.unwrap().to_string();
    operator.verify(&node, &["--locked", &id]).succeeded();
    let other = operator.verify(&node, &["--locked", &"ab".repeat(32), "--output", "json"]).failed(3);
    assert_eq!(other.json()["error"]["code"], "locked-to-another-cluster");
}

#[test]
fn kept_evidence_is_verified_later_and_says_what_it_does_not_prove() {
    let (operator, node) = Operator::with_node();
    operator.verify(&node, &["--save-evidence", "evidence.json"]).succeeded();
    let offline = |more: &[&str]| {
        let arguments =
            ["verify", "--evidence", "evidence.json", "--policy", "policy.json", "--reference", "demo.json"];
        operator.run(&[&arguments[..], more].concat())
    };
    let ran = offline(&[]).succeeded();
    assert!(ran.out.contains("Not proven, because nobody answered"), "{}", ran.out);
    let json = offline(&["--output", "json", "--as-recorded"]).succeeded().json();
    assert_eq!(json["claims"]["unproven"], json!(["activation", "freshness", "provenance"]));
    let locked = offline(&["--locked", &"ab".repeat(32), "--output", "json"]).failed(3).json();
    assert_eq!(locked["error"]["code"], "not-locked");
}

#[test]
fn evidence_of_a_refused_node_is_kept_too() {
    let (operator, node) = Operator::with_node();
    node.set_pcr(9, [0x66; 32]);
    operator.verify(&node, &["--save-evidence", "evidence.json"]).failed(3);
    let arguments = ["verify", "--evidence", "evidence.json", "--policy", "policy.json", "--reference", "demo.json"];
    let ran = operator.run(&[&arguments[..], &["--output", "json"]].concat()).failed(3);
    assert_eq!(ran.json()["error"]["refusal"]["difference"]["pcr"], 9);
}

#[test]
fn altered_evidence_is_refused() {
    let (operator, node) = Operator::with_node();
    operator.verify(&node, &["--save-evidence", "evidence.json"]).succeeded();
    let text = std::fs::read_to_string(operator.path("evidence.json")).unwrap();
    let mut evidence: serde_json::Value = serde_json::from_str(&text).unwrap();
    evidence["pcrs"]["9"] = json!("66".repeat(32));
    std::fs::write(operator.path("evidence.json"), evidence.to_string()).unwrap();
    let ran = operator.run(&[
        "verify",
        "--evidence",
        "evidence.json",
        "--policy",
        "policy.json",
        "--reference",
        "demo.json",
        "--output",
        "json",
    ]);
    assert_eq!(ran.failed(3).json()["error"]["code"], "pcr-digest-mismatch");
}

#[test]
fn a_recorded_boot_says_so_and_a_locked_node_is_not_recorded() {
    let (operator, node) = Operator::with_node();
    let values: serde_json::Value =
        serde_json::from_slice(&std::fs::read(operator.path("demo.json")).unwrap()).unwrap();
    assert_eq!(values["images"][0]["source"], "recorded");
    assert_eq!(values["images"][0]["machines"][0]["pcrs"]["9"], json!({"value": "09".repeat(32), "rule": "enforce"}));
    operator.init(&node, &[]).succeeded();
    for file in ["demo.json", "policy.json"] {
        std::fs::rename(operator.path(file), operator.path(&format!("old-{file}"))).unwrap();
    }
    let ran = operator.record(&node).failed(3);
    assert!(ran.err.contains("the node is locked"), "{}", ran.err);
    assert!(!operator.path("demo.json").exists());
}

#[test]
fn a_tpm_that_is_not_trusted_is_not_recorded() {
    let (operator, node) = Operator::with_node();
    let ran = operator.run(&[
        "record",
        &node.address(),
        "--ek-pin",
        &"ab".repeat(32),
        "--name",
        "other",
        "--version",
        "1.0.0",
        "--out",
        "other.json",
        "--output",
        "json",
    ]);
    assert_eq!(ran.failed(3).json()["error"]["code"], "ek-not-pinned");
}

#[test]
fn whom_a_policy_admits_is_explained() {
    let (operator, node) = Operator::with_node();
    let ran = operator.run(&["policy", "check", "--policy", "policy.json", "--reference", "demo.json"]).succeeded();
    assert_eq!(stable(&operator, &node, &ran.out), include_str!("../golden/policy-check.out"));
}

#[test]
fn the_nodes_of_a_cluster_are_listed() {
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    let ran = operator.run(&["status", "--cluster", "plant"]).succeeded();
    assert_eq!(stable(&operator, &node, &ran.out), include_str!("../golden/status.out"));
}

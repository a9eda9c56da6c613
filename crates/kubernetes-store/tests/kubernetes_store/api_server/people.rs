//! What is written for people: the status of a machine, and Events of refusals.

use crate::api_server::Cluster;
use crate::api_server::cluster::{ek, put, record, resource, told};
use latchkey_api_server_rig::program;
use latchkey_cluster_store::{NodeStatus, RecordStore as _, RefusedMachine};
use latchkey_kubernetes_store::ApiCode;
use latchkey_reason::ReasonCode as _;
use latchkey_test_support::{output, until};
use serde_json::{Value, json};
use std::process::Command;

fn status(version: &str, at: u64) -> NodeStatus {
    let (image, version) = ("plant".to_owned(), version.to_owned());
    let agent_version = Some("0.3.0".to_owned());
    NodeStatus { image, version, agent_version, epoch: Some(1), last_attestation: at, last_report: None }
}

fn shown(cluster: &Cluster, number: u64) -> Value {
    cluster.admin.get(&resource("attestednodes", &ek(number).to_string())).granted()["status"].clone()
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> String {
    let mut kubectl = Command::new(program("kubectl"));
    kubectl.arg("--kubeconfig").arg(cluster.server.kubeconfig("admin", &cluster.server.admin())).args(arguments);
    let said = output(&mut kubectl).unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn kubectl_shows_name_role_image_version_epoch_and_last_report() {
    let cluster = Cluster::start();
    let store = cluster.store();
    let joined = put(&store, &record(1, "edge-1", 1), None).unwrap();
    store.show_status(ek(1), status("1.2.3", 1_800_000_000));
    until("the status to be there", || (shown(&cluster, 1)["version"] == "1.2.3").then_some(()));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    store.show_status(ek(1), NodeStatus { epoch: None, last_report: Some(now), ..status("1.2.3", now) });
    until("the report to be there", || shown(&cluster, 1)["lastReport"].as_str().map(drop));
    assert_eq!(shown(&cluster, 1)["epoch"], 1, "a report says nothing of it");
    let table = kubectl(&cluster, &["get", "attestednodes"]);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0],
        ["NAME", "NODE", "ROLE", "IMAGE", "VERSION", "AGENT", "EPOCH", "REPORTED", "REPORT", "ATTESTED", "AGE"]
    );
    assert_eq!(lines[1][..7], [ek(1).to_string().as_str(), "edge-1", "worker", "plant", "1.2.3", "0.3.0", "1"]);
    // The record is what it was, and whoever decides on it is not overtaken by what is shown.
    let known = told(&store, &ek(1)).unwrap();
    assert!(*known == *joined && known.revision() > joined.revision());
    put(&store, &record(1, "edge-1", 1), Some(&known)).unwrap();
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_room_that_comes_back_is_written_down_without_a_ticket_waiting_for_it() {
    const MACHINES: u64 = 60;
    let cluster = Cluster::start();
    let store = cluster.store();
    for number in 0..MACHINES {
        put(&store, &record(number, &format!("n-{number}"), number), None).unwrap();
    }
    let begun = std::time::Instant::now();
    // Each comes several times; nothing of that waits.
    for round in 0..5 {
        (0..MACHINES).for_each(|number| store.show_status(ek(number), status("1.0.0", 1_800_000_000 + round)));
    }
    assert!(begun.elapsed().as_millis() < 500, "{:?}", begun.elapsed());
    let resource_version = |number| {
        let path = resource("attestednodes", &ek(number).to_string());
        cluster.admin.get(&path).granted()["metadata"]["resourceVersion"].clone()
    };
    until("all to be shown", || (0..MACHINES).all(|number| !shown(&cluster, number).is_null()).then_some(()));
    let before: Vec<_> = (0..MACHINES).map(resource_version).collect();
    // What is shown already is not written again; one that differs is, and comes after them.
    (0..MACHINES).for_each(|number| store.show_status(ek(number), status("1.0.0", 1_800_000_010)));
    store.show_status(ek(0), status("1.0.1", 1_800_000_020));
    until("the other version to be shown", || (shown(&cluster, 0)["version"] == "1.0.1").then_some(()));
    let after: Vec<_> = (0..MACHINES).map(resource_version).collect();
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1..], after[1..]);
}

#[test]
#[ignore = "needs etcd, kube-apiserver and kubectl: ./dev e2e api-server"]
fn a_refusal_is_an_event_on_the_machine_or_else_on_the_cluster() {
    let cluster = Cluster::start();
    cluster.document("latchkey-cluster", &json!({}));
    let store = cluster.store();
    put(&store, &record(1, "edge-1", 1), None).unwrap();
    let reason = ApiCode::Forbidden.reason();
    let refused = |number: Option<u64>| RefusedMachine { ek: number.map(ek), action: "join", reason };
    for asker in [Some(1), Some(1), Some(2), None] {
        store.show_refusal(refused(asker));
    }
    let events = |namespace: &str| {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        cluster.admin.get(&path).granted()["items"].as_array().unwrap().clone()
    };
    until("all to be told", || (events("default").len() + events("latchkey").len() == 3).then_some(()));
    let on_machine = &events("default")[0];
    assert_eq!(on_machine["regarding"]["name"], ek(1).to_string());
    assert_eq!((&on_machine["reason"], &on_machine["action"]), (&json!(reason.code), &json!("join")));
    assert_eq!(on_machine["note"], reason.remedy);
    for event in events("latchkey") {
        assert_eq!(event["regarding"]["name"], "latchkey-cluster");
        let related = &event["related"]["name"];
        assert!(related.is_null() || *related == ek(2).to_string(), "{event}");
    }
    // Where a person looks.
    assert!(kubectl(&cluster, &["describe", "attestednode", &ek(1).to_string()]).contains(reason.code));
    assert!(kubectl(&cluster, &["describe", "configmap", "latchkey-cluster", "-n", "latchkey"]).contains(reason.code));
}

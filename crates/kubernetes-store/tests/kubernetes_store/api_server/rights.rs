//! The chart's rights: all other tests here run with them; what they do not give is forbidden.

use crate::api_server::Cluster;
use crate::api_server::cluster::{ek, map, put, record, resource};
use latchkey_kubernetes_store::NAMESPACE;
use latchkey_test_support::until;
use serde_json::{Value, json};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

#[test]
#[ignore = "needs etcd, kube-apiserver and helm: ./dev e2e api-server"]
fn the_service_reads_and_writes_what_it_is_for_and_nothing_else() {
    let cluster = Cluster::start();
    put(&cluster.store(), &record(1, "edge", 1), None).unwrap();
    let service = cluster.service();
    for name in ["secrets-of-others", "latchkey-policy"] {
        cluster.document(name, &json!({ "key": "value" }));
    }
    // Documents by name, and those of the operator are read and not written.
    let maps = map("");
    service.get(&maps).forbidden();
    service.get("/api/v1/configmaps").forbidden();
    service.get(&map("secrets-of-others")).forbidden();
    service.get(&format!("{maps}?fieldSelector=metadata.name%3Dsecrets-of-others")).forbidden();
    service.get(&format!("{maps}?fieldSelector=metadata.name%3Dlatchkey-policy")).granted();
    service.post(&maps, &json!({ "metadata": { "name": "latchkey-new" } })).forbidden();
    for name in ["latchkey-policy", "latchkey-denied", "latchkey-cluster", "secrets-of-others"] {
        service.put(&map(name), &json!({ "metadata": { "name": name } })).forbidden();
    }
    for name in ["latchkey-policy", "latchkey-revisions"] {
        service.patch(&map(name), &json!({ "data": { "a": "b" } })).forbidden();
        service.delete(&map(name), &json!({})).forbidden();
    }
    // A record that stands is removed by the operator alone; its status is patched; definitions are the chart's.
    let node = resource("attestednodes", &ek(1).to_string());
    service.delete(&node, &json!({})).forbidden();
    service.delete(&resource("attestednodes", ""), &json!({})).forbidden();
    service.patch(&node, &json!({ "spec": { "role": "control-plane" } })).forbidden();
    service.patch(&format!("{node}/status"), &json!({ "status": { "image": "plant" } })).granted();
    for path in [
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
        "/api/v1/namespaces".to_owned(),
        "/api/v1/secrets".to_owned(),
        "/api/v1/nodes".to_owned(),
        EVENTS.to_owned(),
        format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"),
    ] {
        service.get(&path).forbidden();
    }
}

#[test]
#[ignore = "needs etcd, kube-apiserver and helm: ./dev e2e api-server"]
fn what_rbac_cannot_say_of_records_and_events_the_policies_say() {
    let cluster = Cluster::start();
    put(&cluster.store(), &record(1, "edge", 1), None).unwrap();
    let service = cluster.service();
    let node = cluster.admin.get(&resource("attestednodes", &ek(1).to_string())).granted();
    let node_name = ek(1).to_string();
    let with = |object: &Value, key: &str, value: Value| {
        let mut object = object.clone();
        object["metadata"][key] = value;
        object
    };
    let owner = json!([{ "apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "0a0a0a0a-0000-4000-8000-000000000001" }]);
    let refused = [("finalizers", json!(["example.com/stay"])), ("ownerReferences", owner)];
    // The policies are in force some moments after they are there.
    until("the policies to be in force", || {
        let tried = with(&node, "finalizers", json!(["example.com/stay"]));
        let path = format!("{}?dryRun=All", resource("attestednodes", &node_name));
        service.put(&path, &tried).text().contains("latchkey-record").then_some(())
    });
    for (key, value) in &refused {
        service.put(&resource("attestednodes", &node_name), &with(&node, key, value.clone())).forbidden();
    }
    // A record that lies about its name is none for anybody.
    let mut other = record_object(7);
    other["metadata"]["name"] = json!(ek(8).to_string());
    assert_eq!(cluster.admin.post(&resource("attestednodes", ""), &other).status(), 422);
    // A record is deleted while it is provisional, and only where its state is named.
    let path = resource("attestednodes", &node_name);
    let named = |uid: &Value, revision: &Value| json!({ "preconditions": { "uid": uid, "resourceVersion": revision } });
    let metadata = &node["metadata"];
    service.delete(&path, &json!({})).forbidden();
    service.delete(&path, &json!({ "preconditions": { "uid": metadata["uid"] } })).forbidden();
    assert_eq!(service.delete(&path, &named(&metadata["uid"], &json!("1"))).status(), 409);
    service.delete(&path, &named(&metadata["uid"], &metadata["resourceVersion"])).granted();
    // Nor is one of a machine that joins by it.
    let mut joins = record_object(9);
    joins["metadata"]["annotations"] = json!({ "latchkey.dev/provisional": "" });
    joins["spec"]["ticket"] = json!({ "token": "abc123", "ends_at": 1 });
    let marked = joins["metadata"].clone();
    let path_of = |number: u64| resource("attestednodes", &ek(number).to_string());
    let state = |path: &str| {
        let metadata = cluster.admin.get(path).granted()["metadata"].clone();
        named(&metadata["uid"], &metadata["resourceVersion"])
    };
    cluster.admin.post(&resource("attestednodes", ""), &joins).granted();
    cluster.admin.patch(&format!("{}/status", path_of(9)), &json!({ "status": { "image": "plant" } })).granted();
    service.delete(&path_of(9), &state(&path_of(9))).forbidden();
    let mut used = record_object(10);
    used["metadata"]["annotations"] = marked["annotations"].clone();
    used["spec"]["ticket"] =
        json!({ "token": "abc123", "ends_at": 1, "used_by": "0a0a0a0a-0000-4000-8000-000000000001" });
    cluster.admin.post(&resource("attestednodes", ""), &used).granted();
    service.delete(&path_of(10), &state(&path_of(10))).forbidden();
    joins["metadata"]["name"] = json!(ek(11).to_string());
    joins["spec"]["ek_sha256"] = json!(ek(11).to_string());
    cluster.admin.post(&resource("attestednodes", ""), &joins).granted();
    service.delete(&path_of(11), &state(&path_of(11))).granted();
    // One that stands is not, and is not made provisional.
    cluster.admin.post(&resource("attestednodes", ""), &record_object(1)).granted();
    let stands = cluster.admin.get(&path).granted();
    let metadata = &stands["metadata"];
    service.delete(&path, &named(&metadata["uid"], &metadata["resourceVersion"])).forbidden();
    service.put(&path, &with(&stands, "annotations", json!({ "latchkey.dev/provisional": "" }))).forbidden();
    service.put(&path, &with(&stands, "annotations", json!({ "latchkey.dev/reserves": "[]" }))).granted();
    // Events about machines and the cluster, under its own name.
    let event = |kind: &str, name: &str, version: &str, controller: &str| {
        json!({
            "metadata": { "name": format!("event-{}", kind.to_lowercase()), "namespace": "default" },
            "eventTime": "2027-01-15T08:00:00.000000Z", "action": "join", "reason": "tried", "type": "Warning",
            "regarding": { "apiVersion": version, "kind": kind, "name": name },
            "reportingController": controller, "reportingInstance": "tests",
        })
    };
    let (ours, api) = ("latchkey.dev/join-service", "latchkey.dev/v1alpha1");
    service.post(EVENTS, &event("Node", "edge", "v1", ours)).forbidden();
    service.post(EVENTS, &event("AttestedNode", &node_name, api, "kubelet")).forbidden();
    service.post(EVENTS, &event("AttestedNode", &node_name, "example.com/v1", ours)).forbidden();
    service.post(EVENTS, &event("AttestedNode", &node_name, api, ours)).granted();
    service.post("/api/v1/namespaces/default/events", &json!({ "metadata": { "name": "legacy" } })).forbidden();
    service
        .post("/apis/events.k8s.io/v1/namespaces/kube-system/events", &json!({ "metadata": { "name": "e" } }))
        .forbidden();
}

/// `latchkey-join-service --check` asks this.
#[test]
#[ignore = "needs etcd, kube-apiserver and helm: ./dev e2e api-server"]
fn a_service_knows_whether_the_chart_has_it_delete_records() {
    let cluster = Cluster::start();
    let store = cluster.store();
    assert!(store.may_delete_records().unwrap());
    // As the chart of the release before has it.
    let verbs = json!(["get", "list", "watch", "create", "update"]);
    let rules = json!([{ "apiGroups": ["latchkey.dev"], "resources": ["attestednodes"], "verbs": verbs }]);
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/latchkey-records";
    cluster.admin.patch(role, &json!({ "rules": rules })).granted();
    until("the rights of before to be in force", || (!store.may_delete_records().unwrap()).then_some(()));
}

fn record_object(number: u64) -> Value {
    json!({
        "apiVersion": "latchkey.dev/v1alpha1", "kind": "AttestedNode",
        "metadata": { "name": ek(number).to_string() },
        "spec": serde_json::to_value(record(number, "liar", number)).unwrap(),
    })
}

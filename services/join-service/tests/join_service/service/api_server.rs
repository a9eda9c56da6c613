//! Two services, one cluster, in a real API server: `./dev e2e api-server`.

use super::rig::{Answer, Machine, Rig, Service};
use latchkey_api::grpc::Code;
use latchkey_api_server_rig::{ApiServer, Client, is_built_or_skip};
use latchkey_cluster_store::Enrolment;
use latchkey_kubernetes_store::{NAMESPACE, node_definition};
use latchkey_test_support::until;
use serde_json::{Value, json};
use std::fs;

pub(crate) const MAPS: &str = "/api/v1/namespaces/latchkey/configmaps";
const TOKENS: &str = "/api/v1/namespaces/kube-system/secrets?fieldSelector=type%3Dbootstrap.kubernetes.io%2Ftoken";
/// Who tells of refusals.
const REPORTER: &str = "latchkey.dev/join-service";
const DISKS: [&str; 2] = ["0a0a0a0a-0000-4000-8000-000000000001", "0a0a0a0a-0000-4000-8000-000000000002"];

/// Puts what stands in the rig's cluster directory into an API server, and has services use that.
pub(crate) fn moved_into(server: &ApiServer, rig: &mut Rig) -> Client {
    let admin = server.client(&server.admin());
    admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &node_definition()).granted();
    let records = "/apis/latchkey.dev/v1alpha1/attestednodes";
    until("records to be served", || (admin.get(records).status() == 200).then_some(()));
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    admin.post("/api/v1/namespaces", &namespace).granted();
    let maps = [
        ("latchkey-policy", "policy.json"),
        ("latchkey-references", "reference.json"),
        ("latchkey-enrolment", "enrolment.json"),
        ("latchkey-cluster", "cluster.json"),
    ];
    // Where nodes find the API server is a name that means nothing here.
    let described = json!({ "version": 1, "api_server": "api.plant.example:6443", "kubernetes_version": "1.34" });
    let read = |file: &str| fs::read_to_string(rig.directory.path().join(file)).unwrap();
    let empty = ["latchkey-denied", "latchkey-revisions", "latchkey-pending"].map(|name| (name, json!({})));
    for (name, data) in maps.map(|(name, file)| (name, json!({ file: read(file) }))).into_iter().chain(empty) {
        let mut map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
        if name == "latchkey-cluster" {
            map["data"]["kubernetes.json"] = described.to_string().into();
        }
        admin.post(MAPS, &map).granted();
    }
    publish_authority(&admin, server);
    let config = rig.config.as_object_mut().unwrap();
    config.remove("cluster_directory");
    let kubeconfig = server.kubeconfig("join-service", &server.admin());
    config.insert("store".to_owned(), json!({ "kubernetes": { "kubeconfig": kubeconfig } }));
    admin
}

/// As kube-controller-manager does, which may be faster where it runs.
fn publish_authority(admin: &Client, server: &ApiServer) {
    let name = json!({ "name": "kube-root-ca.crt" });
    let map =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": { "ca.crt": server.authority() } });
    let status = admin.post(MAPS, &map).status();
    assert!(status == 201 || status == 409, "{status}");
}

/// The Event of the join service that has this reason code, once it is there; there is one.
pub(crate) fn event(admin: &Client, code: &str) -> Value {
    until(format!("an Event of {code}"), || {
        let events = admin.get("/apis/events.k8s.io/v1/events").granted()["items"].as_array().unwrap().clone();
        let ours = |event: &Value| event["reportingController"] == REPORTER && event["reason"] == code;
        let mut of_code: Vec<Value> = events.into_iter().filter(ours).collect();
        assert!(of_code.len() < 2, "{of_code:?}");
        of_code.pop()
    })
}

/// That an Event is about this machine's record.
pub(crate) fn assert_on_machine(event: &Value, machine: &Machine) {
    let about = &event["regarding"];
    assert_eq!((&about["kind"], &about["name"]), (&json!("AttestedNode"), &json!(machine.ek().to_string())), "{event}");
}

/// That an Event is about the cluster, and names this machine beside it, or none.
pub(crate) fn assert_on_cluster(event: &Value, machine: Option<&Machine>) {
    let about = &event["regarding"];
    assert_eq!((&about["kind"], &about["name"]), (&json!("ConfigMap"), &json!("latchkey-cluster")), "{event}");
    assert_eq!(event["related"]["name"], json!(machine.map(|machine| machine.ek().to_string())), "{event}");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn two_services_on_one_api_server_decide_as_one() {
    let (one, other) = (Machine::new(), Machine::new());
    let mut rig = Rig::new(&[&one, &other]);
    let server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    assert!(rig.check().status.success());
    let services: [Service; 2] = [rig.start(), rig.start()];
    let ticket = services[0].join(&one, DISKS[0], "edge-1").unwrap();
    assert_eq!(ticket.state_disk_key, rig.key_of(DISKS[0]));
    let material = ticket.cluster.as_ref().unwrap();
    assert_eq!(material.api_server_endpoint, "api.plant.example:6443");
    assert_eq!((&*material.kubernetes_version, &*material.ca_certificates), ("1.34", server.authority().as_bytes()));
    // The other service knows this machine, whether it has heard of it by then or looks now.
    let again = services[1].rejoin(&one, DISKS[0]).unwrap();
    assert_eq!(again.state_disk_key, ticket.state_disk_key);
    let refused = services[1].join(&other, DISKS[1], "edge-1").unwrap_err();
    assert!(format!("{refused:?}").contains("name-taken"), "{refused:?}");
    let refused = services[1].join(&other, DISKS[0], "edge-2").unwrap_err();
    assert!(format!("{refused:?}").contains("disk-of-another-node"), "{refused:?}");
    services[1].join(&other, DISKS[1], "edge-2").unwrap();
    assert!(services[0].rejoin(&other, DISKS[1]).unwrap().components.is_none(), "images carry them here");
    let nodes = admin.get("/apis/latchkey.dev/v1alpha1/attestednodes").granted();
    assert_eq!(nodes["items"].as_array().unwrap().len(), 2);
}

/// As calls leave them that were cut short, of services that both have ended.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn two_new_records_of_one_name_are_told_where_one_looks() {
    let (one, other) = (Machine::new(), Machine::new());
    let mut rig = Rig::new(&[&one, &other]);
    let server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    let service = rig.start();
    service.join(&one, DISKS[0], "edge-1").unwrap();
    drop(service);
    let records = "/apis/latchkey.dev/v1alpha1/attestednodes";
    let [one, other] = [one, other].map(|machine| machine.ek().to_string());
    let mut record = admin.get(&format!("{records}/{one}")).granted();
    admin.delete(&format!("{records}/{one}"), &json!({})).granted();
    record["metadata"] = json!({ "annotations": { "latchkey.dev/provisional": "" } });
    record.as_object_mut().unwrap().remove("status");
    for machine in [&one, &other] {
        record["metadata"]["name"] = machine.clone().into();
        record["spec"]["ek_sha256"] = machine.clone().into();
        admin.post(records, &record).granted();
    }
    // Of one that somebody wrote by hand since it does not say any more when it was made.
    let labelled = json!({ "metadata": { "labels": { "by": "hand" } } });
    admin.patch(&format!("{records}/{one}?fieldManager=hand"), &labelled).granted();
    let service = rig.start();
    let (status, health) = service.page("/healthz");
    assert!(status.contains("200"), "{status} {health}");
    for (machine, rival) in [(&one, &other), (&other, &one)] {
        assert!(health.contains(&format!("records-damaged: {machine} names what {rival} names")), "{health}");
    }
}

/// As with the chart of the release before.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_service_that_may_delete_no_record_is_told_so_when_it_is_checked_and_by_what_to_mend_it() {
    let mut rig = Rig::new(&[&Machine::new()]);
    let server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    let code = "api-chart-not-upgraded";
    let said = rig.check();
    assert!(said.status.success() && !String::from_utf8_lossy(&said.stdout).contains(code), "{said:?}");
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let (group, name) = ("rbac.authorization.k8s.io", json!({ "name": "reader" }));
    let rules = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"] }]);
    admin.post(&format!("{rbac}/clusterroles"), &json!({ "metadata": name, "rules": rules })).granted();
    let bound = json!({
        "metadata": name, "subjects": [{ "kind": "User", "apiGroup": group, "name": "reader" }],
        "roleRef": { "kind": "ClusterRole", "apiGroup": group, "name": "reader" },
    });
    admin.post(&format!("{rbac}/clusterrolebindings"), &bound).granted();
    let kubeconfig = server.kubeconfig("reader", &server.user("reader", None));
    rig.config["store"] = json!({ "kubernetes": { "kubeconfig": kubeconfig } });
    // Rights are in force some moments after they are there. It starts all the same: machines on record need the keys of their disks.
    let said = until("the rights to be in force", || Some(rig.check()).filter(|said| said.status.success()));
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains(code) && said.contains("latchkey upgrade execute --helm"), "{said}");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_member_that_starts_again_hears_of_its_cluster_s_components_and_a_worker_of_the_next_ones_last() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    let server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    let service = rig.start();
    service.join(&node, DISKS[0], "edge-1").unwrap();
    let named = || {
        let ticket = service.rejoin(&node, DISKS[0]).unwrap();
        ticket.components.clone().map(|it| (it.kubernetes_version, it.list))
    };
    let describe = |described: Value| {
        let patch = json!({ "data": { "kubernetes.json": described.to_string() } });
        admin.patch(&format!("{MAPS}/latchkey-cluster"), &patch).granted();
    };
    let mut file = json!({
        "version": 1, "api_server": "api.plant.example:6443", "kubernetes_version": "1.34", "component_list": "now",
        "next": { "kubernetes_version": "1.35", "component_list": "next" },
    });
    describe(file.clone());
    let of = |minor: &str, list: &str| Some((minor.to_owned(), list.as_bytes().to_vec()));
    until("the service to read it", || (named() == of("1.34", "now")).then_some(()));
    // The control planes are done.
    file.as_object_mut().unwrap().remove("next");
    (file["kubernetes_version"], file["component_list"]) = ("1.35".into(), "next".into());
    describe(file);
    until("the service to read that", || (named() == of("1.35", "next")).then_some(()));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn while_the_api_server_is_away_nobody_joins_and_known_machines_rejoin() {
    let (known, new) = (Machine::new(), Machine::new());
    let mut rig = Rig::new(&[&known, &new]);
    let mut server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    let service = rig.start();
    service.join(&known, DISKS[0], "edge-1").unwrap();
    let kinds = ["/apis/latchkey.dev/v1alpha1/attestednodes", TOKENS];
    let left = || kinds.map(|path| admin.get(path).granted()["items"].as_array().unwrap().len());
    let before = left();

    server.kill_api();
    let refused = service.join(&new, DISKS[1], "edge-2").unwrap_err();
    // Record and token are asked for at once, and both are awaited: of the two refusals the record's is told.
    assert_eq!(refused.code(), "record-not-written", "{refused:?}");
    let Answer::Status(status) = refused else { panic!("no status") };
    assert_eq!(status.code(), Code::Internal, "it asks again");
    assert_eq!(service.rejoin(&known, DISKS[0]).unwrap().state_disk_key, rig.key_of(DISKS[0]));
    server.start_api();
    // It is ready before it serves custom resources.
    until("records to be served", || kinds.iter().all(|path| admin.get(path).status() == 200).then_some(()));
    assert_eq!(left(), before, "a record or a token was made");
    service.join(&new, DISKS[1], "edge-2").unwrap();
    assert_eq!(left(), before.map(|count| count + 1));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_refused_machine_is_an_event_with_its_reason_code() {
    let (node, other, stranger) = (Machine::new(), Machine::new(), Machine::new());
    let mut rig = Rig::new(&[&node, &other]);
    let server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    let service = rig.start();
    service.join(&node, DISKS[0], "edge-1").unwrap();

    // Of a machine on record, of one that has proven itself and is on none, and of one that has proven nothing.
    assert_eq!(service.rejoin(&node, DISKS[1]).unwrap_err().code(), "disk-unknown");
    assert_eq!(service.join(&other, DISKS[1], "edge-1").unwrap_err().code(), "name-taken");
    service.join(&stranger, DISKS[1], "edge-2").unwrap_err();
    let unknown_disk = event(&admin, "disk-unknown");
    assert_on_machine(&unknown_disk, &node);
    assert_eq!((&unknown_disk["action"], &unknown_disk["type"]), (&json!("rejoin"), &json!("Warning")));
    let taken = event(&admin, "name-taken");
    assert_on_cluster(&taken, Some(&other));
    assert_eq!(taken["action"], "join");
    let untrusted = event(&admin, "ek-not-pinned");
    assert_on_cluster(&untrusted, None);
    assert_eq!(untrusted["action"], "attest");
}

/// Not among the recipes: the metric is of every cluster, and an API server is built in every run that may skip nothing.
#[test]
fn machines_that_wait_are_counted_in_an_api_server_too() {
    if !is_built_or_skip() {
        return;
    }
    let (node, other) = (Machine::new(), Machine::new());
    let mut rig = Rig::new(&[&node, &other]);
    rig.directory.write_enrolment(&Enrolment::hold_all()).unwrap();
    let server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    let service = rig.start();
    let page = service.page("/metrics").1;
    assert!(page.contains("\nlatchkey_join_service_held 0\n"), "{page}");
    for (machine, disk) in [(&node, DISKS[0]), (&other, DISKS[1])] {
        assert_eq!(service.join(machine, disk, "edge-1").unwrap_err().code(), "enrolment-held");
    }
    assert_eq!(service.metric("held"), 2);
    // Who is shut out waits for nobody; who is admitted is taken out of the list.
    let denied = json!({ "data": { other.ek().to_string(): "stolen" } });
    admin.patch(&format!("{MAPS}/latchkey-denied"), &denied).granted();
    until("the denial to count", || (service.metric("held") == 1).then_some(()));
    let admitted = json!({ "data": { format!("{}.json", node.ek()): null } });
    admin.patch(&format!("{MAPS}/latchkey-pending"), &admitted).granted();
    until("nobody to be held", || (service.metric("held") == 0).then_some(()));
}

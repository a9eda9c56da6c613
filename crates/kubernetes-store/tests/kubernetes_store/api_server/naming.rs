//! Who named what first, where calls are cut short, late, or made through two services.

use crate::api_server::Cluster;
use crate::api_server::cluster::{ek, put, record, resource, told};
use latchkey_api_server_rig::proxy::Fault;
use latchkey_cluster_store::{NodeRecord, NodeStatus, PutError, PutRefusal, RecordStore as _, Recorded};
use latchkey_kubernetes_store::KubernetesStore;
use latchkey_test_support::{until, until_within};
use serde_json::{Value, json};
use std::time::Duration;

const PROVISIONAL: &str = "latchkey.dev/provisional";

/// The record of a call whose service ended when it had created it.
fn cut_short(cluster: &Cluster, record: &NodeRecord) {
    let mut object = latchkey_cluster_store::objects::node_object(record);
    object["metadata"]["annotations"] = json!({ PROVISIONAL: "" });
    cluster.admin.post(&resource("attestednodes", ""), &object).granted();
}

fn object(cluster: &Cluster, number: u64) -> Value {
    cluster.admin.get(&resource("attestednodes", &ek(number).to_string())).granted()
}

fn is_provisional(object: &Value) -> bool {
    !object["metadata"]["annotations"][PROVISIONAL].is_null()
}

fn is_deleted(cluster: &Cluster, number: u64) {
    until("it to be deleted", || {
        let there = cluster.admin.get(&resource("attestednodes", &ek(number).to_string()));
        (there.status() == 404).then_some(())
    });
}

fn is_name_taken(put: &Result<Recorded, PutError>) -> bool {
    matches!(put, Err(PutError::Refused(PutRefusal::NameTaken)))
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn what_a_call_that_was_cut_short_left_second_is_nobody_s_and_whoever_is_there_deletes_it() {
    let cluster = Cluster::start();
    let (one, other) = (cluster.store(), cluster.store());
    put(&one, &record(1, "edge", 1), None).unwrap();
    let disk_of_first = record(3, "edge-3", 1);
    for second in [record(2, "edge", 2), disk_of_first] {
        until("the first to be heard of", || told(&other, &ek(1)));
        cut_short(&cluster, &second);
        is_deleted(&cluster, u64::from_str_radix(&second.ek_sha256.to_string(), 16).unwrap());
        for store in [&one, &other] {
            assert!(told(store, &second.ek_sha256).is_none() && told(store, &ek(1)).is_some());
        }
    }
    // The machine itself may ask again, for what is nobody's.
    put(&one, &record(2, "edge-2", 2), None).unwrap();
}

fn status() -> NodeStatus {
    NodeStatus {
        image: "plant".to_owned(),
        version: "1.2.3".to_owned(),
        agent_version: None,
        epoch: None,
        last_attestation: 1_800_000_000,
        last_report: None,
    }
}

/// Nobody is there who saw which came first.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_service_that_starts_finds_out_which_of_two_came_first_and_tells_of_that_one() {
    let cluster = Cluster::start();
    let seen = |store: &KubernetesStore, number: u64| told(store, &ek(number)).is_some();
    for round in 0..2_u64 {
        let (first, second, name) = (10 * round + 1, 10 * round + 2, format!("edge-{round}"));
        let store = cluster.store();
        let known = put(&store, &record(first, &name, first), None).unwrap();
        assert!(is_provisional(&object(&cluster, first)));
        // It was written since, and nothing says any more when it was made.
        if round == 1 {
            let written = NodeRecord { first_joined_at: 7, ..known.clone().into_inner() };
            put(&store, &written, Some(&known)).unwrap();
            assert!(!is_provisional(&object(&cluster, first)));
            store.show_status(ek(first), status());
            until("the status to be written", || (!object(&cluster, first)["status"].is_null()).then_some(()));
        }
        drop(store);
        cut_short(&cluster, &record(second, &name, second));
        if round == 1 {
            // The revision of the first one is the later one.
            cluster.by_hand(&ek(first), |object| object["metadata"]["labels"] = json!({ "touched": "by-hand" }));
        }
        let store = cluster.store();
        assert_eq!((seen(&store, first), seen(&store, second)), (true, false), "round {round}");
        assert!(is_name_taken(&put(&store, &record(second + 1, &name, second + 1), None)));
        is_deleted(&cluster, second);
        assert!(told(&store, &ek(first)).is_some());
    }
}

/// The operator makes a record by hand that names what a machine has that joined and has no status yet.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_service_that_starts_deletes_no_record_for_one_that_was_made_by_hand_and_serves_neither() {
    let cluster = Cluster::start();
    let first = put(&cluster.store(), &record(1, "edge", 1), None).unwrap();
    let by_hand = latchkey_cluster_store::objects::node_object(&record(2, "edge", 2));
    cluster.admin.post(&resource("attestednodes", ""), &by_hand).granted();
    let store = cluster.store();
    // Both are told: whoever hears of two that name one thing gives it to neither.
    let known = told(&store, &ek(1)).unwrap();
    assert!(told(&store, &ek(2)).is_some_and(|known| !known.is_confirmed()) && !known.is_confirmed());
    let next = NodeRecord { first_joined_at: 7, ..known.clone().into_inner() };
    assert!(matches!(put(&store, &next, Some(&known)), Err(PutError::Refused(PutRefusal::Unclear))));
    // Lost ones are looked for every ten seconds: one that is lost is gone, and this one is not.
    cut_short(&cluster, &record(3, "edge", 3));
    let gone = || (cluster.admin.get(&resource("attestednodes", &ek(3).to_string())).status() == 404).then_some(());
    until_within("the lost one to be deleted", Duration::from_mins(1), Duration::from_millis(200), gone);
    assert_eq!(object(&cluster, 1)["metadata"]["resourceVersion"], json!(first.revision().to_string()));
    cluster.admin.delete(&resource("attestednodes", &ek(2).to_string()), &json!({})).granted();
    until("it to be heard of", || told(&store, &ek(2)).is_none().then_some(()));
    put(&store, &next, Some(&known)).unwrap();
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_status_is_of_the_very_record_that_it_was_written_of() {
    let cluster = Cluster::start();
    let proxy = cluster.proxy();
    let (slow, other) = (KubernetesStore::open(proxy.kubeconfig()).unwrap(), cluster.store());
    put(&slow, &record(1, "edge", 1), None).unwrap();
    let (go, held) = smol::channel::bounded(1);
    proxy.arm(["PATCH", "/status"], Fault::Held(held), 1);
    slow.show_status(ek(1), status());
    until("the status to be on its way", || (!proxy.is_armed()).then_some(()));
    cluster.admin.delete(&resource("attestednodes", &ek(1).to_string()), &json!({})).granted();
    until("it to be heard of", || told(&other, &ek(1)).is_none().then_some(()));
    put(&other, &record(1, "edge", 1), None).unwrap();
    put(&slow, &record(2, "edge-2", 2), None).unwrap();
    go.send_blocking(()).unwrap();
    // Statuses are written one after the other.
    slow.show_status(ek(2), status());
    until("the next to be written", || (!object(&cluster, 2)["status"].is_null()).then_some(()));
    assert!(object(&cluster, 1)["status"].is_null());
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn while_the_watch_says_nothing_nobody_is_let_in_and_the_machine_s_next_call_goes_on() {
    let cluster = Cluster::start();
    let proxy = cluster.proxy();
    let (deaf, other) = (KubernetesStore::open(proxy.kubeconfig()).unwrap(), cluster.store());
    proxy.arm(["GET", "attestednodes?"], Fault::Silence, usize::MAX);
    proxy.cut();
    put(&other, &record(1, "edge", 1), None).unwrap();
    // One that another service gave to another machine, and one that is nobody's.
    let second = put(&deaf, &record(2, "edge", 2), None);
    assert!(matches!(second, Err(PutError::Refused(PutRefusal::Unheard))), "{second:?}");
    let alone = put(&deaf, &record(3, "edge-3", 3), None);
    assert!(matches!(alone, Err(PutError::Refused(PutRefusal::Unheard))), "{alone:?}");
    // Through whichever service.
    let known = until("the record to be heard of", || told(&other, &ek(3)));
    assert!(is_provisional(&object(&cluster, 3)));
    let next = NodeRecord { first_joined_at: 7, ..known.clone().into_inner() };
    put(&other, &next, Some(&known)).unwrap();
    assert!(!is_provisional(&object(&cluster, 3)));
    proxy.disarm();
    until("the other to hear again", || told(&deaf, &ek(1)));
    assert!(is_name_taken(&put(&deaf, &record(2, "edge", 2), None)));
    is_deleted(&cluster, 2);
    assert!(told(&deaf, &ek(2)).is_none() && told(&other, &ek(2)).is_none());
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn what_a_record_reserves_is_its_machine_s_also_after_a_call_that_was_cut_short() {
    let cluster = Cluster::start();
    let store = cluster.store();
    let before = put(&store, &record(1, "former", 1), None).unwrap();
    cluster.by_hand(&ek(1), |object| {
        object["metadata"]["annotations"] = json!({ "latchkey.dev/reserves": r#"[{"name":"latter"}]"# });
    });
    let before = until("it to be heard of", || told(&store, &ek(1)).filter(|now| now.revision() > before.revision()));
    assert!(is_name_taken(&put(&store, &record(2, "latter", 2), None)));
    is_deleted(&cluster, 2);
    let renamed = NodeRecord { name: "latter".parse().unwrap(), ..before.clone().into_inner() };
    put(&store, &renamed, Some(&before)).unwrap();
    assert!(object(&cluster, 1)["metadata"]["annotations"]["latchkey.dev/reserves"].is_null());
    // Whoever reserves what another has gets nothing, and keeps what it has.
    let third = put(&store, &record(3, "third", 3), None).unwrap();
    let renamed = NodeRecord { name: "latter".parse().unwrap(), ..third.clone().into_inner() };
    assert!(is_name_taken(&put(&store, &renamed, Some(&third))));
    assert!(object(&cluster, 3)["metadata"]["annotations"]["latchkey.dev/reserves"].is_null());
    assert_eq!(told(&store, &ek(3)).unwrap().name.as_str(), "third");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn what_a_record_reserves_and_never_claims_is_free_again_after_a_while() {
    let cluster = Cluster::start();
    let store = cluster.store();
    let before = put(&store, &record(1, "former", 1), None).unwrap();
    cluster.by_hand(&ek(1), |object| {
        object["metadata"]["annotations"] = json!({ "latchkey.dev/reserves": r#"[{"name":"latter"}]"# });
    });
    until("it to be heard of", || told(&store, &ek(1)).filter(|now| now.revision() > before.revision()));
    assert!(is_name_taken(&put(&store, &record(2, "latter", 2), None)));
    let reserved = || object(&cluster, 1)["metadata"]["annotations"]["latchkey.dev/reserves"].clone();
    until("nothing to be reserved", || reserved().is_null().then_some(()));
    until("it to be free", || put(&store, &record(2, "latter", 2), None).ok());
    assert_eq!(told(&store, &ek(1)).unwrap().name.as_str(), "former");
}

/// A service of the release before would claim by other objects.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn in_a_cluster_of_the_release_before_nothing_is_named_until_it_is_upgraded() {
    let cluster = Cluster::start();
    let mut document = json!({
        "version": 1, "name": "plant", "cluster_id": "11".repeat(32), "measurement_salt": "22".repeat(32),
        "key_version": 1, "created_at": 1,
    });
    cluster.document("latchkey-cluster", &json!({ "cluster.json": document.to_string() }));
    let store = cluster.store();
    let put_first = put(&store, &record(1, "edge", 1), None);
    assert!(matches!(put_first, Err(PutError::Refused(PutRefusal::NotUpgraded))), "{put_first:?}");
    assert_eq!(cluster.count("attestednodes"), 0);
    (document["version"], document["denials"]) = (2.into(), json!({ "count": 0 }));
    cluster.document("latchkey-cluster", &json!({ "cluster.json": document.to_string() }));
    until("it to be heard that it was upgraded", || put(&store, &record(1, "edge", 1), None).ok());
}

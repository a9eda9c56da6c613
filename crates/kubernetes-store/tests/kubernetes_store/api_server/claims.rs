//! Claims without a record: of joins that were cut short, and of machines that were removed.

use crate::api_server::Cluster;
use crate::api_server::cluster::{ek, put, record, resource, told};
use latchkey_api_server_rig::proxy::Fault;
use latchkey_cluster_store::{PutError, PutRefusal, RecordStore as _};
use latchkey_kubernetes_store::{KubernetesStore, Timing};
use latchkey_test_support::until;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::Duration;

const AT_ONCE: Timing = Timing { stale_claim: Duration::ZERO };
const NAMES: u64 = 20;

/// Both claims of a machine that has no record.
fn claimed_only(cluster: &Cluster, store: &KubernetesStore, number: u64, name: &str) {
    put(store, &record(number, name, number), None).unwrap();
    cluster.admin.delete(&resource("attestednodes", &ek(number).to_string()), &json!({})).granted();
    until("it to be heard that the record is gone", || told(store, &ek(number)).is_none().then_some(()));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_claim_without_a_record_is_another_machine_s_after_its_time_and_not_before() {
    let cluster = Cluster::start();
    let (patient, hasty) = (cluster.store(), cluster.store_with(AT_ONCE));
    claimed_only(&cluster, &patient, 1, "edge");
    let wanted = record(2, "edge", 1);
    assert!(matches!(put(&patient, &wanted, None), Err(PutError::Refused(PutRefusal::NameTaken))));
    put(&hasty, &wanted, None).unwrap();
    // Name and disk are its own now, also for who waits no time at all.
    until("the other to hear of it", || told(&patient, &ek(2)));
    assert!(matches!(put(&hasty, &record(3, "edge", 3), None), Err(PutError::Refused(PutRefusal::NameTaken))));
    assert!(matches!(put(&hasty, &record(3, "edge-3", 1), None), Err(PutError::Refused(PutRefusal::DiskTaken))));
    assert!(matches!(put(&hasty, &record(1, "edge", 1), None), Err(PutError::Refused(_))));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn what_stands_on_a_record_is_never_taken_over_and_neither_is_what_cannot_be_read() {
    let cluster = Cluster::start();
    let hasty = cluster.store_with(AT_ONCE);
    put(&hasty, &record(1, "edge", 1), None).unwrap();
    let refused = || put(&hasty, &record(2, "edge", 2), None);
    assert!(matches!(refused(), Err(PutError::Refused(PutRefusal::NameTaken))));
    // A record that somebody broke may be of a machine that has the name.
    cluster.by_hand(&ek(1), |object| object["spec"]["maintained_by"] = json!("hand"));
    assert!(matches!(refused(), Err(PutError::Refused(PutRefusal::NameTaken))));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn of_two_services_that_take_stale_claims_over_at_once_one_wins_each() {
    // Longer than a request may take: shorter, and what the other has just claimed would be taken from it before its record is there.
    let timing = Timing { stale_claim: Duration::from_secs(7) };
    let cluster = Cluster::start();
    let stores = [cluster.store_with(timing), cluster.store_with(timing)];
    for number in 0..NAMES {
        claimed_only(&cluster, &stores[0], number, &format!("n-{number}"));
    }
    let barrier = Barrier::new(2);
    let won = std::thread::scope(|scope| {
        let threads = [0, 1].map(|which| {
            let (store, barrier) = (&stores[which], &barrier);
            scope.spawn(move || {
                let mut wanted: Vec<u64> = (0..NAMES).collect();
                let (mut won, begun) = (0, std::time::Instant::now());
                // Each asks for each name until it has it, or the other has had the time to.
                barrier.wait();
                until("the time of the claims to be over", || {
                    wanted.retain(|number| {
                        let asker = 1000 * (which as u64 + 1) + number;
                        let got = put(store, &record(asker, &format!("n-{number}"), asker), None).is_ok();
                        won += u64::from(got);
                        !got
                    });
                    (begun.elapsed() > 3 * timing.stale_claim).then_some(())
                });
                won
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(won[0] + won[1], NAMES, "{won:?}");
    let nodes = cluster.admin.get(&resource("attestednodes", "")).granted();
    let names: BTreeSet<_> =
        nodes["items"].as_array().unwrap().iter().map(|node| node["spec"]["name"].to_string()).collect();
    assert_eq!(names.len() as u64, NAMES, "no name twice");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_machine_that_comes_again_makes_its_own_claims_new_ones() {
    let cluster = Cluster::start();
    let store = cluster.store();
    claimed_only(&cluster, &store, 1, "edge");
    let revisions = || {
        let claims = cluster.admin.get(&resource("nodeclaims", "")).granted();
        let items = claims["items"].as_array().unwrap().clone();
        items.iter().map(|claim| claim["metadata"]["resourceVersion"].clone()).collect::<Vec<_>>()
    };
    let before = revisions();
    put(&store, &record(1, "edge", 1), None).unwrap();
    let after = revisions();
    assert!(before.len() == 2 && after.len() == 2 && after.iter().all(|revision| !before.contains(revision)));
    store.doubt();
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_name_that_its_machine_takes_back_stays_claimed_whoever_gives_it_up_meanwhile() {
    let cluster = Cluster::start();
    let proxy = cluster.proxy();
    let (slow, quick) = (KubernetesStore::open(proxy.kubeconfig()).unwrap(), cluster.store());
    put(&quick, &record(1, "a", 1), None).unwrap();
    let before = until("the record to be heard of", || told(&slow, &ek(1)));
    let node = resource("attestednodes", &ek(1).to_string());
    let is_called = |name: &str| cluster.admin.get(&node).granted()["spec"]["name"] == name;
    let takes_back = || {
        let renamed = || told(&quick, &ek(1)).filter(|record| record.name.as_str() == "b");
        put(&quick, &record(1, "a", 1), Some(&until("the new name to be heard of", renamed))).unwrap();
    };
    let (go, held) = smol::channel::bounded(1);
    proxy.arm(["GET", "nodeclaims"], Fault::Held(held), 1);
    std::thread::scope(|scope| {
        let renames = scope.spawn(|| put(&slow, &record(1, "b", 1), Some(&before)).unwrap());
        until("the claim to be looked at", || (!proxy.is_armed()).then_some(()));
        // Between the look and what follows from it, if the record stands by then.
        if is_called("b") {
            takes_back();
        }
        go.try_send(()).unwrap();
        renames.join().unwrap();
    });
    if is_called("b") {
        takes_back();
    }
    let other = put(&quick, &record(2, "a", 2), None);
    assert!(matches!(other, Err(PutError::Refused(PutRefusal::NameTaken))), "{other:?}");
}

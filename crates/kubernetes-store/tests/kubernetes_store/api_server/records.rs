//! Records, as one service hears of what others do.

use crate::api_server::Cluster;
use crate::api_server::cluster::{ek, put, record, resource, told};
use latchkey_cluster_store::{News, NodeRecord, PutError, PutRefusal, RecordStore as _};
use latchkey_test_support::until;
use serde_json::json;

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_record_comes_back_as_it_was_written_also_after_a_restart_of_everything() {
    let mut cluster = Cluster::start();
    let written = record(7, "edge-7", 7);
    put(&cluster.store(), &written, None).unwrap();
    cluster.server.kill_api();
    cluster.server.kill_etcd();
    cluster.server.start_etcd();
    cluster.server.start_api();
    assert_eq!(told(&cluster.store(), &ek(7)).unwrap().into_inner(), written);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_record_that_somebody_edited_into_nonsense_costs_that_record_alone() {
    let cluster = Cluster::start();
    let store = cluster.store();
    for number in 1..=3 {
        put(&store, &record(number, &format!("n-{number}"), number), None).unwrap();
    }
    // What the schema cannot see: a field of nobody, and an epoch twice.
    cluster.by_hand(&ek(1), |object| object["spec"]["maintained_by"] = json!("hand"));
    cluster.by_hand(&ek(2), |object| {
        let again = object["spec"]["disks"][0].clone();
        object["spec"]["disks"].as_array_mut().unwrap().push(again);
    });
    let listing = until("both to be found", || {
        store.doubt();
        match store.turn().unwrap().news().unwrap() {
            News::All(listing) if listing.damaged.len() == 2 => Some(listing),
            _ => None,
        }
    });
    assert_eq!(listing.records.iter().map(|record| record.name.as_str()).collect::<Vec<_>>(), ["n-3"]);
    // They still say whose machine, name and disk they are about.
    for (damaged, number) in listing.damaged.iter().zip([1, 2]) {
        assert!(damaged.eks.contains(&ek(number)) && damaged.names.contains(&format!("n-{number}").parse().unwrap()));
        assert_eq!(damaged.disks.len(), 1, "{damaged:?}");
    }
    assert!(listing.damaged[0].why.contains("maintained_by"), "{}", listing.damaged[0].why);
    // Nobody puts a record over it.
    assert!(matches!(put(&store, &record(1, "n-1", 1), None), Err(PutError::Refused(PutRefusal::Overtaken))));
    // Mended, it is a record again.
    cluster.by_hand(&ek(1), |object| drop(object["spec"].as_object_mut().unwrap().remove("maintained_by")));
    until("it to be a record again", || told(&store, &ek(1)));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_removed_machine_is_gone_for_every_service_and_its_name_is_free() {
    let cluster = Cluster::start();
    let (one, other) = (cluster.store(), cluster.store());
    put(&one, &record(1, "edge", 1), None).unwrap();
    until("the other to hear of it", || told(&other, &ek(1)));
    cluster.admin.delete(&resource("attestednodes", &ek(1).to_string()), &json!({})).granted();
    until("both to hear that it is gone", || {
        (told(&one, &ek(1)).is_none() && told(&other, &ek(1)).is_none()).then_some(())
    });
    put(&other, &record(2, "edge", 2), None).unwrap();
    assert!(matches!(put(&one, &record(1, "edge", 1), None), Err(PutError::Refused(PutRefusal::NameTaken))));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn another_name_is_the_machine_s_and_the_former_one_free() {
    let cluster = Cluster::start();
    let store = cluster.store();
    let before = put(&store, &record(1, "former", 1), None).unwrap();
    let renamed = NodeRecord { name: "latter".parse().unwrap(), ..before.clone().into_inner() };
    put(&store, &renamed, Some(&before)).unwrap();
    assert!(matches!(put(&store, &record(2, "latter", 2), None), Err(PutError::Refused(PutRefusal::NameTaken))));
    put(&store, &record(3, "former", 3), None).unwrap();
}

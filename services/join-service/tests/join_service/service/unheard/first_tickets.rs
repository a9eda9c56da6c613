//! A machine's first record and its token are made at once: each may fail, and the service may end in between.

use super::{NODES, Site, disk, told, told_within};
use crate::service::rig::Machine;
use latchkey_api_server_rig::proxy::{Fault, status};
use latchkey_cluster_store::objects::node_object;
use latchkey_cluster_store::{CountedDenials, NodeRecord, Role};
use latchkey_test_support::until;
use rustix::process::Signal;
use serde_json::{Value, json};

const PROVISIONAL: &str = "latchkey.dev/provisional";

fn object(site: &Site, machine: &Machine) -> Value {
    site.admin.get(&format!("{NODES}/{}", machine.ek())).granted()
}

fn is_provisional(site: &Site, machine: &Machine) -> bool {
    !object(site, machine)["metadata"]["annotations"][PROVISIONAL].is_null()
}

/// As a service leaves it that ended before it knew whether the record came first.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_record_that_nobody_wrote_since_it_was_made_is_written_before_its_machine_gets_a_key() {
    let node = Machine::new();
    let site = Site::new(&[&node]);
    let uuid = disk(1).parse().unwrap();
    let record = NodeRecord::first(node.ek(), "edge-1".parse().unwrap(), Role::Worker, uuid, 1, 1_800_000_000);
    let mut made = node_object(&record);
    made["metadata"]["annotations"] = json!({ PROVISIONAL: "" });
    site.admin.post(NODES, &made).granted();
    let service = site.rig.start();
    site.spoil(["PUT", "/attestednodes"], Fault::Answer(status(503)));
    assert_eq!(told(&service, &node, 1).as_deref(), Some("record-not-written"));
    assert!(is_provisional(&site, &node));
    site.pass();
    // Its connections were broken: what it is at on one of them fails, and the machine asks again.
    told_within(&service, &node, 1, None);
    assert!(!is_provisional(&site, &node));
    // A power cut in a room is not followed by a write for each machine, once the listing is done that the cut began.
    until("a key without a write", || {
        let (go_on, held) = smol::channel::bounded(1);
        go_on.send_blocking(()).unwrap();
        site.proxy.arm(["PUT", "/attestednodes"], Fault::Held(held), 1);
        (told(&service, &node, 1).is_none() && site.proxy.is_armed()).then_some(())
    });
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_token_that_cannot_be_made_costs_one_call_and_no_name_and_leaves_no_token_of_before() {
    let (node, other, third) = (Machine::new(), Machine::new(), Machine::new());
    let site = Site::new(&[&node, &other, &third]);
    let service = site.rig.start();
    // The clocks were looked at: the next Secret is a token.
    let before = service.join(&other, &disk(2), "edge-2").unwrap();
    let token = &before.cluster.as_ref().unwrap().bootstrap_token;
    let secret = format!("/api/v1/namespaces/kube-system/secrets/bootstrap-token-{}", token.split('.').next().unwrap());
    assert_eq!(site.admin.get(&secret).status(), 200);
    site.spoil(["POST", "/secrets"], Fault::Answer(status(503)));
    assert_eq!(service.join(&other, &disk(2), "edge-2").unwrap_err().code(), "token-not-made");
    until("the token that is on no record to be gone", || (site.admin.get(&secret).status() == 404).then_some(()));
    assert_eq!(service.join(&node, &disk(1), "edge-1").unwrap_err().code(), "token-not-made");
    site.pass();
    service.join(&node, &disk(1), "edge-1").unwrap();
    assert_eq!(service.join(&third, &disk(3), "edge-1").unwrap_err().code(), "name-taken");
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_service_that_is_killed_while_it_waits_for_its_record_costs_nobody_its_name() {
    let (node, other) = (Machine::new(), Machine::new());
    let site = Site::new(&[&node, &other]);
    let service = site.rig.start();
    // The record is made, and the service does not hear of it.
    site.swallow(["GET", "/attestednodes?"]);
    let client = *service;
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| client.join(&node, &disk(1), "edge-1"));
        let made = || site.admin.get(&format!("{NODES}/{}", node.ek())).status() == 200;
        until("the record to be made", || made().then_some(()));
        service.signal(Signal::KILL);
        joining.join().unwrap().unwrap_err();
    });
    assert!(is_provisional(&site, &node));
    drop(service);
    site.pass();
    let service = site.rig.start();
    assert_eq!(service.join(&other, &disk(2), "edge-1").unwrap_err().code(), "name-taken");
    service.join(&node, &disk(1), "edge-1").unwrap();
    assert!(!is_provisional(&site, &node));
    assert_eq!(site.admin.get(&format!("{NODES}/{}", other.ek())).status(), 404);
}

/// The store can be written: whoever asks next may be heard of.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_record_that_the_watch_does_not_tell_of_costs_one_call_and_the_service_s_health_nothing() {
    let node = Machine::new();
    let site = Site::new(&[&node]);
    let service = site.rig.start();
    site.swallow(["GET", "/attestednodes?"]);
    assert_eq!(service.join(&node, &disk(1), "edge-1").unwrap_err().code(), "record-not-written");
    let (status, page) = service.page("/healthz");
    assert!(status.contains("200"), "{status} {page}");
    site.pass();
    until("a ticket", || service.join(&node, &disk(1), "edge-1").ok());
    assert!(!is_provisional(&site, &node));
}

/// Services of the release before may run beside this one.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn in_a_cluster_that_was_not_upgraded_a_new_machine_has_nothing_made_and_the_service_is_healthy() {
    let (known, new) = (Machine::new(), Machine::new());
    let site = Site::new(&[&known, &new]);
    site.on_record(&known, "edge-1", Role::Worker, 1);
    let document = |cluster: &Value| site.change("latchkey-cluster", &json!({ "cluster.json": cluster.to_string() }));
    let counting = site.rig.cluster.clone().counting(CountedDenials::default()).to_json();
    let counting: Value = serde_json::from_str(&counting).unwrap();
    let mut before = counting.clone();
    before["version"] = 1.into();
    before.as_object_mut().unwrap().remove("denials");
    document(&before);
    let service = site.rig.start();
    let code = |machine, number| service.join(machine, &disk(number), "edge-2").err().map(|refused| refused.code());
    site.proxy.arm(["POST", "/secrets"], Fault::Answer(status(500)), 1);
    assert_eq!(code(&new, 2).as_deref(), Some("api-store-not-upgraded"));
    assert_eq!(code(&known, 3).as_deref(), Some("api-store-not-upgraded"));
    assert!(site.proxy.is_armed(), "a Secret was to be made");
    let (status, page) = service.page("/healthz");
    assert!(status.contains("200") && page.contains("no machine gets a new name or disk"), "{status} {page}");
    site.proxy.disarm();
    assert_eq!((code(&known, 1), told(&service, &known, 1)), (None, None));
    document(&counting);
    until("it to be heard that it was upgraded", || code(&new, 2).is_none().then_some(()));
}

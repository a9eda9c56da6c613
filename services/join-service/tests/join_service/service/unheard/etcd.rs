//! What becomes of an API server's data, and of its way to them: `./dev e2e api-server`.

use super::{BadHour, NODES, Site, UNHEARD, disk, told, told_within};
use crate::service::api_server::MAPS;
use crate::service::rig::{Machine, Service};
use latchkey_api_server_rig::proxy::{Fault, status};
use latchkey_api_server_rig::{ApiServer, Setup};
use latchkey_cluster_store::Role;
use latchkey_test_support::until;
use serde_json::json;
use std::time::Instant;

/// Until what is known is too old to decide by; and then nobody gets anything.
fn nothing_is_given(service: &Service, hour: &BadHour, denied_before: &Machine) {
    assert_eq!(told(service, denied_before, 9).as_deref(), Some("machine-denied"));
    until("what is known to be too old", || (service.metric("unheard_seconds") > UNHEARD + 12).then_some(()));
    for (machine, number) in hour.machines().into_iter().zip(1..) {
        assert_eq!(told(service, machine, number).as_deref(), Some("cluster-unheard"));
    }
    assert_eq!(told(service, denied_before, 9).as_deref(), Some("machine-denied"));
}

/// A site with the machines of a bad hour, and one that was denied before.
fn site(server: ApiServer, hour: &BadHour) -> (Site, Machine) {
    let denied_before = Machine::new();
    let site = Site::of(server, &[&hour.machines()[..], &[&denied_before]].concat());
    hour.on_record(&site);
    site.on_record(&denied_before, "edge-9", Role::Worker, 9);
    site.deny(&denied_before);
    (site, denied_before)
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn an_api_server_that_answers_by_half_gives_nobody_anything_and_what_was_written_counts_after_it() {
    let hour = BadHour::new();
    let (site, denied_before) = site(ApiServer::start(), &hour);
    let service = site.rig.start();
    assert_eq!(told(&service, &hour.denied, 2), None);
    site.proxy.arm(["GET", ""], Fault::HalfAnswer, usize::MAX);
    site.proxy.cut();
    hour.is_written(&site.admin);
    nothing_is_given(&service, &hour, &denied_before);
    site.pass();
    hour.counts(&service, Instant::now());
}

/// It listens, and has in memory what it knew; another control plane's takes what operators write.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn an_api_server_that_is_cut_off_from_etcd_is_not_taken_for_one_that_knows() {
    let hour = BadHour::new();
    let (site, denied_before) = site(ApiServer::with(Setup { apart: true, ..Setup::default() }), &hour);
    let beside = site.server.beside();
    let service = site.rig.start();
    assert_eq!(told(&service, &hour.denied, 2), None);
    let outage = site.server.cut_off();
    hour.is_written(&site.server.client_at(&beside, &site.server.admin()));
    nothing_is_given(&service, &hour, &denied_before);
    drop(outage);
    hour.counts(&service, Instant::now());
}

#[test]
#[ignore = "needs etcd, etcdctl, etcdutl and kube-apiserver: ./dev e2e api-server"]
fn after_etcd_was_restored_from_a_snapshot_what_is_written_counts() {
    let hour = BadHour::new();
    let (mut site, denied_before) = site(ApiServer::start(), &hour);
    let snapshot = site.server.save_snapshot();
    let lost = Machine::new();
    let service = site.rig.start();
    // Written after the snapshot.
    site.on_record(&lost, "edge-7", Role::Worker, 7);
    assert_eq!(told(&service, &hour.denied, 2), None);
    site.server.restore_snapshot(&snapshot);
    let end = Instant::now();
    assert_eq!(site.admin.get(&format!("{NODES}/{}", lost.ek())).status(), 404, "it is not of the snapshot");
    assert_eq!(told(&service, &denied_before, 9).as_deref(), Some("machine-denied"));
    hour.is_written(&site.admin);
    hour.counts(&service, end);
}

/// So much that revisions go back when it is lost.
fn write_much(site: &Site) {
    for number in 0..50 {
        let patch = json!({ "metadata": { "annotations": { "written": number.to_string() } } });
        site.admin.patch(&format!("{MAPS}/latchkey-denied"), &patch).granted();
    }
}

/// What that API server has in memory is of before, and so is what it lists.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn what_is_written_over_an_etcd_that_was_restored_beneath_an_api_server_that_goes_on_counts() {
    let hour = BadHour::new();
    let (mut site, denied_before) = site(ApiServer::start(), &hour);
    let snapshot = site.server.snapshot_etcd();
    let service = site.rig.start();
    write_much(&site);
    site.server.restore_etcd_beneath(&snapshot);
    until("it to have found etcd again", || (site.admin.get("/readyz").status() == 200).then_some(()));
    let end = Instant::now();
    hour.is_written(&site.admin);
    hour.counts(&service, end);
    assert!(told(&service, &denied_before, 9).is_some());
}

/// They allow to list documents, and not to read them.
#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn by_the_rights_of_an_earlier_chart_a_denial_is_heard_as_it_was() {
    let node = Machine::new();
    let site = Site::new(&[&node]);
    site.on_record(&node, "edge-1", Role::Worker, 1);
    site.proxy.arm(["GET", "/configmaps/latchkey-denied"], Fault::Answer(status(403)), usize::MAX);
    let service = site.rig.start();
    assert_eq!(told(&service, &node, 1), None);
    site.deny(&node);
    told_within(&service, &node, 1, Some("machine-denied"));
    assert!(site.proxy.is_armed());
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn after_etcd_lost_its_last_writes_what_is_written_counts_and_records_are_read_and_written() {
    let (hour, kept, lost, new) = (BadHour::new(), Machine::new(), Machine::new(), Machine::new());
    let mut site = Site::new(&[&hour.machines()[..], &[&kept, &lost, &new]].concat());
    hour.on_record(&site);
    site.on_record(&kept, "edge-6", Role::Worker, 6);
    let snapshot = site.server.snapshot_etcd();
    let service = site.rig.start();
    // Written after the snapshot.
    service.join(&lost, &disk(7), "edge-7").unwrap();
    service.join(&kept, &disk(8), "edge-6").unwrap();
    write_much(&site);
    assert_eq!((told(&service, &lost, 7), told(&service, &kept, 8)), (None, None));
    site.server.restore_etcd(&snapshot);
    told_within(&service, &lost, 7, Some("node-unknown"));
    // Its record is of a lower revision than the one that was known.
    told_within(&service, &kept, 8, Some("disk-unknown"));
    service.join(&kept, &disk(8), "edge-6").unwrap();
    assert_eq!((told(&service, &kept, 6), told(&service, &kept, 8)), (None, None));
    // Its name and its disk are nobody's now.
    service.join(&new, &disk(7), "edge-7").unwrap();
    assert_eq!(told(&service, &new, 7), None);
    let end = Instant::now();
    hour.is_written(&site.admin);
    hour.counts(&service, end);
}

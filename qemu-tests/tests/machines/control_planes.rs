//! Three control planes on real machines: joins that are cut, one that is lost, one that is removed, and all without power at once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use latchkey_qemu_tests::fleet::{MEMBER, STEP, WAITS};
use latchkey_qemu_tests::kubernetes::{API_IS_READY, EtcdMember, Site};
use latchkey_qemu_tests::vm::Vm;
use latchkey_test_support::until_within;

/// A control plane that starts on a machine that has two others to run. Emulated, three have more to do than two processors can: an
/// API server that gets no time to answer its probes is ended by its kubelet, and begun anew.
const BESIDE_TWO: Duration = Duration::from_mins(25);
/// Asked again after this: a control plane that comes or goes has better things to do.
const PAUSE: Duration = Duration::from_secs(5);
/// kubeadm has just told etcd of its member, which has no vote and no data yet.
const ANNOUNCED: &str = "Announced new etcd member";
/// etcd counts the member: this follows its promotion.
const COUNTED: &str = "[mark-control-plane] Marking the node";

fn seconds(what: &str, since: Instant) {
    eprintln!("{what}: {:.1} s", since.elapsed().as_secs_f32());
}

fn voters(names: &[&str]) -> Vec<EtcdMember> {
    names.iter().copied().map(EtcdMember::voter).collect()
}

/// Waits until etcd has these members, all with a vote, as the one of `node` says.
fn counts(site: &Site, node: &str, names: &[&str]) {
    let wanted = voters(names);
    let same = || site.etcd_members(node).ok().filter(|members| *members == wanted).map(drop);
    until_within(format!("etcd to have the members {names:?}"), BESIDE_TWO, PAUSE, same);
}

/// Switches a machine on that becomes a control plane, and has the operator say so.
fn admitted(site: &Site, number: u8) -> Vm {
    let node = site.control_plane(number).unwrap().start().unwrap();
    node.expect("enrolment-held", STEP).unwrap();
    site.fleet.admit_as(&node, "control-plane").unwrap().success("node admit").unwrap();
    node
}

/// Cuts the power when the node says this in its join, and switches it on again.
fn cut_at(node: &mut Vm, line: &str) {
    node.expect(line, BESIDE_TWO).unwrap();
    node.restart().unwrap();
}

#[test]
#[ignore = "builds Kubernetes, once, with Go, and a Debian with it; ./dev e2e control-planes"]
fn control_planes_join_although_they_are_cut_and_a_cluster_outlives_one_of_three() {
    let site = Site::with_balancer("control-planes").unwrap().with_patience(BESIDE_TWO);
    let power_on = Instant::now();
    let mut first = site.control_plane(1).unwrap().start().unwrap();
    first.expect(WAITS, STEP).unwrap();
    site.init(&first, "kubernetes").unwrap();
    seconds("node-1: power-on to the end of init", power_on);
    let _services = site.fleet.services_that_hold().unwrap();
    site.ready("node-1", "").unwrap();
    site.serves("node-1").unwrap();
    counts(&site, "node-1", &["node-1"]);

    // Cut before kubeadm begins, and while its etcd has no vote.
    let power_on = Instant::now();
    let mut second = admitted(&site, 2);
    cut_at(&mut second, "cluster-step: begin");
    cut_at(&mut second, ANNOUNCED);
    second.expect(MEMBER, BESIDE_TWO).unwrap();
    seconds("node-2: power-on to the end of stage 2, with two cuts", power_on);
    let boot = site.ready("node-2", "").unwrap();
    counts(&site, "node-1", &["node-1", "node-2"]);
    site.serves("node-2").unwrap();

    // Cut when etcd counts it: of three, the others go on.
    let power_on = Instant::now();
    let mut third = admitted(&site, 3);
    cut_at(&mut third, COUNTED);
    third.expect("going on with the join", BESIDE_TWO).unwrap();
    third.expect(MEMBER, BESIDE_TWO).unwrap();
    seconds("node-3: power-on to the end of stage 2, with one cut", power_on);
    site.ready("node-3", "").unwrap();
    counts(&site, "node-1", &["node-1", "node-2", "node-3"]);

    // One is lost: each of the others answers, and takes what is written.
    second.kill();
    let lost = Instant::now();
    for (node, name) in [(&first, "one"), (&third, "three")] {
        let write = ["create", "configmap", name];
        until_within(format!("{} to write", node.name()), BESIDE_TWO, PAUSE, || site.ask_at(node, &write).ok());
    }
    seconds("node-2 lost: to writes by both others", lost);
    second.restart().unwrap();
    let power_on = Instant::now();
    second.expect(MEMBER, BESIDE_TWO).unwrap();
    let balanced = second.expect("OS balances", BESIDE_TWO).unwrap().text;
    // Its own is in the cluster's list again once it serves.
    for server in ["10.1.0.1:6443", "10.1.0.3:6443"] {
        assert!(balanced.contains(server), "the balancer does not know the others: {balanced}");
    }
    second.expect(API_IS_READY, BESIDE_TWO).unwrap();
    let boot = site.ready("node-2", &boot).unwrap();
    seconds("node-2: power-on to Ready, after the loss", power_on);

    // All at once; the services stay up, and know the records.
    for node in [&mut first, &mut second, &mut third] {
        node.kill();
    }
    for node in [&mut first, &mut second, &mut third] {
        node.restart().unwrap();
    }
    let power_on = Instant::now();
    for node in [&first, &second, &third] {
        node.expect(MEMBER, BESIDE_TWO).unwrap();
    }
    seconds("all: power-on to the end of stage 2", power_on);
    until_within("the API server to answer", BESIDE_TWO, PAUSE, || site.ask(&["get", "nodes"]).ok());
    site.ready("node-2", &boot).unwrap();
    seconds("all: power-on to node-2 Ready", power_on);
    counts(&site, "node-1", &["node-1", "node-2", "node-3"]);

    // One does not come back.
    third.kill();
    site.fleet.remove("node-3").unwrap().success("node remove").unwrap();
    counts(&site, "node-1", &["node-1", "node-2"]);
    let nodes = site.ask(&["get", "nodes,attestednodes", "--output", "name"]).unwrap();
    assert!(!nodes.contains("node-3") && nodes.contains("node-2"), "{nodes}");
    for node in [&first, &second] {
        assert!(!node.console().contains("OS failed unit"), "{}", node.console().text());
    }
}

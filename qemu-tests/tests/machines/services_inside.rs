//! Join and key service on control planes alone: they let machines in, and after a cut of all the operator's key brings them back.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use latchkey_qemu_tests::fleet::{MEMBER, STEP, WAITS};
use latchkey_qemu_tests::kubernetes::Site;
use latchkey_qemu_tests::vm::Vm;
use latchkey_test_support::until_within;

/// A control plane that joins on a machine that has another to run.
const JOIN: Duration = Duration::from_mins(25);
const PAUSE: Duration = Duration::from_secs(5);

fn seconds(what: &str, since: Instant) {
    eprintln!("{what}: {:.1} s", since.elapsed().as_secs_f32());
}

fn on(site: &Site, number: u8) -> Vm {
    site.control_plane(number).unwrap().start().unwrap()
}

/// A cluster whose first machine runs the services, and in which boot that machine is.
fn founded(name: &str) -> (Site, Vm, String) {
    let site = Site::with_services_inside(name).unwrap();
    let power_on = Instant::now();
    let first = on(&site, 1);
    first.expect(WAITS, STEP).unwrap();
    site.init(&first, "kubernetes").unwrap();
    seconds("node-1: power-on to the end of init", power_on);
    let boot = site.ready("node-1", "").unwrap();
    (site, first, boot)
}

/// Nobody outside runs a service: node-1 does, which knows of no other machine than the operator's word tells.
fn joins(site: &Site, node: &Vm, role: &str, power_on: Instant) -> String {
    node.expect("enrolment-held", STEP).unwrap();
    site.fleet.admit_as(node, role).unwrap().success("node admit").unwrap();
    node.expect(MEMBER, JOIN).unwrap();
    seconds("node-2: power-on to the end of stage 2", power_on);
    let boot = site.ready("node-2", "").unwrap();
    site.serves("node-2").unwrap();
    boot
}

/// All at once. Nobody can decide any more: the services are on disks that nobody opens.
fn cut(nodes: &mut [&mut Vm]) {
    for node in &mut *nodes {
        node.kill();
    }
    for node in nodes {
        node.restart().unwrap();
        node.expect("no ticket yet", STEP).unwrap();
    }
}

fn recovers(site: &Site, node: &Vm) {
    let master = site.fleet.path("master.json");
    site.fleet.recover_by_directory(node, &master).unwrap().success("recover").unwrap();
    node.expect(MEMBER, JOIN).unwrap();
}

/// And the services hold who is not known.
fn are_back(site: &Site, nodes: &[(&Vm, &str, &str)], power_on: Instant) {
    until_within("the API server to answer", JOIN, PAUSE, || site.ask(&["get", "nodes"]).ok());
    for (_, name, before) in nodes {
        site.ready(name, before).unwrap();
    }
    seconds("all: power-on to Ready, with the operator's key", power_on);
    let stranger = site.worker(3).unwrap().start().unwrap();
    stranger.expect("enrolment-held", STEP).unwrap();
    for (node, ..) in nodes {
        assert!(!node.console().contains("OS failed unit"), "{}", node.console().text());
    }
}

#[test]
#[ignore = "builds Kubernetes, once, with Go, and a Debian with it; ./dev e2e services-inside"]
fn a_control_plane_lets_a_worker_in_and_after_a_cut_of_both_the_operator_s_key_for_one_brings_both_back() {
    let (site, mut first, first_boot) = founded("services-inside");
    let power_on = Instant::now();
    let mut second = site.worker(2).unwrap().start().unwrap();
    let second_boot = joins(&site, &second, "worker", power_on);
    let power_on = Instant::now();
    cut(&mut [&mut first, &mut second]);
    recovers(&site, &first);
    // The worker asks by itself until somebody answers.
    second.expect(MEMBER, JOIN).unwrap();
    are_back(&site, &[(&first, "node-1", &first_boot), (&second, "node-2", &second_boot)], power_on);
}

#[test]
#[ignore = "builds Kubernetes, once, with Go, and a Debian with it; ./dev e2e services-on-two"]
fn control_planes_run_the_services_and_after_a_cut_of_all_recover_brings_them_back() {
    let (site, mut first, first_boot) = founded("services-on-two");
    let power_on = Instant::now();
    let mut second = on(&site, 2);
    let second_boot = joins(&site, &second, "control-plane", power_on);
    let power_on = Instant::now();
    cut(&mut [&mut first, &mut second]);
    for node in [&first, &second] {
        recovers(&site, node);
    }
    are_back(&site, &[(&first, "node-1", &first_boot), (&second, "node-2", &second_boot)], power_on);
}

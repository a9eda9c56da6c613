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

#[test]
#[ignore = "builds Kubernetes, once, with Go, and a Debian with it; ./dev e2e services-inside"]
fn control_planes_run_the_services_and_after_a_cut_of_all_recover_brings_them_back() {
    let site = Site::with_services_inside("services-inside").unwrap();
    let power_on = Instant::now();
    let mut first = on(&site, 1);
    first.expect(WAITS, STEP).unwrap();
    site.init(&first, "kubernetes").unwrap();
    seconds("node-1: power-on to the end of init", power_on);
    let first_boot = site.ready("node-1", "").unwrap();

    // Nobody outside runs a service: node-1 does, which knows of no other machine than the operator's word tells.
    let power_on = Instant::now();
    let mut second = on(&site, 2);
    second.expect("enrolment-held", STEP).unwrap();
    site.fleet.admit_as(&second, "control-plane").unwrap().success("node admit").unwrap();
    second.expect(MEMBER, JOIN).unwrap();
    seconds("node-2: power-on to the end of stage 2", power_on);
    let second_boot = site.ready("node-2", "").unwrap();
    site.serves("node-2").unwrap();

    // All at once. Nobody can decide any more: etcd has no quorum, and the services are on disks that nobody opens.
    first.kill();
    second.kill();
    let power_on = Instant::now();
    for node in [&mut first, &mut second] {
        node.restart().unwrap();
        node.expect("no ticket yet", STEP).unwrap();
    }
    let master = site.fleet.path("master.json");
    for node in [&first, &second] {
        site.fleet.recover_by_directory(node, &master).unwrap().success("recover").unwrap();
        node.expect(MEMBER, JOIN).unwrap();
    }
    until_within("the API server to answer", JOIN, PAUSE, || site.ask(&["get", "nodes"]).ok());
    site.ready("node-1", &first_boot).unwrap();
    site.ready("node-2", &second_boot).unwrap();
    seconds("all: power-on to Ready, with the operator's key", power_on);

    // The services are there again, and hold who is not known.
    let stranger = site.worker(3).unwrap().start().unwrap();
    stranger.expect("enrolment-held", STEP).unwrap();
    for node in [&first, &second] {
        assert!(!node.console().contains("OS failed unit"), "{}", node.console().text());
    }
}

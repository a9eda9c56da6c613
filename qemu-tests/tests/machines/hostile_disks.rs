//! State disks that come back as what they were, as another node's, or with another header: on real machines.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use latchkey_qemu_tests::cluster::Services;
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, STEP};
use latchkey_qemu_tests::vm::Vm;
use latchkey_test_support::first;

/// Both copies of the header and the area of its key slot lie before this offset; the data lies behind it.
const BEFORE_THE_DATA: usize = 1 << 20;

fn disk_of(fleet: &Fleet, node: &str) -> PathBuf {
    fleet.run().file(&format!("{node}-state.img"))
}

fn member(fleet: &Fleet, name: &str) -> Vm {
    let node = fleet.machine(name).unwrap().start().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    node
}

fn data(node: &Vm, step: &str) -> String {
    node.console().value(&format!("{step}: data ")).unwrap()
}

/// The head of a disk, up to its data.
fn head(path: &PathBuf) -> Vec<u8> {
    let mut bytes = vec![0; BEFORE_THE_DATA];
    File::open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn write_head(path: &PathBuf, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, 0).unwrap();
}

#[test]
fn earlier_foreign_and_exchanged_disks_open_nothing_that_was_not_checked() {
    let fleet = Fleet::new("hostile-disks").unwrap();
    let (Services { keys, join }, first) = fleet.found_cluster(fleet.machine("node-1").unwrap()).unwrap();
    drop(first);
    let mut node = member(&fleet, "node-2");
    let mut other = member(&fleet, "node-3");
    let written = data(&node, "cluster-step");
    let mine = disk_of(&fleet, "node-2");
    let theirs = disk_of(&fleet, "node-3");
    let saved = fleet.run().file("saved.img");

    // Another node's disk: its record names another TPM.
    node.kill();
    other.kill();
    fs::copy(&mine, &saved).unwrap();
    fs::copy(&theirs, &mine).unwrap();
    node.restart().unwrap();
    node.expect("no ticket yet: ticket-refused", STEP).unwrap();
    join.console().find(&["code=\"disk-unknown\""], STEP).unwrap();
    assert!(!node.console().contains("open-disk: begin"));
    node.kill();

    // A header exchanged after the agent has looked at the disk, and before it opens it: what was checked is what is used.
    fs::copy(&saved, &mine).unwrap();
    assert!(join.stop().unwrap().success());
    node.restart().unwrap();
    node.expect("no ticket yet: join-service-unreachable", STEP).unwrap();
    write_head(&mine, &head(&theirs));
    let join = fleet.join_service(&keys).unwrap();
    node.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&node, "start-member"), written);
    node.kill();
    // At the next boot the foreign header is what the disk has.
    node.restart().unwrap();
    node.expect("no ticket yet: ticket-refused", STEP).unwrap();
    assert!(!node.console().contains("open-disk: begin"));
    node.kill();

    // An earlier disk: this TPM has had another since.
    File::create(&mine).unwrap().set_len(fs::metadata(&saved).unwrap().len()).unwrap();
    node.restart().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    let newer = data(&node, "cluster-step");
    assert_ne!(newer, written);
    node.kill();
    let current = fleet.run().file("current.img");
    fs::copy(&mine, &current).unwrap();
    fs::copy(&saved, &mine).unwrap();
    node.restart().unwrap();
    node.expect("no ticket yet: ticket-refused", STEP).unwrap();
    join.console().find(&["code=\"disk-retired\""], STEP).unwrap();
    assert!(!node.console().contains("open-disk: begin"));
    node.kill();

    // What is not stopped, and is a residual risk in the documents: yesterday's copy of today's disk has today's epoch.
    fs::copy(&current, &mine).unwrap();
    node.restart().unwrap();
    node.expect(MEMBER, STEP).unwrap();
    assert_eq!(data(&node, "start-member"), newer);
}

/// A machine whose clock is as it was when it was made, or as somebody set it.
#[test]
fn machines_with_the_clocks_of_1970_and_2099_are_born_join_rejoin_and_are_recovered() {
    let fleet = Fleet::new("clocks").unwrap();
    let at = |name: &str, time: &str| fleet.machine(name).unwrap().arguments(&["-rtc", &format!("base={time}")]);
    let (_services, founder) = fleet.found_cluster(at("node-1", "1970-01-01T00:00:00")).unwrap();
    drop(founder);
    for (name, time) in first(1, &[("node-2", "2099-12-31T23:00:00"), ("node-3", "1970-01-01T00:00:00")]) {
        let mut node = at(name, time).start().unwrap();
        node.expect(MEMBER, STEP).unwrap();
        let written = data(&node, "cluster-step");
        node.restart().unwrap();
        node.expect(MEMBER, STEP).unwrap();
        assert_eq!(data(&node, "start-member"), written);
        node.restart_isolated().unwrap();
        node.expect("recovery: waiting on port 9000", STEP).unwrap();
        fleet.recover(&node, &fleet.path("master.json")).unwrap().success("recover").unwrap();
        node.expect(MEMBER, STEP).unwrap();
        assert_eq!(data(&node, "start-member"), written);
    }
}

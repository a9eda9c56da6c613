//! Power cuts between the writes of a record, and records that are damaged.

use crate::rig::{Machine, Rig, first_node};
use std::fs;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const OTHER: &str = "0b0b0b0b-0000-4000-8000-000000000001";

#[test]
fn a_record_that_was_being_written_when_the_power_went_is_as_it_was_before() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    service.stop();
    let half = rig.path(&format!("cluster/nodes/.new-1-{}.json", node.ek()));
    fs::write(&half, "{\"version\": 1, \"ek_sha").unwrap();
    let service = rig.start();
    assert_eq!(service.rejoin(&node, DISK).unwrap().epoch, 1);
    assert!(!half.exists(), "left over for ever");
    assert_eq!(service.metric("records_damaged"), 0);
}

/// `latchkey init` ended between the first node's record and the cluster.
#[test]
fn half_an_initialisation_is_none_and_can_be_repeated() {
    let node = Machine::new();
    let rig = Rig::uninitialised(&[&node]);
    rig.directory.writer().unwrap().put(&first_node()).unwrap();
    let mut service = rig.start();
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "cluster-not-initialised");
    rig.initialise();
    service.next_line(&["Configuration reloaded", "cluster"]);
    service.join(&node, DISK, "worker-1").unwrap();
    let again = rig.directory.writer().unwrap().initialise(&rig.cluster, &first_node()).unwrap_err();
    assert!(again.to_string().contains("exists already"), "{again}");
}

/// Whose name and disk are in it? Until somebody says, nobody new gets any.
#[test]
fn a_damaged_record_lets_nobody_in_and_nobody_down() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    service.stop();
    let damaged = rig.path(&format!("cluster/nodes/{}.json", first_node().ek_sha256));
    let good = fs::read(&damaged).unwrap();
    fs::write(&damaged, &good[..40]).unwrap();
    let mut service = rig.start();
    service.next_line(&["cannot be used", &first_node().ek_sha256.to_string()]);
    assert_eq!(service.join(&other, OTHER, "worker-2").unwrap_err().code(), "records-damaged");
    service.rejoin(&node, DISK).unwrap();
    let (status, body) = service.page("/healthz");
    assert!(status.contains("503") && body.contains("records-damaged"), "{status} {body}");
    service.stop();
    fs::write(&damaged, good).unwrap();
    let service = rig.start();
    service.join(&other, OTHER, "worker-2").unwrap();
}

#[test]
fn two_records_that_claim_one_name_let_nobody_in() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut copy = first_node();
    copy.ek_sha256 = node.ek();
    copy.disks[0].uuid = DISK.parse().unwrap();
    rig.directory.writer().unwrap().put(&copy).unwrap();
    let service = rig.start();
    assert_eq!(service.join(&node, DISK, "first").unwrap_err().code(), "records-damaged");
}

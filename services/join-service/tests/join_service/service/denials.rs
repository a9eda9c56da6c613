//! TPMs that the operator shut out.

use crate::service::rig::{Machine, Rig};
use std::fs;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const OTHER: &str = "0b0b0b0b-0000-4000-8000-000000000001";

#[test]
fn a_denied_machine_gets_no_ticket_and_no_other_is_meant() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    rig.directory.deny(&node.ek(), "stolen").unwrap();
    service.next_line(&["Machines are shut out", &node.ek().to_string()]);
    service.next_line(&["Configuration reloaded", "denials"]);
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "machine-denied");
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "machine-denied");
    service.next_line(&["audit", "outcome=\"refused\"", "machine-denied"]);
    service.join(&other, OTHER, "worker-2").unwrap();
    assert_eq!(service.metric("denied"), 1);

    // Not even a restart, nor a directory that is gone, lets it in again.
    service.stop();
    let mut service = rig.start();
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "machine-denied");
    fs::rename(rig.path("cluster/denied"), rig.path("cluster/away")).unwrap();
    service.next_line(&["Configuration cannot be used", "denials"]);
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "machine-denied");
    fs::rename(rig.path("cluster/away"), rig.path("cluster/denied")).unwrap();
    assert!(rig.directory.allow(&node.ek()).unwrap());
    service.next_line(&["Configuration reloaded", "denials"]);
    service.rejoin(&node, DISK).unwrap();
    let node = node.locked(&rig);
    rig.directory.deny(&node.ek(), "").unwrap();
    service.next_line(&["Configuration reloaded", "denials"]);
    assert_eq!(service.report(&node, DISK, "").unwrap_err().code(), "machine-denied");
}

/// The emergency path: an earlier typo must not keep a stolen machine in the cluster.
#[test]
fn a_denial_counts_while_every_other_file_is_broken() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    for file in ["policy.json", "enrolment.json", "reference.json", "cluster.json"] {
        fs::write(rig.path("cluster").join(file), "{").unwrap();
    }
    for part in ["attestation", "enrolment", "cluster"] {
        service.next_line(&["Configuration cannot be used", part]);
    }
    service.rejoin(&node, DISK).unwrap();
    // By hand, with a typo beside it.
    fs::write(rig.path("cluster/denied").join("deadbeef"), "").unwrap();
    fs::write(rig.path("cluster/denied").join(node.ek().to_string().to_uppercase()), "").unwrap();
    service.next_line(&["Machines are shut out", &node.ek().to_string()]);
    service.next_line(&["Configuration reloaded", "denials"]);
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "machine-denied");
    assert!(service.page("/healthz").1.contains("deadbeef is no EK digest and denies nothing"));
}

//! TPMs that the operator shut out.

use crate::service::rig::{Machine, Rig, reference};
use latchkey_attestation::EkDigest;
use latchkey_test_support::until;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

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
    // The line that it was read again may be of the directory that came back.
    until("it to be let in again", || (service.metric("denied") == 0).then_some(()));
    service.rejoin(&node, DISK).unwrap();
    let node = node.locked(&rig);
    rig.directory.deny(&node.ek(), "").unwrap();
    until("it to be shut out again", || (service.metric("denied") == 1).then_some(()));
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

/// Somebody removed one by mistake, or restored only a part: nobody knows whose it was.
#[test]
fn a_denial_that_is_lost_stops_all_keys_and_tickets_until_it_is_back() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let [stolen, last] = ["0a", "0b"].map(|byte| EkDigest::from_hex(&byte.repeat(32)).unwrap());
    rig.directory.deny(&stolen, "stolen").unwrap();
    rig.directory.deny(&last, "").unwrap();
    until("both to be heard of", || (service.metric("denied") == 2).then_some(()));
    let (place, away) = (rig.path("cluster/denied").join(stolen.to_string()), rig.path("cluster/away"));
    let gone = Instant::now();
    fs::rename(&place, &away).unwrap();
    service.next_line(&["Denials are counted that are not there"]);
    // It could be one that is being written.
    let refused = until("it to be lost", || service.rejoin(&node, DISK).err());
    assert!(gone.elapsed() >= Duration::from_secs(10), "{:?}", gone.elapsed());
    assert_eq!(refused.code(), "denials-lost");
    assert_eq!(service.join(&other, OTHER, "worker-2").unwrap_err().code(), "denials-lost");
    let (status, page) = service.page("/healthz");
    assert!(status.contains("503") && page.contains("denials-lost"), "{status} {page}");
    // One that starts does not know for how long, and does not begin to count.
    service.stop();
    let mut service = rig.start();
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "denials-lost");
    fs::rename(&away, &place).unwrap();
    service.next_line(&["Configuration reloaded", "denials"]);
    service.rejoin(&node, DISK).unwrap();
    service.join(&other, OTHER, "worker-2").unwrap();
    assert!(service.page("/healthz").0.contains("200"));
}

/// The command that denied it was killed between the two.
#[test]
fn a_denial_that_was_counted_and_not_listed_is_in_force() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let path = rig.path("cluster/cluster.json");
    let mut cluster: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    cluster["denials"] = json!({ "count": 1, "last": node.ek().to_string() });
    fs::write(&path, cluster.to_string()).unwrap();
    service.next_line(&["Machines are shut out", &node.ek().to_string()]);
    service.next_line(&["Configuration reloaded", "denials"]);
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "machine-denied");
    assert!(!rig.path("cluster/denied").join(node.ek().to_string()).exists());
    // The next start writes it.
    service.stop();
    let service = rig.start();
    assert!(rig.path("cluster/denied").join(node.ek().to_string()).exists());
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "machine-denied");
    assert!(service.page("/healthz").0.contains("200"));
}

#[test]
fn a_service_whose_cluster_lost_a_place_does_not_start_and_says_how_to_go_on() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    for place in ["denied", "nodes"] {
        let path = rig.path("cluster").join(place);
        fs::rename(&path, rig.path("away")).unwrap();
        let ended = rig.check();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let command = format!("latchkey upgrade store --cluster {}", rig.path("cluster").display());
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains("cluster-place-missing") && said.contains(&command), "{said}");
        assert!(!path.exists(), "{place} was made anew");
        fs::rename(rig.path("away"), &path).unwrap();
    }
    assert!(rig.check().status.success());
}

/// It goes on as it did, and says what it lacks.
#[test]
fn a_service_of_a_cluster_that_counts_no_denials_yet_goes_on_and_says_so() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let path = rig.path("cluster/cluster.json");
    let mut cluster: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    cluster["version"] = json!(1);
    cluster.as_object_mut().unwrap().remove("denials");
    fs::write(&path, cluster.to_string()).unwrap();
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let (status, page) = service.page("/healthz");
    assert!(status.contains("200") && page.contains("denial-count-missing"), "{status} {page}");
    rig.directory.deny(&node.ek(), "").unwrap();
    service.next_line(&["Configuration reloaded", "denials"]);
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "machine-denied");
    assert!(rig.directory.count_anew(1).unwrap());
    service.next_line(&["Configuration reloaded", "cluster"]);
    assert!(!service.page("/healthz").1.contains("denial-count-missing"));
}

/// A command that put a manifest in force was stopped before its end, say.
#[test]
fn a_program_that_holds_the_directory_keeps_no_denial_from_being_heard() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let held = rig.directory.writer().unwrap();
    // By hand: it has to be remembered before it is in force, and that waits for the other.
    let next = reference("2.0.0", [0x0c; 32]).to_json();
    fs::write(rig.path("cluster/reference.json"), next).unwrap();
    service.next_line(&["Configuration cannot be used", "attestation", "stopped"]);
    rig.directory.deny(&node.ek(), "stolen").unwrap();
    service.next_line(&["Machines are shut out", &node.ek().to_string()]);
    until("it to be in force", || (service.metric("denied") == 1).then_some(()));
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "machine-denied");
    drop(held);
}

/// A machine that is denied meanwhile would not be heard of.
#[test]
fn while_the_denials_cannot_be_read_for_long_nobody_gets_a_key() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    fs::rename(rig.path("cluster/denied"), rig.path("cluster/away")).unwrap();
    service.next_line(&["Configuration cannot be used", "denials"]);
    service.rejoin(&node, DISK).unwrap();
    let (status, page) = until("them to be too old", || {
        Some(service.page("/healthz")).filter(|(_, page)| page.contains("cluster-unheard"))
    });
    assert!(status.contains("503") && page.contains("directory"), "{status} {page}");
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "cluster-unheard");
    fs::rename(rig.path("cluster/away"), rig.path("cluster/denied")).unwrap();
    until("them to be read again", || (!service.page("/healthz").1.contains("cluster-unheard")).then_some(()));
    service.rejoin(&node, DISK).unwrap();
}

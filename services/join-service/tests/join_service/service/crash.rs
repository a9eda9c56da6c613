//! Power cuts between the writes of a record, and records that are damaged.

use crate::service::rig::{Machine, Rig, first_node};
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
    // As this program leaves it, and as the one before did.
    let half = [".new-1-EK.json", ".EK.json.new"].map(|name| name.replace("EK", &node.ek().to_string()));
    let half = half.map(|name| rig.path(&format!("cluster/nodes/{name}")));
    for path in &half {
        fs::write(path, "{\"version\": 1, \"ek_sha").unwrap();
    }
    let service = rig.start();
    assert_eq!(service.rejoin(&node, DISK).unwrap().epoch, 1);
    assert!(!half.iter().any(|path| path.exists()), "left over for ever");
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

/// Whose machine, name and disk is it about? That much is still in it, and nobody gets any of these until somebody mends it.
/// All others do.
#[test]
fn a_damaged_record_costs_what_it_names_and_nobody_else() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    service.stop();
    let name = format!("{}.json", node.ek());
    let damaged = rig.path(&format!("cluster/nodes/{name}"));
    let good = fs::read(&damaged).unwrap();
    fs::write(&damaged, &good[..good.len() - 40]).unwrap();
    let mut service = rig.start();
    service.next_line(&["cannot be used", &name]);
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "records-damaged");
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "records-damaged");
    assert_eq!(service.join(&other, DISK, "worker-2").unwrap_err().code(), "records-damaged");
    assert_eq!(service.join(&other, OTHER, "worker-1").unwrap_err().code(), "records-damaged");
    service.join(&other, OTHER, "worker-2").unwrap();
    let (status, body) = service.page("/healthz");
    assert!(status.contains("200") && body.contains("records-damaged") && body.contains(&name), "{status} {body}");
    assert_eq!(service.metric(&format!("record_damaged{{file=\"{name}\"}}")), 1);
    service.stop();
    fs::write(&damaged, good).unwrap();
    let service = rig.start();
    service.rejoin(&node, DISK).unwrap();
    assert_eq!(service.metric("records_damaged"), 0);
}

/// A copy, an editor's leftovers, a file from elsewhere: one such stopped all joins.
#[test]
fn a_stray_file_among_the_records_stops_no_join_and_each_is_named() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let nodes = rig.path("cluster/nodes");
    fs::copy(nodes.join(format!("{}.json", node.ek())), nodes.join("copy.json")).unwrap();
    fs::write(nodes.join("notes.json"), "to do").unwrap();
    fs::create_dir(nodes.join("directory.json")).unwrap();
    let strays = ["copy.json", "directory.json", "notes.json"];
    service.stop();
    service = rig.start();
    for stray in strays {
        service.next_line(&["cannot be used", stray]);
    }
    service.join(&other, OTHER, "worker-2").unwrap();
    // The copy names a machine whose own record is good.
    service.rejoin(&node, DISK).unwrap();
    service.join(&node, "0a0a0a0a-0000-4000-8000-000000000002", "worker-1").unwrap();
    let body = service.page("/healthz").1;
    for stray in strays {
        assert!(body.contains(stray), "{stray}: {body}");
        assert_eq!(service.metric(&format!("record_damaged{{file=\"{stray}\"}}")), 1);
    }
}

/// What the service knew of a record before it was lost stays blocked, although the file names nothing any more.
#[test]
fn a_record_that_becomes_empty_while_the_service_runs_still_costs_what_it_named() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    fs::write(rig.path(&format!("cluster/nodes/{}.json", node.ek())), "").unwrap();
    service.next_line(&["cannot be used", &node.ek().to_string()]);
    assert_eq!(service.join(&other, DISK, "worker-2").unwrap_err().code(), "records-damaged");
    assert_eq!(service.join(&other, OTHER, "worker-1").unwrap_err().code(), "records-damaged");
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "records-damaged");
    service.join(&other, OTHER, "worker-2").unwrap();
}

#[test]
fn what_two_records_claim_nobody_gets() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let mut copy = first_node();
    copy.ek_sha256 = node.ek();
    rig.directory.writer().unwrap().put(&copy).unwrap();
    let service = rig.start();
    let shared = copy.disks[0].uuid.to_string();
    assert_eq!(service.join(&node, DISK, "first").unwrap_err().code(), "records-damaged", "the name");
    assert_eq!(service.rejoin(&node, &shared).unwrap_err().code(), "records-damaged", "the disk");
    assert_eq!(service.metric("records_damaged"), 2);
    service.join(&other, OTHER, "worker-2").unwrap();
}

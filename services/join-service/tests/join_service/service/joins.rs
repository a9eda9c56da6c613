//! The ways of a node that does everything right.

use crate::service::rig::{AGENT, Machine, Rig};
use latchkey_api::v1::Role as ApiRole;
use latchkey_cluster_store::{DiskState, Enrolment, NodeStatus, Outcome, RoleRule};
use latchkey_test_support::until;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const NEXT: &str = "0a0a0a0a-0000-4000-8000-000000000002";

#[test]
fn a_node_joins_reports_reboots_and_rejoins() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();

    let mut ticket = service.join(&node, DISK, "worker-1.plant.example").unwrap();
    assert_eq!(
        (ticket.node_name.as_str(), ticket.role(), ticket.epoch),
        ("worker-1.plant.example", ApiRole::Worker, 1)
    );
    assert_eq!(ticket.take_state_disk_key().to_vec(), rig.key_of(DISK));
    let secret = rig.master.measurement_secret(rig.master.current()).unwrap();
    assert_eq!(ticket.take_measurement_secret().as_slice(), secret.expose());
    assert_eq!(ticket.measurement_salt, rig.cluster.measurement_salt);
    let line = service.next_line(&["audit", "outcome=\"granted\""]);
    for part in
        ["method=\"join\"", DISK, &node.ek().to_string(), "image", "1.0.0", "worker-1.plant.example", "audit_id"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(rig.record(&node).unwrap().disks[0].state, DiskState::Pending);

    let locked = node.locked(&rig);
    service.report(&locked, DISK, "").unwrap();
    let record = rig.record(&locked).unwrap();
    assert_eq!(record.disks[0].state, DiskState::Confirmed);
    assert_eq!(record.reported.unwrap().outcome, Outcome::Succeeded);

    let rebooted = locked.rebooted(crate::service::rig::IMAGE);
    let mut ticket = service.rejoin(&rebooted, DISK).unwrap();
    assert_eq!(ticket.take_state_disk_key().to_vec(), rig.key_of(DISK));
    assert_eq!(ticket.epoch, 1);
    let (status, log) = service.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    for key in [rig.key_of(DISK), secret.expose().to_vec()] {
        assert!(!log.contains(&crate::service::rig::hex(&key)), "a key is in the log");
    }
}

#[test]
fn a_record_outlives_the_service() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    service.stop();
    let service = rig.start();
    assert_eq!(service.rejoin(&node, DISK).unwrap().epoch, 1);
    assert_eq!(service.join(&node, DISK, "other-name").unwrap().node_name, "worker-1", "recorded with the first join");
}

/// A late join request of an earlier boot must not lock out the disk in use.
#[test]
fn every_disk_that_was_issued_stays_until_a_report_confirms_one() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap().epoch, 1);
    assert_eq!(service.join(&node, NEXT, "worker-1").unwrap().epoch, 2);
    assert_eq!(service.rejoin(&node, DISK).unwrap().epoch, 1);
    assert_eq!(service.rejoin(&node, NEXT).unwrap().epoch, 2);
    let node = node.locked(&rig);
    service.report(&node, NEXT, "").unwrap();
    let node = node.rebooted(crate::service::rig::IMAGE);
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "disk-retired");
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "disk-retired");
    assert_eq!(service.rejoin(&node, NEXT).unwrap().epoch, 2);
}

#[test]
fn nodes_that_came_before_the_cluster_get_in_once_it_is_initialised() {
    let node = Machine::new();
    let rig = Rig::uninitialised(&[&node]);
    let mut service = rig.start();
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "cluster-not-initialised");
    assert_eq!(service.page("/healthz").1, "ok\nthe cluster is not initialised yet\n");
    rig.initialise();
    service.next_line(&["Configuration reloaded", "cluster"]);
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap().epoch, 1);
    assert_eq!(service.join(&node, DISK, "first").unwrap().node_name, "worker-1");
    assert_eq!(service.page("/healthz"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
}

#[test]
fn the_payload_goes_to_those_who_join() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let payload = rig.path("cluster/payload");
    std::fs::write(&payload, b"join-token").unwrap();
    std::fs::set_permissions(&payload, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = rig.check();
    assert!(!refused.status.success(), "others can read the token");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("chmod"), "{refused:?}");
    std::fs::set_permissions(&payload, std::fs::Permissions::from_mode(0o600)).unwrap();
    let service = rig.start();
    let mut ticket = service.join(&node, DISK, "worker-1").unwrap();
    assert_eq!(ticket.cluster.take().unwrap().take_payload().as_slice(), b"join-token");
}

#[test]
fn many_nodes_join_at_once_and_each_is_recorded_once() {
    let nodes: Vec<Machine> = (0..24).map(|_| Machine::new()).collect();
    let mut rig = Rig::new(&nodes.iter().collect::<Vec<_>>());
    // All come from one address, and the service may learn late that one is gone.
    rig.config["limits"] = json!({ "connections_per_address": 64, "handshake_seconds": 300 });
    let service = rig.start();
    std::thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            let service = *service;
            scope.spawn(move || {
                // Two of them ask for each name: one gets it.
                let disk = format!("0a0a0a0a-0000-4000-8000-{number:012}");
                let shared = service.join(node, &disk, &format!("worker-{}", number / 2));
                if let Err(answer) = shared {
                    assert_eq!(answer.code(), "name-taken");
                    service.join(node, &disk, &format!("other-{number}")).unwrap();
                }
            });
        }
    });
    let records: Vec<_> = rig.directory.records().unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(records.len(), nodes.len() + 1);
    let others = records.iter().filter(|record| record.name.as_str().starts_with("other-")).count();
    assert_eq!(others, nodes.len() / 2);
}

#[test]
fn a_machine_that_no_rule_names_is_held_until_the_operator_admits_it() {
    let machine = Machine::new();
    let rig = Rig::new(&[&machine]);
    rig.directory.write_enrolment(&Enrolment::hold_all()).unwrap();
    let mut service = rig.start();
    for _ in 0..2 {
        assert_eq!(service.join(&machine, DISK, "worker-1").unwrap_err().code(), "enrolment-held");
    }
    assert_eq!(rig.record(&machine), None, "no record, and so no key");
    let pending = rig.directory.pending().unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].ek_sha256, pending[0].asks_for_name.as_str()), (machine.ek(), "worker-1"));
    assert_eq!(service.metric("held"), 1);
    // What `latchkey node admit` writes.
    let mut rules = Enrolment::hold_all();
    rules.admit(machine.ek(), RoleRule::Worker, None);
    rig.directory.write_enrolment(&rules).unwrap();
    service.next_line(&["Configuration reloaded", "enrolment"]);
    let ticket = service.join(&machine, DISK, "worker-1").unwrap();
    assert_eq!(ticket.state_disk_key, rig.key_of(DISK));
    rig.directory.writer().unwrap().forget_pending(&machine.ek()).unwrap();
    until("nobody to be held", || (service.metric("held") == 0).then_some(()));
}

/// What `latchkey node list` shows of a machine: beside its record, which a rejoin does not write.
#[test]
fn what_a_machine_proved_last_stands_beside_its_record_with_its_agent() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let seen = until("what it proved", || rig.directory.status_of(&node.ek()));
    assert_eq!((seen.image.as_str(), seen.version.as_str(), seen.epoch), ("image", "1.0.0", Some(1)));
    assert_eq!(seen.agent_version.as_deref(), Some(AGENT));
    assert_eq!(seen.last_report, None);
    let node = node.locked(&rig);
    service.report(&node, DISK, "").unwrap();
    let reported = || rig.directory.status_of(&node.ek()).filter(|seen| seen.last_report.is_some());
    let reported = until("its report", reported);
    assert_eq!((reported.epoch, reported.agent_version.as_deref()), (Some(1), Some(AGENT)));
    // The machine was off for two hours, by its status.
    let record = rig.record(&node);
    let off = NodeStatus { last_attestation: reported.last_attestation - 7200, ..reported.clone() };
    let status = rig.path("cluster/status").join(format!("{}.json", node.ek()));
    std::fs::remove_file(&status).unwrap();
    rig.directory.write_status(&node.ek(), off.clone()).unwrap();
    let node = node.rebooted(crate::service::rig::IMAGE);
    service.rejoin(&node, DISK).unwrap();
    let again = || rig.directory.status_of(&node.ek()).filter(|seen| seen.last_attestation > off.last_attestation);
    let again = until("its rejoin", again);
    assert!(again.last_attestation >= reported.last_attestation, "{again:?}");
    assert_eq!(rig.record(&node), record);
    let removed = rig.directory.writer().unwrap().remove(&node.ek()).unwrap();
    assert!(removed && rig.directory.status_of(&node.ek()).is_none());
}

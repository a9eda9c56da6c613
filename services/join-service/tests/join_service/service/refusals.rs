//! Machines that are not what they must be, and machines that ask for more than their due.

use crate::service::rig::{Answer, IMAGE, Machine, Rig, TIME, join_request};
use latchkey_api::grpc::Code;
use latchkey_api::v1::{RejoinRequest, ReportRequest, Role as ApiRole};
use latchkey_channel::{ChannelError, PeerReason, Purpose};
use latchkey_cluster_store::{Enrolment, NewDisk, PinnedRule, Role as NodeRole, RoleRule};

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const OTHER: &str = "0b0b0b0b-0000-4000-8000-000000000001";
const FIRST: &str = "f1f1f1f1-0000-4000-8000-000000000001";

/// Full in the log, coarse to the peer.
#[test]
fn an_impostor_is_refused_and_told_no_more_than_the_kind_of_reason() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    let impostor = node.rebooted([0xee; 32]);
    let answer = service.join(&impostor, DISK, "worker-1").unwrap_err();
    let Answer::Refused(ChannelError::PeerRefused(told)) = answer else { panic!("{answer:?}") };
    assert_eq!(told, PeerReason::MeasurementsRefused);
    let line = service.next_line(&["audit", "image-differs"]);
    for part in [
        "purpose=\"join\"",
        "event=\"no event tells: the machine sent no event log\"",
        &impostor.ek().to_string(),
        &"ee".repeat(32),
        "outcome=\"refused\"",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(service.metric("refusals_total{code=\"image-differs\"}"), 1);
    assert!(rig.record(&impostor).is_none());
}

#[test]
fn a_tpm_that_nobody_trusts_is_refused() {
    let (node, stranger) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    let answer = service.join(&stranger, DISK, "worker-1").unwrap_err();
    assert!(matches!(answer, Answer::Refused(ChannelError::PeerRefused(PeerReason::TpmNotTrusted))), "{answer:?}");
    service.next_line(&["audit", "ek-not-pinned"]);
}

/// After the lock no code of this boot, the OS included, can get a key.
#[test]
fn a_locked_machine_gets_no_key() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let locked = node.locked(&rig);
    for answer in [service.join(&locked, DISK, "worker-1").map(drop), service.rejoin(&locked, DISK).map(drop)] {
        let answer = answer.unwrap_err();
        assert!(matches!(answer, Answer::Refused(ChannelError::PeerRefused(PeerReason::LockRefused))), "{answer:?}");
        service.next_line(&["audit", "already-locked"]);
    }
}

#[test]
fn a_machine_that_is_not_locked_to_this_cluster_cannot_report() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let answer = service.report(&node, DISK, "").unwrap_err();
    assert!(matches!(answer, Answer::Refused(ChannelError::PeerRefused(PeerReason::LockRefused))), "{answer:?}");
    service.next_line(&["audit", "not-locked"]);
}

/// CVE-2025-13609: a second TPM registers an existing node's id.
#[test]
fn a_second_tpm_with_a_known_nodes_name_or_disk_is_refused_and_the_record_unchanged() {
    let (node, thief) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &thief]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let before = rig.record(&node).unwrap();
    for (disk, name, code) in [
        (OTHER, "worker-1", "name-taken"),
        (DISK, "worker-2", "disk-of-another-node"),
        (FIRST, "worker-2", "disk-of-another-node"),
        (OTHER, "first", "name-taken"),
    ] {
        assert_eq!(service.join(&thief, disk, name).unwrap_err().code(), code);
        service.next_line(&["audit", "outcome=\"refused\"", code, &thief.ek().to_string()]);
    }
    assert_eq!(service.rejoin(&thief, DISK).unwrap_err().code(), "node-unknown");
    service.join(&thief, OTHER, "worker-2").unwrap();
    assert_eq!(service.rejoin(&thief, DISK).unwrap_err().code(), "disk-unknown");
    assert_eq!(rig.record(&node).unwrap(), before);
    assert_eq!(rig.record(&thief).unwrap().disks.len(), 1);
}

#[test]
fn a_worker_that_asks_for_the_control_plane_is_refused_and_leaves_no_trace() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    let answer = service.join_as(&node, DISK, "worker-1", ApiRole::ControlPlane).unwrap_err();
    assert_eq!(answer.code(), "role-denied");
    assert!(rig.record(&node).is_none());
    assert_eq!(service.metric("control_plane_lease"), 0);
}

#[test]
fn a_connection_is_good_for_its_role_only() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    let join = join_request(DISK, "worker-1", ApiRole::Worker);
    let report = ReportRequest { disk_uuid: DISK.into(), succeeded: true, ..ReportRequest::default() };
    let rejoin = RejoinRequest { disk_uuid: DISK.into(), ..RejoinRequest::default() };
    let wrong = |answer: Result<(), Answer>| assert_eq!(answer.unwrap_err().code(), "wrong-channel-purpose");
    wrong(service.call(&node, Purpose::Rejoin, async |client| client.issue_join_ticket(&join, TIME).await.map(drop)));
    wrong(service.call(&node, Purpose::Join, async |client| client.report(&report, TIME).await.map(drop)));
    service.call(&node, Purpose::Join, async |client| client.issue_join_ticket(&join, TIME).await.map(drop)).unwrap();
    service
        .call(&node, Purpose::Join, async |client| client.issue_rejoin_ticket(&rejoin, TIME).await.map(drop))
        .unwrap();
    let locked = node.locked(&rig);
    wrong(service.call(&locked, Purpose::Report, async |client| client.issue_join_ticket(&join, TIME).await.map(drop)));
    wrong(
        service
            .call(&locked, Purpose::Report, async |client| client.issue_rejoin_ticket(&rejoin, TIME).await.map(drop)),
    );
}

#[test]
fn roles_of_other_services_are_not_served() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    for role in [Purpose::Init, Purpose::Attach, Purpose::Recover, Purpose::Verify, Purpose::Enrol] {
        let answer = service.call(&node, role, async |_| Ok(())).unwrap_err();
        assert!(matches!(answer, Answer::Refused(_)), "{role}: {answer:?}");
    }
}

#[test]
fn absurd_requests_are_invalid_and_change_nothing() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    let nil = "00000000-0000-0000-0000-000000000000";
    for (disk, name, code) in [
        ("", "worker-1", "disk-uuid-invalid"),
        (nil, "worker-1", "disk-uuid-invalid"),
        ("measurement-secret", "worker-1", "disk-uuid-invalid"),
        ("../../etc/passwd", "worker-1", "disk-uuid-invalid"),
        (DISK, "", "node-name-invalid"),
        (DISK, "Worker_1", "node-name-invalid"),
        (DISK, "../x", "node-name-invalid"),
    ] {
        assert_eq!(service.join(&node, disk, name).unwrap_err().code(), code, "{disk:?} {name:?}");
    }
    let huge = "a".repeat(1024 * 1024);
    let Answer::Status(status) = service.join(&node, &huge, "worker-1").unwrap_err() else { panic!("no status") };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(rig.record(&node).is_none());
    service.join(&node, &DISK.to_uppercase(), "worker-1").unwrap();
    assert_eq!(service.rejoin(&node, DISK).unwrap().epoch, 1, "a UUID is the same in either case");
}

#[test]
fn an_unknown_disk_of_a_known_node_is_refused() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    assert_eq!(service.rejoin(&node, OTHER).unwrap_err().code(), "disk-unknown");
    let locked = node.locked(&rig);
    assert_eq!(service.report(&locked, OTHER, "").unwrap_err().code(), "disk-unknown");
}

#[test]
fn disks_of_unfinished_joins_are_bounded() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    let disk = |number: usize| format!("0a0a0a0a-0000-4000-8000-{number:012}");
    for number in 1..=8 {
        assert_eq!(service.join(&node, &disk(number), "worker-1").unwrap().epoch, number as u64);
    }
    assert_eq!(service.join(&node, &disk(9), "worker-1").unwrap_err().code(), "too-many-disks");
    assert_eq!(service.join(&node, &disk(8), "worker-1").unwrap().epoch, 8, "those on record stay usable");
    let node = node.locked(&rig);
    service.report(&node, &disk(8), "").unwrap();
    let node = node.rebooted(IMAGE);
    assert_eq!(service.join(&node, &disk(9), "worker-1").unwrap().epoch, 9);
}

#[test]
fn rules_of_the_operator_count_more_than_wishes_and_records() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let mut rules = Enrolment::workers_and([node.ek()]);
    rules.pinned[0].name = Some("cp-1".parse().unwrap());
    rules.pinned.push(PinnedRule { ek_sha256: other.ek(), role: RoleRule::Refuse, name: None });
    rules.default.on_new_disk = NewDisk::Refuse;
    rig.directory.write_enrolment(&rules).unwrap();
    let service = rig.start();
    let ticket = service.join_as(&node, DISK, "worker-1", ApiRole::Worker).unwrap();
    assert_eq!((ticket.node_name.as_str(), ticket.role()), ("cp-1", ApiRole::ControlPlane));
    assert_eq!(service.join(&node, OTHER, "cp-1").unwrap_err().code(), "new-disk-refused");
    assert_eq!(service.join(&other, OTHER, "worker-1").unwrap_err().code(), "enrolment-refused");
    assert_eq!(rig.record(&node).unwrap().role, NodeRole::ControlPlane);
}

/// Constellation took it as the last step: every refused attempt had a token and a certificate by then.
#[test]
fn one_control_plane_joins_at_a_time() {
    let (first, second) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&first, &second]);
    rig.directory.write_enrolment(&Enrolment::workers_and([first.ek(), second.ek()])).unwrap();
    let service = rig.start();
    service.join(&first, DISK, "cp-1").unwrap();
    assert_eq!(service.metric("control_plane_lease"), 1);
    let Answer::Status(status) = service.join(&second, OTHER, "cp-2").unwrap_err() else { panic!("no status") };
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("control-plane-lease-held"), "{status}");
    assert!(rig.record(&second).is_none(), "nothing was issued");
    service.join(&first, DISK, "cp-1").unwrap();

    // Not even a restart of the service lets the second one in between.
    service.stop();
    let service = rig.start();
    assert_eq!(service.join(&second, OTHER, "cp-2").unwrap_err().code(), "control-plane-lease-held");

    // A failure that is told frees the lease at once.
    let first = first.locked(&rig);
    service.report(&first, DISK, "kubeadm-failed").unwrap();
    service.join(&second, OTHER, "cp-2").unwrap();
}

/// Two services on one directory: what one decided holds for the other.
#[test]
fn a_second_service_on_the_same_directory_neither_doubles_names_nor_the_lease() {
    let (first, second) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&first, &second]);
    rig.directory.write_enrolment(&Enrolment::workers_and([first.ek(), second.ek()])).unwrap();
    let (here, there) = (rig.start(), rig.start());
    here.join(&first, DISK, "cp-1").unwrap();
    assert_eq!(there.join(&second, OTHER, "cp-1").unwrap_err().code(), "name-taken");
    assert_eq!(there.join(&second, OTHER, "cp-2").unwrap_err().code(), "control-plane-lease-held");
    assert_eq!(there.rejoin(&first, DISK).unwrap().epoch, 1);
    let first = first.locked(&rig);
    there.report(&first, DISK, "").unwrap();
    // The first service finds out that the lease is free when it is asked.
    here.join(&second, OTHER, "cp-2").unwrap();
}

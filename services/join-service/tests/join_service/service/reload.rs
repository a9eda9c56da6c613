//! The directory changes while the service runs.

use crate::service::rig::{IMAGE, Machine, Rig, Service, TIME, first_node, join_request, manifest, policy, reference};
use latchkey_api::v1::{RejoinRequest, ReportRequest, Role};
use latchkey_channel::Purpose;
use latchkey_cluster_store::{Enrolment, RoleRule};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const NEW_IMAGE: [u8; 32] = [0x0c; 32];

fn reloaded(service: &mut Service, part: &str) {
    service.next_line(&["Configuration reloaded", part]);
}

#[test]
fn new_reference_values_count_from_the_next_handshake_on() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    rig.directory.write_reference(&reference("2.0.0", NEW_IMAGE)).unwrap();
    reloaded(&mut service, "attestation");
    service.rejoin(&node, DISK).unwrap_err();
    let node = node.rebooted(NEW_IMAGE);
    service.rejoin(&node, DISK).unwrap();
    service.next_line(&["audit", "granted", "2.0.0"]);
}

/// During an upgrade old nodes must still be able to reboot.
#[test]
fn several_manifests_are_accepted_at_a_time() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    let mut both = policy(&json!([{ "kind": "pinned-ek", "ek_sha256": [node.ek()] }]));
    both["references"] = json!([
        { "manifest": "test", "minimum_version": "1.0.0", "unsigned": "trust-local-file" },
        { "manifest": "next", "minimum_version": "2.0.0", "unsigned": "trust-local-file" },
    ]);
    let next = manifest("next", 1, "2.0.0", NEW_IMAGE).to_json();
    fs::create_dir(rig.path("cluster/references")).unwrap();
    fs::write(rig.path("cluster/references/next.json"), next).unwrap();
    rig.directory.write_policy(&both.to_string()).unwrap();
    reloaded(&mut service, "attestation");
    service.join(&node, DISK, "worker-1").unwrap();
    let node = node.rebooted(NEW_IMAGE);
    service.rejoin(&node, DISK).unwrap();
}

/// Constellation logs it; nobody reads that until a node is refused.
#[test]
fn a_bad_file_keeps_the_old_one_and_says_so_everywhere() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    let good = fs::read(rig.path("cluster/policy.json")).unwrap();
    for bad in [&b"{"[..], b"", br#"{"version": 3, "ak_trust": []}"#, br#"{"version": 4}"#] {
        fs::write(rig.path("cluster/policy.json.new"), bad).unwrap();
        fs::rename(rig.path("cluster/policy.json.new"), rig.path("cluster/policy.json")).unwrap();
        service.next_line(&["Configuration cannot be used", "policy.json"]);
        service.join(&node, DISK, "worker-1").unwrap();
        assert_eq!(service.metric("config_stale{part=\"attestation\"}"), 1);
        let (status, health) = service.page("/healthz");
        assert!(status.contains("200") && health.contains("attestation is stale: ") && health.contains("policy.json"));
    }
    fs::remove_file(rig.path("cluster/policy.json")).unwrap();
    service.next_line(&["Configuration cannot be used", "policy.json"]);
    service.join(&node, DISK, "worker-1").unwrap();
    fs::write(rig.path("cluster/policy.json.new"), good).unwrap();
    fs::rename(rig.path("cluster/policy.json.new"), rig.path("cluster/policy.json")).unwrap();
    reloaded(&mut service, "attestation");
    assert_eq!(service.metric("config_stale{part=\"attestation\"}"), 0);
    assert_eq!(service.page("/healthz").1, "ok\n");
}

/// How Kubernetes updates a mounted `ConfigMap`: Constellation's watcher, which watches the file, ends at this.
#[test]
fn a_swap_of_the_directory_behind_a_link_is_a_reload() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let cluster = rig.path("cluster");
    let versions = rig.path("mounted");
    let version = |name: &str, rules: &Enrolment| {
        fs::create_dir_all(versions.join(name)).unwrap();
        fs::write(versions.join(name).join("enrolment.json"), serde_json::to_vec(rules).unwrap()).unwrap();
    };
    let swap = |name: &str| {
        symlink(name, versions.join("..data_tmp")).unwrap();
        fs::rename(versions.join("..data_tmp"), versions.join("..data")).unwrap();
    };
    let open = Enrolment::workers_and([]);
    let mut closed = open.clone();
    closed.default.role = RoleRule::Refuse;
    version("..v1", &closed);
    swap("..v1");
    symlink("..data/enrolment.json", versions.join("enrolment.json")).unwrap();
    fs::remove_file(cluster.join("enrolment.json")).unwrap();
    symlink(versions.join("enrolment.json"), cluster.join("enrolment.json")).unwrap();

    let mut service = rig.start();
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "enrolment-refused");
    version("..v2", &open);
    swap("..v2");
    fs::remove_dir_all(versions.join("..v1")).unwrap();
    reloaded(&mut service, "enrolment");
    service.join(&node, DISK, "worker-1").unwrap();
    // And once more, through links that did not exist when the service began to watch.
    version("..v3", &closed);
    swap("..v3");
    reloaded(&mut service, "enrolment");
    service.rejoin(&node, DISK).unwrap();
}

#[test]
fn a_touched_file_with_the_same_content_is_no_reload() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    // Replaced as a whole, as it should be: one that is written over is empty for a moment, and may be seen so.
    fs::copy(rig.path("cluster/enrolment.json"), rig.path("cluster/enrolment.json.new")).unwrap();
    fs::rename(rig.path("cluster/enrolment.json.new"), rig.path("cluster/enrolment.json")).unwrap();
    rig.directory.write_reference(&reference("1.0.1", IMAGE)).unwrap();
    reloaded(&mut service, "attestation");
    assert_eq!(service.metric("config_reloads_total"), 1);
}

/// A node that the command line enters while the service runs counts at once.
#[test]
fn what_another_program_writes_is_seen_before_anything_is_decided_against_it() {
    let (node, thief) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &thief]);
    let service = rig.start();
    let mut record = first_node();
    record.ek_sha256 = node.ek();
    record.name = "worker-1".parse().unwrap();
    record.disks[0].uuid = DISK.parse().unwrap();
    assert_eq!(service.rejoin(&node, DISK).unwrap_err().code(), "node-unknown");
    rig.directory.writer().unwrap().put(&record).unwrap();
    assert_eq!(service.rejoin(&node, DISK).unwrap().epoch, 1);
    let mut renamed = record.clone();
    renamed.name = "worker-7".parse().unwrap();
    rig.directory.writer().unwrap().put(&renamed).unwrap();
    assert_eq!(
        service.join(&thief, "0b0b0b0b-0000-4000-8000-000000000001", "worker-7").unwrap_err().code(),
        "name-taken"
    );
    rig.directory.writer().unwrap().put(&record).unwrap();
    let other = "0b0b0b0b-0000-4000-8000-000000000001";
    assert_eq!(service.join(&thief, other, "worker-1").unwrap_err().code(), "name-taken");
    assert_eq!(service.join(&thief, DISK, "worker-2").unwrap_err().code(), "disk-of-another-node");
    assert_eq!(service.rejoin(&node, DISK).unwrap().epoch, 1);
}

#[test]
fn a_record_that_the_operator_removes_is_forgotten() {
    let (old, new) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&old, &new]);
    let mut service = rig.start();
    service.join(&old, DISK, "worker-1").unwrap();
    let other = "0b0b0b0b-0000-4000-8000-000000000001";
    assert_eq!(service.join(&new, other, "worker-1").unwrap_err().code(), "name-taken");
    fs::remove_file(rig.path(&format!("cluster/nodes/{}.json", old.ek()))).unwrap();
    service.next_line(&["Records read anew", "nodes=1"]);
    service.join(&new, other, "worker-1").unwrap();
    assert_eq!(service.rejoin(&old, DISK).unwrap_err().code(), "node-unknown");
}

/// The handshake was before, and whoever goes on asking must not live by it for ever.
#[test]
fn a_channel_that_was_proven_before_an_image_was_revoked_gets_nothing_more() {
    let (joining, rejoining, reporting) = (Machine::new(), Machine::new(), Machine::new());
    let rig = Rig::new(&[&joining, &rejoining, &reporting]);
    let service = rig.start();
    let disk = |number: u8| format!("0a0a0a0a-0000-4000-8000-0000000000{number:02x}");
    for (machine, number) in [(&joining, 1), (&rejoining, 2), (&reporting, 3)] {
        service.join(machine, &disk(number), &format!("worker-{number}")).unwrap();
    }
    let reporting = reporting.locked(&rig);
    let (join, rejoin) = (
        join_request(&disk(1), "worker-1", Role::Worker),
        RejoinRequest { disk_uuid: disk(2), ..RejoinRequest::default() },
    );
    let report = ReportRequest { disk_uuid: disk(3), succeeded: true, ..ReportRequest::default() };
    let mut service = service;
    let client = *service;
    let mut runs_only = |image: u8| {
        rig.directory.write_reference(&reference(&format!("{image}.0.0"), [image; 32])).unwrap();
        reloaded(&mut service, "attestation");
    };
    let refused = [
        client.call(&joining, Purpose::Join, async |client| {
            drop(client.issue_join_ticket(&join, TIME).await?);
            runs_only(0x0c);
            client.issue_join_ticket(&join, TIME).await.map(drop)
        }),
        {
            runs_only(IMAGE[0]);
            client.call(&rejoining, Purpose::Rejoin, async |client| {
                drop(client.issue_rejoin_ticket(&rejoin, TIME).await?);
                runs_only(0x0c);
                client.issue_rejoin_ticket(&rejoin, TIME).await.map(drop)
            })
        },
        {
            runs_only(IMAGE[0]);
            client.call(&reporting, Purpose::Report, async |client| {
                client.report(&report, TIME).await?;
                runs_only(0x0c);
                client.report(&report, TIME).await.map(drop)
            })
        },
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().code(), "no-longer-admitted");
    }
}

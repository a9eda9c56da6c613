//! The files of join and key service that a control plane keeps: where, for whom, and who gets none.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::cluster_fake::{FakeKubeadm, control_plane_ticket, member, settings, ticket};
use latchkey_agent::cluster::{StepCode, Work};
use latchkey_agent::lifecycle::NodeRole;
use latchkey_api::control_plane::file;
use latchkey_api::service_files::NAMES;
use latchkey_api::v1::{ClusterJoin, ClusterSettings, ControlPlaneFile};

/// What the services inside a cluster read.
fn service_files() -> Vec<ControlPlaneFile> {
    NAMES.iter().map(|name| file(name, format!("hush {name}").into_bytes())).collect()
}

fn founding() -> Work {
    Work::Init(ClusterSettings { service_files: service_files(), ..settings() }, None)
}

fn joining(mut ticket: ClusterJoin) -> Work {
    ticket.service_files = service_files();
    Work::Join(ticket)
}

#[test]
fn a_control_plane_keeps_them_for_root_alone_before_kubeadm_runs() {
    for (role, work) in [(NodeRole::First, founding()), (NodeRole::ControlPlane, joining(control_plane_ticket()))] {
        let fake = FakeKubeadm::new();
        for verb in ["init", "join"] {
            fake.on("kubeadm", verb, 1, "test -s $here/services/master.json");
        }
        let ran = fake.run(&member(role), &work);
        ran.result.unwrap();
        let mode = |name: &str| fs::metadata(fake.path("services").join(name)).unwrap().mode() & 0o7777;
        assert_eq!(mode(""), 0o700);
        for name in NAMES {
            assert_eq!(mode(name), 0o600, "{name}");
            assert_eq!(fs::read_to_string(fake.path("services").join(name)).unwrap(), format!("hush {name}"));
        }
        assert_eq!(fs::read_dir(fake.path("services")).unwrap().count(), NAMES.len());
        let said = ran.lines.concat()
            + &["argv", "environ", "stdin", "config"].map(|kind| fake.records(kind).concat()).concat();
        assert!(!said.contains("hush"), "{said}");
    }
}

#[test]
fn no_file_is_written_where_the_directory_is_not_on_the_state_disk() {
    let fake = FakeKubeadm::new();
    fs::write(fake.path("services.elsewhere"), "").unwrap();
    let error = fake.run(&member(NodeRole::First), &founding()).result.unwrap_err();
    assert_eq!(error.code, StepCode::ServicesNotKept);
    assert!(!fake.path("services").exists() && !fake.calls().iter().any(|call| call.starts_with("kubeadm init")));
}

#[test]
fn a_worker_with_them_and_a_control_plane_with_some_are_refused() {
    let fake = FakeKubeadm::new();
    let error = fake.run(&member(NodeRole::Worker), &joining(ticket())).result.unwrap_err();
    assert_eq!(error.code, StepCode::TicketRefused);
    let mut some = control_plane_ticket();
    some.service_files = service_files();
    drop(some.service_files.pop());
    let error = fake.run(&member(NodeRole::ControlPlane), &Work::Join(some)).result.unwrap_err();
    assert_eq!(error.code, StepCode::TicketRefused);
    assert!(error.message.contains("key-client.key") && !error.message.contains("hush"), "{error}");
    assert!(!fake.path("services").exists() && fake.calls().is_empty());
}

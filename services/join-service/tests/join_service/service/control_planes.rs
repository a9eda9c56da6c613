//! What control planes share, and the tickets that must not have it, before a real API server: `./dev e2e api-server`.

use crate::service::api_server::{MAPS, moved_into};
use crate::service::certificates::report;
use crate::service::rig::{Machine, Rig, Service};
use latchkey_api::control_plane::{ControlPlaneFiles, MAX_FILE, NAMES, file};
use latchkey_api::service_files::{self, ServiceFiles};
use latchkey_api::v1::Role;
use latchkey_api_server_rig::proxy::{Fault, Proxy, status};
use latchkey_api_server_rig::{ApiServer, Client};
use latchkey_cluster_store::{Enrolment, control_plane};
use latchkey_test_support::until;
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const FILE: &str = "control-plane.json";

fn disk(number: u8) -> String {
    format!("0a0a0a0a-0000-4000-8000-0000000000{number:02x}")
}

/// The files of a cluster whose authority has this certificate, each as long as it may be but that one.
fn files(authority: &str) -> ControlPlaneFiles {
    let content = |name: &str| match name {
        "ca.crt" => authority.as_bytes().to_vec(),
        _ => vec![b'x'; MAX_FILE],
    };
    ControlPlaneFiles::new(NAMES.into_iter().map(|name| file(name, content(name))).collect()).unwrap()
}

fn write(rig: &Rig, files: &ControlPlaneFiles) {
    fs::write(rig.path(FILE), control_plane::to_json(files).as_bytes()).unwrap();
    fs::set_permissions(rig.path(FILE), fs::Permissions::from_mode(0o600)).unwrap();
}

/// A cluster in its API server, in which the first machines are control planes.
fn site(control_planes: &[&Machine], others: &[&Machine]) -> (Rig, ApiServer, Client) {
    let mut rig = Rig::new(&[control_planes, others].concat());
    let rules = Enrolment::workers_and(control_planes.iter().map(|machine| machine.ek()));
    rig.directory.write_enrolment(&rules).unwrap();
    let server = ApiServer::start();
    let admin = moved_into(&server, &mut rig);
    (rig, server, admin)
}

fn code(service: &Service, machine: &Machine, number: u8) -> String {
    service.join(machine, &disk(number), &format!("node-{number}")).unwrap_err().code().clone()
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_control_plane_s_ticket_has_what_they_share_and_nobody_else_s_has() {
    let (first, second, worker) = (Machine::new(), Machine::new(), Machine::new());
    let (mut rig, server, admin) = site(&[&first, &second], &[&worker]);
    let shared = files(server.authority());
    write(&rig, &shared);
    rig.config["control_plane_files"] = json!(FILE);
    // The services run on control planes.
    fs::create_dir(rig.path("inside")).unwrap();
    for name in service_files::NAMES {
        let path = rig.path("inside").join(name);
        fs::write(&path, format!("hush {name}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::copy(rig.path("master.json"), rig.path("inside/master.json")).unwrap();
    rig.config["service_files"] = json!("inside");
    let service = rig.start();
    let ticket = service.join(&first, &disk(1), "cp-1").unwrap();
    assert_eq!(ticket.role(), Role::ControlPlane);
    let inside = &ticket.cluster.as_ref().unwrap().service_files;
    let inside = ServiceFiles::if_any(inside).unwrap().expect("the services' files");
    assert!(inside.iter().all(|(name, data)| data == fs::read(rig.path("inside").join(name)).unwrap()));
    let sent = &ticket.cluster.as_ref().unwrap().control_plane_files;
    assert!(ControlPlaneFiles::new(sent.clone()).unwrap() == shared, "other files than the service has");
    let key = rig.master.secrets_at_rest(rig.master.current()).unwrap();
    assert_eq!(ticket.cluster.as_ref().unwrap().secrets_key.as_ref().unwrap().key, key.expose());
    // A second one at the same time, on this service or another.
    assert_eq!(code(&service, &second, 2), "control-plane-lease-held");
    assert_eq!(code(&rig.start(), &second, 2), "control-plane-lease-held");
    // A worker, whatever it asks for.
    let refused = service.join_as(&worker, &disk(3), "worker-1", Role::ControlPlane).unwrap_err();
    assert_eq!(refused.code(), "role-denied");
    let ticket = service.join(&worker, &disk(3), "worker-1").unwrap();
    let material = ticket.cluster.as_ref().unwrap();
    assert!(material.control_plane_files.is_empty() && material.secrets_key.is_none());
    assert!(material.service_files.is_empty(), "a worker has what opens every disk");
    // The holder again, and no more once it is shut out.
    assert!(!service.join(&first, &disk(1), "cp-1").unwrap().cluster.as_ref().unwrap().control_plane_files.is_empty());
    let path = format!("{MAPS}/latchkey-denied");
    let mut denied = admin.get(&path).granted();
    denied["data"] = json!({ first.ek().to_string(): "" });
    admin.put(&path, &denied).granted();
    until("the denial to count", || {
        service.join(&first, &disk(1), "cp-1").err().filter(|refused| refused.code() == "machine-denied")
    });
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_ticket_lists_the_control_planes_where_nodes_have_a_balancer() {
    let (second, worker, other) = (Machine::new(), Machine::new(), Machine::new());
    let (mut rig, server, admin) = site(&[&second], &[&worker, &other]);
    write(&rig, &files(server.authority()));
    rig.config["control_plane_files"] = json!(FILE);
    let service = rig.start();
    let without = service.join(&other, &disk(4), "worker-2").unwrap();
    assert!(without.cluster.as_ref().unwrap().api_servers.is_empty(), "nodes have no balancer");
    assert!(!without.cluster.as_ref().unwrap().untainted);
    let path = format!("{MAPS}/latchkey-cluster");
    let mut described = admin.get(&path).granted();
    let file = json!({
        "version": 1, "api_server": "192.0.2.1:6443", "kubernetes_version": "1.34", "api_balancer": true,
        "untainted": true
    });
    described["data"]["kubernetes.json"] = file.to_string().into();
    admin.put(&path, &described).granted();
    let listed = |machine: &Machine, number: u8, name: &str| {
        service.join(machine, &disk(number), name).unwrap().cluster.as_ref().unwrap().api_servers.clone()
    };
    until("the service to hear of it", || (listed(&worker, 3, "worker-1") == ["192.0.2.1:6443"]).then_some(()));
    assert_eq!(listed(&second, 2, "cp-2"), ["192.0.2.1:6443"]);
    assert!(service.join(&second, &disk(2), "cp-2").unwrap().cluster.as_ref().unwrap().untainted);
    report(&service, &second.locked(&rig), 2, &["192.0.2.2"]).unwrap();
    assert_eq!(listed(&worker, 3, "worker-1"), ["192.0.2.1:6443", "192.0.2.2:6443"]);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn without_the_files_of_this_cluster_there_are_no_control_planes_and_nobody_waits_for_one() {
    let (first, second) = (Machine::new(), Machine::new());
    let (mut rig, server, _admin) = site(&[&first, &second], &[]);
    let service = rig.start();
    assert_eq!(code(&service, &first, 1), "control-plane-files-missing");
    assert_eq!(code(&service, &second, 2), "control-plane-files-missing", "the lease was kept");
    drop(service);
    write(&rig, &files("-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n"));
    rig.config["control_plane_files"] = json!(FILE);
    let mut service = rig.start();
    assert_eq!(code(&service, &first, 1), "control-plane-files-foreign");
    assert_eq!(service.metric("control_plane_lease"), 0);
    // The operator mends it: no restart.
    write(&rig, &files(server.authority()));
    service.signal(Signal::HUP);
    service.next_line(&["Reloaded"]);
    service.join(&first, &disk(1), "cp-1").unwrap();
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_control_plane_whose_token_cannot_be_made_has_no_other_wait_for_it() {
    let (first, second, worker) = (Machine::new(), Machine::new(), Machine::new());
    let (mut rig, server, admin) = site(&[&first, &second], &[&worker]);
    write(&rig, &files(server.authority()));
    rig.config["control_plane_files"] = json!(FILE);
    let proxy = Proxy::before(&server, &server.admin());
    rig.config["store"]["kubernetes"]["kubeconfig"] = json!(proxy.kubeconfig());
    let service = rig.start();
    // The clocks were looked at: the next Secret is a token.
    service.join(&worker, &disk(3), "worker-1").unwrap();
    proxy.arm(["POST", "/secrets"], Fault::Answer(status(500)), usize::MAX);
    assert_eq!(code(&service, &first, 1), "token-not-made");
    let record = format!("/apis/latchkey.dev/v1alpha1/attestednodes/{}", first.ek());
    assert_eq!(admin.get(&record).status(), 404);
    proxy.disarm();
    service.join(&second, &disk(2), "cp-2").unwrap();
    assert_eq!(code(&service, &first, 1), "control-plane-lease-held");
}

#[test]
fn a_file_that_others_can_read_or_that_is_not_whole_is_refused_at_start() {
    let mut rig = Rig::new(&[&Machine::new()]);
    rig.config["control_plane_files"] = json!(FILE);
    write(&rig, &files("x"));
    assert!(rig.check().status.success());
    fs::set_permissions(rig.path(FILE), fs::Permissions::from_mode(0o644)).unwrap();
    let refused = rig.check();
    assert!(refused.status.code() == Some(2) && String::from_utf8_lossy(&refused.stderr).contains(FILE));
    write(&rig, &files("x"));
    let text = fs::read_to_string(rig.path(FILE)).unwrap().replace("etcd/ca.key", "etcd/ca.kee");
    fs::write(rig.path(FILE), text).unwrap();
    assert_eq!(rig.check().status.code(), Some(2));
}

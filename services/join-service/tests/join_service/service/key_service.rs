//! Keys from the real key service over mutual TLS.

use crate::service::rig::{Answer, Machine, Rig, addresses, page};
use latchkey_api::grpc::Code;
use latchkey_api::service_files::{self, MASTER_SECRET};
use latchkey_keys::MasterSecret;
use latchkey_test_support::{Lines, Port};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const CALLER: &str = "join.latchkey.test";
const PROCESS: &str = "LATCHKEY_TEST_KEY_SERVICE";

/// Not a test by itself: what [`KeyService`] runs, in a process of its own.
#[test]
fn key_service_process() {
    if let Some(config) = std::env::var_os(PROCESS) {
        let _stopped = latchkey_key_service::run(["latchkey-key-service".into(), "--config".into(), config]);
    }
}

/// The key service; killed when dropped.
pub(crate) struct KeyService {
    process: Child,
    admin: SocketAddr,
}

impl KeyService {
    fn start(rig: &Rig, listen: SocketAddr, classes: &[&str]) -> Self {
        let config = json!({
            "schema": 1, "listen": listen, "admin_listen": "127.0.0.1:0", "master_secret": "master.json",
            "tls": { "certificate": "server.pem", "private_key": "server.key", "client_ca": "ca.pem" },
            "callers": [{ "name": CALLER, "key_classes": classes, "requests_per_minute": 1_000_000, "burst": 100_000 }],
        });
        let file = rig.path("key-service.json");
        fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "service::key_service::key_service_process", "--nocapture"]).env(PROCESS, file);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = Lines::of(process.stdout.take().unwrap());
        // The test runner prints lines of its own.
        let line = lines.find("READY of the key service", &mut Vec::new(), |line| line.contains("READY "));
        let line = line.expect("the key service ended without READY");
        let (served, admin) = addresses(&line[line.find("READY ").unwrap()..]);
        assert_eq!(served, listen);
        Self { process, admin }
    }

    /// How many keys it has given, by its own count.
    fn granted(&self) -> u64 {
        self.metric("requests_total{outcome=\"granted\"}")
    }

    /// The value of a metric, given with its labels and without its prefix.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = page(self.admin, "/metrics").1;
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix("latchkey_key_service_")?.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap().parse().unwrap()
    }

    /// Has it read everything again, and waits until it has.
    pub(crate) fn reload(&self) {
        const DONE: &str = "reloads_total{outcome=\"done\"}";
        let (goal, end) = (self.metric(DONE) + 1, Instant::now() + latchkey_test_support::PATIENCE);
        self.signal(Signal::HUP);
        while self.metric(DONE) < goal {
            assert!(Instant::now() < end, "the key service did not reload");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for KeyService {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Certificates, a key service that is up at a port of its own, and a join service's configuration that names it.
pub(crate) fn rig_with(node: &Machine, classes: &[&str]) -> (Rig, KeyService, Port) {
    let mut rig = Rig::new(&[node]);
    certificates(rig.files.path());
    let port = Port::reserve();
    let service = KeyService::start(&rig, port.address(), classes);
    rig.config.as_object_mut().unwrap().remove("master_secret_file");
    rig.config["key_service"] = json!({
        "address": port.address().to_string(), "server_name": "127.0.0.1",
        "ca": "ca.pem", "certificate": "client.pem", "private_key": "client.key",
    });
    (rig, service, port)
}

pub(crate) const BOTH: &[&str] = &["state-disk", "measurement-secret"];

#[test]
fn keys_come_from_the_key_service() {
    let node = Machine::new();
    let (rig, _keys, _port) = rig_with(&node, BOTH);
    let mut service = rig.start();
    let mut ticket = service.join(&node, DISK, "worker-1").unwrap();
    assert_eq!(ticket.take_state_disk_key().to_vec(), rig.key_of(DISK));
    service.rejoin(&node, DISK).unwrap();
    service.next_line(&["Connected to the key service"]);
    let (_, log) = service.stop();
    assert_eq!(log.matches("Connected to the key service").count(), 1, "one connection for all keys");
}

#[test]
fn a_key_service_that_is_away_for_a_while_costs_a_while_and_nothing_else() {
    let node = Machine::new();
    let (rig, keys, port) = rig_with(&node, BOTH);
    let service = rig.start();
    drop(keys);
    let Answer::Status(status) = service.join(&node, DISK, "worker-1").unwrap_err() else { panic!("no status") };
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().starts_with("key-service-unavailable"), "{status}");
    assert!(rig.record(&node).is_none(), "nothing was issued, so nothing is on record");
    assert!(service.page("/healthz").0.contains("503"));

    let keys = KeyService::start(&rig, port.address(), BOTH);
    service.join(&node, DISK, "worker-1").unwrap();
    assert!(service.page("/healthz").0.contains("200"));
    // The connection is gone and nobody has told the service.
    drop(keys);
    let _keys = KeyService::start(&rig, port.address(), BOTH);
    service.rejoin(&node, DISK).unwrap();
}

#[test]
fn a_failed_control_plane_join_gives_the_lease_back() {
    let (first, second) = (Machine::new(), Machine::new());
    let (mut rig, keys, port) = rig_with(&first, BOTH);
    let eks = [first.ek(), second.ek()];
    let policy = crate::service::rig::policy(&json!([{ "kind": "pinned-ek", "ek_sha256": eks }]));
    rig.directory.write_policy(&policy.to_string()).unwrap();
    rig.directory.write_enrolment(&latchkey_cluster_store::Enrolment::workers_and(eks)).unwrap();
    rig.config["limits"] = json!({ "threads": 2 });
    let service = rig.start();
    drop(keys);
    assert_eq!(service.join(&first, DISK, "cp-1").unwrap_err().code(), "key-service-unavailable");
    let _keys = KeyService::start(&rig, port.address(), BOTH);
    service.join(&second, "0b0b0b0b-0000-4000-8000-000000000001", "cp-2").unwrap();
}

/// A process that is stopped takes connections, by its kernel, and answers nothing; so does one that hangs.
#[test]
fn a_key_service_that_accepts_and_never_answers_costs_a_bounded_time_and_nobody_else() {
    let node = Machine::new();
    let (rig, keys, _port) = rig_with(&node, BOTH);
    let service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    keys.signal(Signal::STOP);
    let client = *service;
    std::thread::scope(|scope| {
        let rejoin = scope.spawn(|| client.rejoin(&node, DISK).map(drop).unwrap_err().code());
        // The node waits; the pages do not.
        while !rejoin.is_finished() {
            assert!(service.page("/metrics").0.contains("200"));
            service.page("/healthz");
        }
        assert_eq!(rejoin.join().unwrap(), "key-service-unavailable");
    });
    assert!(service.page("/healthz").0.contains("503"));
    keys.signal(Signal::CONT);
    service.rejoin(&node, DISK).unwrap();
    keys.signal(Signal::STOP);
    let (status, log) = service.stop();
    assert_eq!(status.code(), Some(0), "{log}");
}

/// Constellation issued a token and certificates before it took the lease. Counted where keys are given.
#[test]
fn keys_are_not_asked_for_before_the_lease_is_held() {
    let (first, second) = (Machine::new(), Machine::new());
    let (rig, keys, _port) = rig_with(&first, BOTH);
    let eks = [first.ek(), second.ek()];
    let policy = crate::service::rig::policy(&json!([{ "kind": "pinned-ek", "ek_sha256": eks }]));
    rig.directory.write_policy(&policy.to_string()).unwrap();
    rig.directory.write_enrolment(&latchkey_cluster_store::Enrolment::workers_and(eks)).unwrap();
    let service = rig.start();
    service.join(&first, DISK, "cp-1").unwrap();
    assert_eq!(keys.granted(), 2, "the disk's key and the measurement secret");
    let other = "0b0b0b0b-0000-4000-8000-000000000001";
    assert_eq!(service.join(&second, other, "cp-2").unwrap_err().code(), "control-plane-lease-held");
    assert_eq!(keys.granted(), 2, "no key for who has no lease");
}

#[test]
fn a_key_service_that_says_no_is_told_apart_from_one_that_is_away() {
    let node = Machine::new();
    let (rig, _keys, _port) = rig_with(&node, &["measurement-secret"]);
    let mut service = rig.start();
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "key-service-refused");
    service.next_line(&["No keys", "class-denied"]);
}

/// A node that got such a secret would lock itself to a cluster that does not exist.
#[test]
fn a_master_secret_of_another_cluster_issues_nothing() {
    let node = Machine::new();
    let rig = Rig::uninitialised(&[&node]);
    another_master_secret(&rig);
    let mut service = rig.start();
    rig.initialise();
    service.next_line(&["Configuration reloaded", "cluster"]);
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "cluster-id-mismatch");
    assert!(rig.record(&node).is_none());
    assert!(service.page("/healthz").1.contains("cluster-id-mismatch"));
}

fn another_master_secret(rig: &Rig) {
    fs::remove_file(rig.path("master.json")).unwrap();
    MasterSecret::random().unwrap().write_new(&rig.path("master.json")).unwrap();
}

#[test]
fn a_master_secret_of_another_cluster_does_not_take_the_place_of_the_right_one() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    another_master_secret(&rig);
    service.signal(Signal::HUP);
    service.next_line(&["master secret is not the one of the cluster"]);
    service.join(&node, DISK, "worker-1").unwrap();
}

/// The services' files of a control plane are handed to others as they are.
#[test]
fn a_master_secret_of_another_cluster_is_handed_to_no_control_plane() {
    let mut rig = Rig::new(&[&Machine::new()]);
    fs::create_dir(rig.path("inside")).unwrap();
    for name in service_files::NAMES {
        fs::write(rig.path("inside").join(name), "hush").unwrap();
    }
    fs::copy(rig.path("master.json"), rig.path("inside").join(MASTER_SECRET)).unwrap();
    for name in service_files::NAMES {
        fs::set_permissions(rig.path("inside").join(name), Permissions::from_mode(0o600)).unwrap();
    }
    rig.config["service_files"] = json!("inside");
    assert!(rig.check().status.success());
    fs::remove_file(rig.path("inside").join(MASTER_SECRET)).unwrap();
    MasterSecret::random().unwrap().write_new(&rig.path("inside").join(MASTER_SECRET)).unwrap();
    let refused = rig.check();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not the one of the cluster"), "{refused:?}");
}

#[test]
fn a_check_asks_the_key_service_whether_it_has_the_clusters_master_secret() {
    let node = Machine::new();
    let (rig, keys, port) = rig_with(&node, BOTH);
    let said = |rig: &Rig| {
        let check = rig.check();
        (check.status.code(), String::from_utf8(check.stdout).unwrap(), String::from_utf8(check.stderr).unwrap())
    };
    let (code, good, _) = said(&rig);
    assert!(code == Some(0) && good.contains("which has this cluster's master secret"), "{good}");
    drop(keys);
    let (code, silent, _) = said(&rig);
    assert!(code == Some(0) && silent.contains("is not known: no answer"), "{silent}");
    another_master_secret(&rig);
    let _keys = KeyService::start(&rig, port.address(), BOTH);
    let (code, _, wrong) = said(&rig);
    assert!(code == Some(2) && wrong.contains("use the master secret that the cluster was made with"), "{wrong}");
}

/// The version is on record: rotation must not lock old disks out.
#[test]
fn a_rotated_master_secret_still_opens_old_disks() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    let before = service.join(&node, DISK, "worker-1").unwrap().take_state_disk_key();
    service.stop();
    let file = rig.path("master.json");
    MasterSecret::rotate(&file).unwrap();
    let service = rig.start();
    assert_eq!(service.rejoin(&node, DISK).unwrap().take_state_disk_key(), before);
    let next = "0a0a0a0a-0000-4000-8000-000000000002";
    service.join(&node, next, "worker-1").unwrap();
    assert_eq!(rig.record(&node).unwrap().disk(next.parse().unwrap()).unwrap().key_version, 2);
}

/// A new authority, and a certificate by it for each of the two services.
pub(crate) fn certificates(directory: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate().unwrap();
    fs::write(directory.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    for (file, name, usage) in [
        ("server", "127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth),
        ("client", CALLER, ExtendedKeyUsagePurpose::ClientAuth),
    ] {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        fs::write(directory.join(format!("{file}.pem")), params.signed_by(&key, &issuer).unwrap().pem()).unwrap();
        let private = directory.join(format!("{file}.key"));
        fs::write(&private, key.serialize_pem()).unwrap();
        fs::set_permissions(&private, Permissions::from_mode(0o600)).unwrap();
    }
}

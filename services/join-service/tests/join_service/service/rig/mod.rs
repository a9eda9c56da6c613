//! A cluster directory, a configuration, the running service, and machines that ask it.

mod machine;
mod service;
mod socket;

use latchkey_attestation::reference::PlatformProfile as MachineType;
use latchkey_attestation::reference::{Description, ManifestName, Origin, Reference};
use latchkey_attestation::{Digest, EkDigest, ReferenceValues};
use latchkey_cluster_store::{ClusterFile, ClusterStore, DiskRelease, Enrolment, NodeName, NodeRecord, Recorded};
use latchkey_keys::{ClusterId, MasterSecret};
use latchkey_test_support::{Lines, drained};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) use machine::Machine;
pub(crate) use service::{AGENT, Answer, Client, Service, join_request};
pub(crate) use socket::Socket;

/// PCR 11 of the image that is admitted.
pub(crate) const IMAGE: [u8; 32] = [0x0b; 32];
/// Longer than anything takes here.
pub(crate) const TIME: Duration = Duration::from_mins(1);
const SALT: [u8; 32] = [0x5a; 32];

/// Files, before anything runs.
pub(crate) struct Rig {
    pub(crate) files: TempDir,
    pub(crate) config: Value,
    pub(crate) master: MasterSecret,
    pub(crate) directory: ClusterStore,
    pub(crate) cluster: ClusterFile,
}

impl Rig {
    /// An initialised cluster that trusts these machines and lets them in as workers.
    pub(crate) fn new(machines: &[&Machine]) -> Self {
        let rig = Self::uninitialised(machines);
        rig.initialise();
        rig
    }

    /// The same, before `latchkey init`.
    pub(crate) fn uninitialised(machines: &[&Machine]) -> Self {
        // Whatever is made durable here need not be: the tests kill processes, not the machine.
        let memory = Path::new("/dev/shm");
        let files = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let path = |name: &str| files.path().join(name);
        fs::create_dir(path("cluster")).unwrap();
        let directory = ClusterStore::make(path("cluster")).unwrap();
        let eks: Vec<String> = machines.iter().map(|machine| machine.ek().to_string()).collect();
        directory.write_policy(&policy(&json!([{ "kind": "pinned-ek", "ek_sha256": eks }])).to_string()).unwrap();
        directory.write_reference(&reference("1.0.0", IMAGE)).unwrap();
        directory.write_enrolment(&Enrolment::workers_and([])).unwrap();
        let master = MasterSecret::random().unwrap();
        master.write_new(&path("master.json")).unwrap();
        latchkey_join_service::identity::create(&path("identity.key")).unwrap();
        let secret = master.measurement_secret(master.current()).unwrap();
        let id = ClusterId::derive(&secret, &SALT).unwrap();
        let cluster = ClusterFile::new("test", id, SALT, master.current().number(), 1_795_000_000);
        let config = json!({
            "schema": 1,
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "cluster_directory": "cluster",
            "identity_key": "identity.key",
            "master_secret_file": "master.json",
            // Tests ask until they get an answer, which is more often than the default allows.
            "limits": {
                "connections_per_minute_per_address": 1_000_000, "connection_burst_per_address": 1_000_000,
            },
        });
        Self { files, config, master, directory, cluster }
    }

    /// What `latchkey init` does: the first node's record, then the cluster.
    pub(crate) fn initialise(&self) {
        self.directory.writer().unwrap().initialise(&self.cluster, &first_node()).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    pub(crate) fn key_of(&self, disk: &str) -> Vec<u8> {
        let word = DiskRelease::on_operators_word(disk.parse().unwrap(), self.master.current());
        self.master.derive_32(&word).unwrap().expose().to_vec()
    }

    pub(crate) fn record(&self, machine: &Machine) -> Option<NodeRecord> {
        self.directory.record(&machine.ek()).unwrap().map(Recorded::into_inner)
    }

    /// Writes the configuration and prepares the command.
    pub(crate) fn command(&self) -> Command {
        let file = self.path("config.json");
        fs::write(&file, self.config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey-join-service"));
        command.arg("--config").arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `--check`.
    pub(crate) fn check(&self) -> Output {
        latchkey_test_support::output(self.command().arg("--check")).unwrap()
    }

    /// Starts the service and waits until it serves.
    pub(crate) fn start(&self) -> Service {
        self.start_logging_to(Stdio::piped())
    }

    /// The same with the log going elsewhere than to [`Service::next_line`].
    pub(crate) fn start_logging_to(&self, log: Stdio) -> Service {
        self.start_as(self.command().stderr(log))
    }

    /// Starts the service by this command.
    pub(crate) fn start_as(&self, command: &mut Command) -> Service {
        let mut process = command.spawn().unwrap();
        let lines = process.stderr.take().map_or_else(|| Lines::of(std::io::empty()), Lines::of);
        let ready = Lines::of(process.stdout.take().unwrap()).next("READY of the join service");
        let key = latchkey_join_service::identity::load(&self.path("identity.key")).unwrap().hash();
        let nowhere = SocketAddr::from(([0; 4], 0));
        let client = Client { address: nowhere, keys: [key; 2] };
        let mut service = Service { process, lines, log: Vec::new(), admin: nowhere, client };
        let Some(ready) = ready else { panic!("it ended without READY: {}", service.ended().1) };
        (service.client.address, service.admin) = addresses(&ready);
        service
    }
}

/// The record of the cluster's first node, a machine that is not of the test.
pub(crate) fn first_node() -> NodeRecord {
    let ek = EkDigest::from_hex(&"f1".repeat(32)).unwrap();
    let name: NodeName = "first".parse().unwrap();
    let disk = "f1f1f1f1-0000-4000-8000-000000000001".parse().unwrap();
    NodeRecord::first(ek, name, latchkey_cluster_store::Role::ControlPlane, disk, 1, 1_700_000_000)
}

/// Of a READY line.
pub(crate) fn addresses(ready: &str) -> (SocketAddr, SocketAddr) {
    let field = |name: &str| ready.split(' ').find_map(|word| word.strip_prefix(name)).unwrap().parse().unwrap();
    assert!(ready.starts_with("READY "), "{ready}");
    (field("listen="), field("admin="))
}

/// A policy with these trust rules that enforces PCR 11.
pub(crate) fn policy(trust: &Value) -> Value {
    json!({
        "version": 3, "ek_templates": ["ecc-p256"],
        "ak_trust": trust, "ak_algorithms": ["ecdsa-p256-sha256"],
        "pcrs": { "enforce": [11], "warn": [] }, "lock": "pcr-15",
        "references": [{ "manifest": "test", "minimum_version": "1.0.0", "unsigned": "trust-local-file" }],
    })
}

/// The manifest of one image; its serial grows with each call.
pub(crate) fn reference(version: &str, pcr_11: [u8; 32]) -> ReferenceValues {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    manifest("test", SERIAL.fetch_add(1, Relaxed), version, pcr_11)
}

/// The manifest of one image on one machine type.
pub(crate) fn manifest(name: &str, serial: u64, version: &str, pcr_11: [u8; 32]) -> ReferenceValues {
    let manifest = ManifestName::new(name).unwrap();
    let about =
        Description { manifest, serial, image: "image", version: version.parse().unwrap(), by: "test", at: Some(0) };
    let value = Digest(pcr_11);
    let origin = Origin { products: [("image.raw".to_owned(), value)].into(), ..Origin::default() };
    let machine = MachineType::new("test", [(11, Reference::enforced(value))].into());
    ReferenceValues::predicted(&about, origin, vec![machine]).unwrap()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A page on a service's admin port: status line and body.
pub(crate) fn page(admin: SocketAddr, path: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(admin).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let answer = String::from_utf8(drained(&mut stream)).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

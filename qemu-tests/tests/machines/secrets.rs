//! One scan with known keys over everything that a life leaves: memory, disks, consoles, logs, the TPM's bus.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchkey_keys::MasterSecret;
use latchkey_qemu_tests::fleet::{Fleet, MEMBER, STEP};
use latchkey_qemu_tests::swtpm::TpmState;
use latchkey_qemu_tests::vm::Vm;
use memchr::memmem;
use serde_json::Value;

/// What is looked for: its name, and every form in which it could lie about.
struct Needle {
    name: String,
    forms: Vec<Vec<u8>>,
}

impl Needle {
    /// A secret: its bytes, each half of them (a cipher's key, half of a copy), in hexadecimal and in base64.
    fn secret(name: impl Into<String>, bytes: &[u8]) -> Self {
        assert!(bytes.len() >= 16, "too short to be told from chance");
        let (first, last) = bytes.split_at(bytes.len() / 2);
        let encoded = [hex::encode(bytes), hex::encode_upper(bytes), STANDARD.encode(bytes)].map(String::into_bytes);
        let forms = [first.to_vec(), last.to_vec()].into_iter().chain(encoded).collect();
        Self { name: name.into(), forms }
    }

    /// Something that is known to be there: a scan that does not find it would find nothing.
    fn control(name: &str, bytes: &[u8]) -> Self {
        Self { name: name.into(), forms: vec![bytes.to_vec()] }
    }

    fn is_in(&self, haystack: &[u8]) -> bool {
        self.forms.iter().any(|form| memmem::find(haystack, form).is_some())
    }
}

/// Everything below a directory, but what holds secrets by its purpose.
fn files(directory: &Path, except: &[PathBuf]) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for path in entries.filter(|path| !except.contains(path)) {
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(files(&path, except));
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found
}

fn memory(node: &Vm, fleet: &Fleet) -> Vec<u8> {
    let file = fleet.run().file(&format!("{}-memory.core", node.name()));
    node.monitor().unwrap().dump_memory(&file).unwrap();
    let memory = fs::read(&file).unwrap();
    fs::remove_file(file).unwrap();
    memory
}

/// As the operator would get it for a rescue.
fn disk_key(fleet: &Fleet, disk: &str) -> Vec<u8> {
    let (out, cluster, master) = (fleet.path("disk.key"), fleet.path("cluster"), fleet.path("master.json"));
    let of = ["secret", "disk-key", "--cluster", &cluster, "--master-secret", &master, "--disk", disk];
    fleet.cli(&[&of[..], &["--without-its-machine", "--out", &out]].concat()).unwrap().success("disk-key").unwrap();
    let key = fs::read(&out).unwrap();
    fs::remove_file(out).unwrap();
    key
}

/// The secrets of a site: what its operator made, and what was derived for each disk on record.
fn secrets(fleet: &Fleet) -> Vec<Needle> {
    let file: Value = serde_json::from_slice(&fs::read(fleet.run().file("master.json")).unwrap()).unwrap();
    let bytes = hex::decode(file["secrets"][0]["secret"].as_str().unwrap()).unwrap();
    let words = fs::read_to_string(fleet.run().file("init.secret")).unwrap();
    let master = MasterSecret::load(&fleet.run().file("master.json")).unwrap();
    let measurement = master.measurement_secret(master.current()).unwrap();
    let mut needles = vec![
        Needle::secret("the master secret", &bytes),
        Needle::control("the init secret", words.trim().as_bytes()),
        Needle::secret("the measurement secret", measurement.expose()),
    ];
    for record in files(&fleet.run().file("cluster/nodes"), &[]) {
        let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
        for disk in record["disks"].as_array().unwrap() {
            let key = disk_key(fleet, disk["uuid"].as_str().unwrap());
            needles.push(Needle::secret(format!("the key of the disk of {}", record["name"]), &key));
        }
    }
    needles
}

/// The secrets that lie in `haystack`, by name.
fn found(needles: &[Needle], haystack: &[u8]) -> Vec<String> {
    needles.iter().filter(|needle| needle.is_in(haystack)).map(|needle| needle.name.clone()).collect()
}

#[test]
fn keys_of_a_whole_life_lie_in_no_memory_disk_console_log_or_tpm_traffic() {
    let fleet = Fleet::new("secrets").unwrap();
    let tpms: Vec<TpmState> = ["node-1", "node-2"].map(|name| fleet.tpm(name).unwrap()).into();
    let machine = |index: usize, name| fleet.machine_of(name, fleet.image().boot(), &tpms[index]).unwrap();
    let (services, first) = fleet.found_cluster(machine(0, "node-1")).unwrap();
    let mut second = machine(1, "node-2").start().unwrap();
    second.expect(MEMBER, STEP).unwrap();
    let needles = secrets(&fleet);
    assert_eq!(needles.len(), 5, "two nodes have a disk each");
    let cluster: Value = serde_json::from_slice(&fs::read(fleet.run().file("cluster/cluster.json")).unwrap()).unwrap();

    let mut lying_about = Vec::new();
    let mut look = |place: &str, haystack: &[u8], control: &Needle| {
        assert!(control.is_in(haystack), "the scan of {place} does not find {}", control.name);
        lying_about.extend(found(&needles, haystack).into_iter().map(|name| format!("{name} in {place}")));
    };
    // Machines whose agent is gone: one founded the cluster, one joined, one rejoined.
    let name = Needle::control("the node's name", b"node-");
    look("the founder's memory", &memory(&first, &fleet), &name);
    look("the joiner's memory", &memory(&second, &fleet), &name);
    second.restart().unwrap();
    second.expect(MEMBER, STEP).unwrap();
    look("the rejoiner's memory", &memory(&second, &fleet), &name);
    drop((first, second, services));

    // On the TPM's bus the cluster id is public: it is what the lock register is extended with.
    let id = hex::decode(cluster["cluster_id"].as_str().unwrap()).unwrap();
    for tpm in &tpms {
        look("the TPM's traffic", &tpm.traffic().unwrap(), &Needle::control("the lock", &id));
    }
    // Disks, consoles, logs of services and TPMs, records: all but the files that are made to hold a secret.
    let made =
        ["master.json", "init.secret", "join-service.key", "cluster/init.json"].map(|name| fleet.run().file(name));
    let mut all = Vec::new();
    for file in files(fleet.run().path(), &made) {
        let content = fs::read(&file).unwrap();
        lying_about.extend(found(&needles, &content).into_iter().map(|name| format!("{name} in {}", file.display())));
        all.push(file.file_name().unwrap().to_string_lossy().into_owned());
    }
    for expected in ["node-2-state.img", "node-2-1-console.log", "join-service.log", "key-service.log"] {
        assert!(all.iter().any(|name| name == expected), "{expected} is not among {all:?}");
    }
    assert!(lying_about.is_empty(), "{lying_about:#?}");
}

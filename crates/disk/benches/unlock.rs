//! The key check on the boot path: header check, key slot, digest and MAC; and stock cryptsetup beside it.
//!
//! `cargo bench -p latchkey-disk --bench unlock`. SPECIFICATION.md promises at most 3 ms.

#![expect(clippy::unwrap_used, reason = "a bench that cannot run says so")]

use latchkey_bench::Bench;
use latchkey_disk::{BlockDevice, Disk, KernelRandom, NodeState, Phase, Probe, Role, SegmentMode, probe};
use latchkey_keys::{ClusterId, Secret, Uuid};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    let directory = std::env::temp_dir().join(format!("latchkey-disk-bench-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    run(&Bench::from_args(), &directory);
    fs::remove_dir_all(&directory).unwrap();
}

fn run(bench: &Bench, directory: &Path) {
    let key = Secret::random().unwrap();
    let (disk_file, key_file) = (directory.join("disk"), directory.join("key"));
    File::create_new(&disk_file).unwrap().set_len(32 << 20).unwrap();
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&key_file).unwrap();
    file.write_all(key.expose()).unwrap();

    let mut disk = Disk::open_exclusive(&disk_file).unwrap();
    let Probe::Fresh(fresh) = probe(&disk).unwrap() else { panic!("an empty file is fresh") };
    fresh.format(&mut disk, Uuid::random().unwrap(), &key, state(), &mut KernelRandom).unwrap();

    let header = existing(&disk).check(SegmentMode::Confidential).unwrap();
    bench.measure("disk/key-check", "LUKS2 key check, right key", || drop(header.unlock(&key).unwrap()));
    let wrong = Secret::random().unwrap();
    bench.measure("disk/key-check-wrong", "LUKS2 key check, wrong key", || assert!(header.unlock(&wrong).is_err()));
    bench.measure("disk/unlock", "LUKS2 header read and checked, then the key", || {
        drop(existing(&disk).check(SegmentMode::Confidential).unwrap().unlock(&key).unwrap());
    });
    beside_cryptsetup(bench, &disk_file, &key_file);
}

fn beside_cryptsetup(bench: &Bench, disk: &Path, key: &Path) {
    let program = ["/usr/sbin/cryptsetup", "/sbin/cryptsetup"].into_iter().find(|path| Path::new(path).exists());
    let Some(program) = program else {
        eprintln!("cryptsetup is not installed: no peer beside the key check");
        return;
    };
    bench.measure_process(
        "cryptsetup/test-passphrase",
        "cryptsetup open --test-passphrase, same disk (process)",
        || {
            let mut command = Command::new(program);
            command.args(["open", "--test-passphrase", "--key-file"]).args([key, disk]);
            assert!(command.stdout(Stdio::null()).status().unwrap().success());
        },
    );
}

fn existing(disk: &impl BlockDevice) -> latchkey_disk::UncheckedHeader {
    match probe(disk).unwrap() {
        Probe::Existing(header) => header,
        other => panic!("{other:?}"),
    }
}

fn state() -> NodeState {
    NodeState {
        role: Role::Worker,
        node_name: "node-1".parse().unwrap(),
        cluster_id: ClusterId::from_bytes([7; 32]),
        measurement_salt: [9; 32],
        phase: Phase::Formatted,
        epoch: 1,
        attempt: 1,
    }
}

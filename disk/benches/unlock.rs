//! The key check on the boot path: header check, key slot, digest and MAC; and stock cryptsetup beside it.
//!
//! `cargo bench -p latchkey-disk`. SPECIFICATION.md promises at most 3 ms.

#![expect(clippy::unwrap_used, reason = "a bench that cannot run says so")]

use latchkey_disk::{BlockDevice, Disk, KernelRandom, NodeState, Phase, Probe, Role, probe};
use latchkey_keys::{ClusterId, Secret, Uuid};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 200;
const PROMISE: Duration = Duration::from_millis(3);

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("latchkey-disk-bench-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let kept = run(&folder);
    fs::remove_dir_all(&folder).unwrap();
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(folder: &Path) -> bool {
    let key = Secret::random().unwrap();
    let (disk_file, key_file) = (folder.join("disk"), folder.join("key"));
    File::create_new(&disk_file).unwrap().set_len(32 << 20).unwrap();
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&key_file).unwrap();
    file.write_all(key.expose()).unwrap();

    let mut disk = Disk::open_exclusive(&disk_file).unwrap();
    let Probe::Fresh(fresh) = probe(&disk).unwrap() else { panic!("an empty file is fresh") };
    let begin = Instant::now();
    fresh.format(&mut disk, Uuid::random().unwrap(), &key, state(), &mut KernelRandom).unwrap();
    show("format, with its four flushes", begin.elapsed());

    let whole = median(ROUNDS, || {
        drop(existing(&disk).check().unwrap().unlock(&key).unwrap());
    });
    show("read, check and unlock a disk", whole);
    let header = existing(&disk).check().unwrap();
    let check = median(ROUNDS, || drop(header.unlock(&key).unwrap()));
    show("key check (right key)", check);
    let wrong = Secret::random().unwrap();
    show("key check (wrong key)", median(ROUNDS, || assert!(header.unlock(&wrong).is_err())));

    let program = ["/usr/sbin/cryptsetup", "/sbin/cryptsetup"].into_iter().find(|path| Path::new(path).exists());
    if let Some(program) = program {
        let peer = median(ROUNDS / 4, || {
            let mut command = Command::new(program);
            command.args(["open", "--test-passphrase", "--key-file"]).args([&key_file, &disk_file]);
            assert!(command.stdout(Stdio::null()).status().unwrap().success());
        });
        show("cryptsetup open --test-passphrase", peer);
        println!("{:<40} {:>9.1}", "ratio cryptsetup / read, check, unlock", peer.as_secs_f64() / whole.as_secs_f64());
    } else {
        println!("cryptsetup is not installed: no peer beside it");
    }
    let kept = check <= PROMISE;
    println!("key check at most {PROMISE:?}: {}", if kept { "kept" } else { "BROKEN" });
    kept
}

fn existing(disk: &impl BlockDevice) -> latchkey_disk::UncheckedHeader {
    match probe(disk).unwrap() {
        Probe::Existing(header) => header,
        other => panic!("{other:?}"),
    }
}

fn median(rounds: usize, mut run: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[rounds / 2]
}

fn show(what: &str, time: Duration) {
    println!("{what:<40} {:>9.3} ms", time.as_secs_f64() * 1e3);
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

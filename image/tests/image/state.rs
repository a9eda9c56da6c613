//! The script that checks or makes the state disk's file system, with the real programs, on a file.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sample::{found, run};

const SCRIPT: &str = include_str!("../../systemd/state-file-system");
/// mkfs.xfs refuses less than 300 MiB; the file has holes.
const SIZE: u64 = 320 << 20;
/// `xfs_dsb`: `sb_inprogress`, "mkfs is in progress, don't mount".
const XFS_IN_PROGRESS: u64 = 126;
/// Takes the root directory away, which mkfs.ext4 makes after the superblock (ext4 "Special inodes").
const NO_ROOT_DIRECTORY: &str = "clri <2>";

struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        File::create_new(disk.file()).unwrap().set_len(SIZE).unwrap();
        disk
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("disk")
    }

    /// Runs the script for a disk of this phase: whether it succeeds, and what it says.
    fn run(&self, phase: &str, kind: &str) -> (bool, String) {
        self.run_with(phase, kind, None)
    }

    /// The same with programs that are found before all others.
    fn run_with(&self, phase: &str, kind: &str, first: Option<&Path>) -> (bool, String) {
        let handover = self.0.path().join("handover.json");
        fs::write(&handover, format!(r#"{{"version":1,"phase":"{phase}","attempts":0}}"#)).unwrap();
        let here = |path: &Path| path.to_str().unwrap().to_owned();
        let script = SCRIPT
            .replace("/dev/mapper/state", &here(&self.file()))
            .replace("/run/latchkey/handover.json", &here(&handover));
        let first = first.map(|first| format!("{}:", here(first))).unwrap_or_default();
        let path = format!("{first}{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "state-file-system", kind]).env("PATH", path);
        let output = latchkey_test_support::output(&mut shell).unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        File::options().write(true).open(self.file()).unwrap().write_all_at(bytes, at).unwrap();
    }

    /// Bytes that every new file system has in its own way: those of its UUID and times are among them.
    fn start(&self) -> Vec<u8> {
        let mut bytes = vec![0; 2048];
        File::open(self.file()).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }
}

fn programs(kind: &str) -> bool {
    let wanted: &[(&str, &str)] = match kind {
        "xfs" => &[("blkid", "util-linux"), ("mkfs.xfs", "xfsprogs"), ("xfs_repair", "xfsprogs")],
        _ => &[("blkid", "util-linux"), ("mkfs.ext4", "e2fsprogs"), ("fsck.ext4", "e2fsprogs")],
    };
    wanted.iter().all(|(program, package)| found(program, package).is_some())
}

#[test]
fn a_file_system_is_made_once_and_one_that_is_whole_stays() {
    for kind in ["ext4", "xfs"] {
        if !programs(kind) {
            return;
        }
        let disk = Disk::new();
        assert!(!disk.run("bootstrapped", kind).0, "{kind}: never on a member's disk");
        let (made, said) = disk.run("formatted", kind);
        assert!(made && said.contains("making"), "{kind}: {said}");
        let start = disk.start();
        for phase in ["formatted", "bootstrapped"] {
            let (well, said) = disk.run(phase, kind);
            assert!(well && !said.contains("making"), "{kind}, {phase}: {said}");
            // fsck writes times into the superblock of ext4; the UUID, at 104 in it, stays.
            let uuid = if kind == "ext4" { 1024 + 104..1024 + 120 } else { 32..48 };
            assert_eq!(disk.start()[uuid.clone()], start[uuid], "{kind}, {phase}");
        }
    }
}

#[test]
fn half_a_file_system_of_a_node_that_was_never_born_is_made_anew_and_a_member_s_is_not() {
    let halve_xfs = |disk: &Disk| disk.write(XFS_IN_PROGRESS, &[1]);
    let halve_ext4 = |disk: &Disk| {
        let Some(debugfs) = found("debugfs", "e2fsprogs") else { return };
        run(Command::new(debugfs).args(["-w", "-R", NO_ROOT_DIRECTORY]).arg(disk.file()));
    };
    for (kind, halve) in [("xfs", &halve_xfs as &dyn Fn(&Disk)), ("ext4", &halve_ext4)] {
        if !programs(kind) {
            return;
        }
        let disk = Disk::new();
        assert!(disk.run("formatted", kind).0);
        halve(&disk);
        // The superblock says that all is well, and the quick check of a member's disk believes it.
        let (well, said) = disk.run("bootstrapped", kind);
        assert!(well && !said.contains("making"), "{kind}: {said}");
        let (well, said) = disk.run("formatted", kind);
        assert!(well && said.contains("making"), "{kind}: {said}");
        let (well, said) = disk.run("formatted", kind);
        assert!(well && !said.contains("making"), "{kind}: {said}");
    }
}

/// What is said to the operator is said, and nothing in it is run.
#[test]
fn a_damaged_disk_has_no_other_program_run_than_those_that_look_at_it() {
    if !programs("ext4") {
        return;
    }
    let (disk, trap) = (Disk::new(), tempfile::tempdir().unwrap());
    // Each word of the script's messages, as a program that would be found first.
    let messages = SCRIPT.lines().filter(|line| line.trim_start().starts_with("say "));
    let words = messages.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()));
    let ran = trap.path().join("ran");
    for word in words.filter(|word| !["", "say"].contains(word)) {
        let program = trap.path().join(word);
        fs::write(&program, format!("#!/bin/sh\necho {word} >>{}\n", ran.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert!(trap.path().join("state").exists());
    let (fine, said) = disk.run_with("member", "ext4", Some(trap.path()));
    assert!(!fine && said.contains("the partition \"state\""), "{said}");
    assert!(!ran.exists(), "{}", fs::read_to_string(&ran).unwrap());
}

//! `latchkey secret disk-key`: the key that it writes opens the disk with stock cryptsetup. On a file: nothing is mapped.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::support::node::FakeNode;
use crate::support::operator::Operator;
use latchkey_disk::{Disk, KernelRandom, NodeState, Phase, Probe, Role, probe};
use latchkey_keys::{Secret, Uuid};
use latchkey_test_support::{output, skip};

/// What an agent does with the key that the node was given: a LUKS2 disk with this UUID.
fn format(path: &Path, disk: Uuid, node: &FakeNode) {
    File::create_new(path).unwrap().set_len(32 << 20).unwrap();
    let mut file = Disk::open_exclusive(path).unwrap();
    let Probe::Fresh(fresh) = probe(&file).unwrap() else { panic!("an empty file is fresh") };
    let (key, cluster_id) = {
        let state = node.state();
        let (key, ..) = state.keys.as_ref().unwrap();
        (Secret::from_slice(key.expose()).unwrap(), state.cluster.unwrap())
    };
    let node_state = NodeState {
        role: Role::First,
        node_name: "edge-1".parse().unwrap(),
        cluster_id,
        measurement_salt: [9; 32],
        phase: Phase::Formatted,
        epoch: 1,
        attempt: 1,
    };
    fresh.format(&mut file, disk, &key, node_state, &mut KernelRandom).unwrap();
}

#[test]
fn cryptsetup_opens_a_disk_with_the_key_that_the_command_writes() {
    let program = ["/usr/sbin/cryptsetup", "/sbin/cryptsetup", "/usr/bin/cryptsetup"];
    let Some(program) = program.into_iter().find(|path| Path::new(path).exists()) else {
        return skip("cryptsetup is not installed (Debian: cryptsetup-bin)");
    };
    let (operator, node) = Operator::with_node();
    operator.init(&node, &[]).succeeded();
    let disk = node.state().disk;
    let image = operator.path("disk.img");
    format(&image, disk, &node);
    let cryptsetup = |arguments: &[&str]| output(Command::new(program).args(arguments).arg(&image)).unwrap();
    // The rescue begins with the disk alone: its UUID is in its header.
    let uuid = String::from_utf8(cryptsetup(&["luksUUID"]).stdout).unwrap();
    assert_eq!(uuid.trim(), disk.to_string());
    // A later version of the master secret does not change which key it is.
    operator.run(&["secret", "rotate", "master.json"]).succeeded();
    let command = ["secret", "disk-key", "--cluster", "plant", "--master-secret", "master.json", "--disk", uuid.trim()];
    let command = [&command[..], &["--without-its-machine", "--out", "disk.key"]].concat();
    operator.run(&command).succeeded();
    let key = operator.path("disk.key").display().to_string();
    let opened = cryptsetup(&["luksOpen", "--test-passphrase", "--key-file", &key]);
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    // That of another disk does not: cryptsetup says by 2 that no key fits.
    let other = Uuid::random().unwrap().to_string();
    let command = ["secret", "disk-key", "--cluster", "plant", "--master-secret", "master.json", "--disk", &other];
    let command = [&command[..], &["--without-its-machine", "--key-version", "1", "--out", "other.key"]].concat();
    operator.run(&command).succeeded();
    let key = operator.path("other.key").display().to_string();
    assert_eq!(cryptsetup(&["luksOpen", "--test-passphrase", "--key-file", &key]).status.code(), Some(2));
}

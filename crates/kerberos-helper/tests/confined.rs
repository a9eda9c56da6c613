//! What others see of a helper. A program of its own: it looks for helpers among its children.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

#[path = "kerberos_helper/rig/mod.rs"]
mod rig;

use latchkey_test_support::block_on;
use rig::{Rig, secret, upn};

#[test]
fn secrets_are_in_no_argument_environment_or_dump_of_a_helper() {
    let Some(rig) = Rig::start() else { return };
    rig.kdc.add("alice", "opensesame");
    block_on(rig.kerberos.verify_password(&upn("alice"), &secret("opensesame"))).unwrap();
    let helper = rig::helper();
    let read = |name: &str| std::fs::read(format!("/proc/{helper}/{name}"));
    assert!(!String::from_utf8_lossy(&read("cmdline").unwrap()).contains("opensesame"));
    let limits = String::from_utf8(read("limits").unwrap()).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"]);
    // What cannot be dumped belongs to root in /proc, whoever runs it.
    let status = String::from_utf8(read("status").unwrap()).unwrap();
    assert!(status.contains("latchkey-kerber"), "{status}");
}

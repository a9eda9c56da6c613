//! The enrol service as nodes and a centre see it. Real: the program, its files, configuration database, authorisation service, git
//! server and cluster manager. Stand-ins: the machines' TPMs (`FakeTpm`), where a test
//! does not start swtpm, and what the centre's own rig names as fakes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[allow(dead_code, reason = "the cluster manager's tests use the rest")]
#[path = "../../../../cluster-manager/tests/cluster_manager/served/rig/mod.rs"]
mod centre;

mod admissions;
mod attacks;
mod between;
mod crash;
mod machine;
mod rig;

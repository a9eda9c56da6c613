//! A centre and its edges, as operators and machines see them. Each module runs as a process of its own (`./dev test`).
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod centre_backup;
mod centre_clusters;
mod centre_faults;
mod centre_original;
mod centre_page;
mod centre_up;
mod edge_enrol;
mod edge_flux;
mod edge_keys;
mod edge_monitor;
mod edge_redeem;

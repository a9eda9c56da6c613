//! The key service as a process.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod flood;
mod metrics;
mod process;
mod python_grpc;
mod reload;
mod rig;
mod rust_client;

//! Calls over gRPC: with honest and hostile peers, and those of other makers.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod calls;
mod hostile_clients;
mod hostile_servers;
mod interop;
mod secrets;
mod support;

//! The service and the directory on loopback, as clients meet them.

#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod following;
mod npm_client;
mod our_client;
mod rig;

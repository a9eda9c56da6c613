//! The durable file whose writers share an fsync.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod crashes;
mod store;

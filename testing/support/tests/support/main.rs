//! Waits end, and skips are seen.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod skips;
mod waits;

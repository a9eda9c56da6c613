//! The join service: its decisions, and its process.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod decisions;
mod service;

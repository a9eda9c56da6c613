//! The authorisation service: its programs, what it serves, and what is decided.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod programs;
mod served;
mod suite;

//! Key derivation, and the file of master secrets.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod known_answers;
mod master_file;

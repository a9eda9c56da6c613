//! TPM structures, and commands before real TPMs.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod swtpm;
mod wire;

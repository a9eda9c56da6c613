//! The cluster manager: its script, what it serves, hostile entries, and what foreign programs say of its output.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod bootstrap;
mod hostile;
mod oracles;
mod served;

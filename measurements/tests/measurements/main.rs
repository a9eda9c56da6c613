//! What is predicted, replayed, explained and signed.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod cel;
mod confidential;
mod explanations;
mod firmware;
mod launch;
mod manifests;
mod peer;
mod prediction;
mod replay;
mod signing;
mod strictness;
mod support;

//! Evidence, recorded and made up, before the verifier.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod attestation_keys;
mod certificates;
mod cloud_keys;
mod codes;
mod events;
mod known_firmware;
mod large_keys;
mod launches;
mod manifests;
mod measurements;
mod policies;
mod quotes;
mod real_keys;
mod recordings;
mod revocations;
mod snp;
mod support;
mod swtpm;
mod tdx;

//! The real binary, met by machines over real sockets. Their TPMs are fakes from `latchkey-attestation` (in `real_tpm`: swtpm);
//! everything else is what ships.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod joins;
mod rig;

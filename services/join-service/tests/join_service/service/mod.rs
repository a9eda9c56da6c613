//! The real binary, met by machines over real sockets. Their TPMs are fakes from `latchkey-attestation` (in `real_tpm`: swtpm);
//! everything else is what ships.
//!
//! The threats: a machine that is not what it says (impostor, locked, unknown TPM), one that is and wants more than its due
//! (another's name, disk, role), peers that are slow or many, files that are broken or swapped, a key service that is away.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

mod api_server;
mod approvals;
mod certificates;
mod certified_keys;
mod clocks;
mod control_planes;
mod crash;
mod denial_socket;
mod denials;
mod encrypted_guests;
mod firmware;
mod health;
mod joins;
mod key_service;
mod known_firmware;
mod limits;
mod manifests;
mod process;
mod real_tpm;
mod refusals;
mod reload;
mod renewals;
mod rig;
mod rotation;
mod unheard;

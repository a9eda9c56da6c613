//! The device module against swtpm, with tpm2-tools and the `tpm2-protocol` crate as second opinions. Tests skip, and
//! say so, where swtpm is not installed.

mod attestation_key;
mod attester;
mod bounds;
mod commands;
mod endorsement;
mod interposer;
mod lies;
mod secrecy;
mod support;
mod tools;

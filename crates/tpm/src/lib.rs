//! TPM 2.0 structures and commands in safe Rust.
//!
//! * [`wire`]: the structures that cross between a node and its verifier: public areas, quotes, signatures,
//!   PCR selections, credentials, and the templates and policies of endorsement and attestation keys.
//!   Total, bounded parsers; no I/O.
//! * `device` (feature `device`): commands over `/dev/tpmrm0` or a socket, HMAC sessions, and the node's
//!   attester.
//!
//! Section numbers refer to the *Trusted Platform Module Library Specification, Family 2.0, Revision 1.59*
//! unless a comment names another document.
#![forbid(unsafe_code)]

#[cfg(feature = "device")]
pub mod device;
pub mod wire;

//! TPM evidence: what a node shows, and what is demanded of one.

mod attester;
mod verifier;

pub use attester::{ProcessorReports, TpmAttester};
pub use verifier::{Observer, TpmPeer, TpmVerifier};

//! TPM evidence: what a node shows, and what is demanded of one.

mod appraiser;
mod prover;

pub use appraiser::{LockDemand, Observer, TpmAppraiser, TpmPeer};
pub use prover::TpmProver;

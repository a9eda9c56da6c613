//! What the tests and the benchmark share: a cluster in software.

pub(crate) mod fake_tpm;
pub(crate) mod world;

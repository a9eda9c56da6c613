//! The channel under attack. Each test is named after the attack it stops, or the promise it proves.
//!
//! Machines are fakes in software (see `support`) where the test needs a TPM in a state of its choice; `real_tpm` runs
//! against swtpm.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod azure_hcl;
mod frames;
mod honest;
mod real_tpm;
mod relay;
mod snp;
mod tls;
mod tpm_commands;
mod wrong_evidence;

//! What firmware and boot loaders measured, read from the TCG event log; and the manifests that say what they should have.
//!
//! 1. [`EventLog::parse`] reads a log: total, bounded, strict. What comes out is well-formed and nothing more; an event log
//!    is written by whatever booted.
//! 2. [`replay`] extends the events as a TPM would, in every bank, and [`replay::check`] holds the result against *quoted*
//!    PCRs. Only a log that passed this says anything about the machine.
//! 3. [`explain`] says in words what an event measured; [`difference`] which event of two logs is the first that differs.
//! 4. [`manifest`] makes reference values from a log and tells how a log and a manifest disagree; [`tell`] names the event
//!    behind a refusal.
//! 5. [`pe`] reads what is booted: boot stubs, kernels, unified kernel images.
//! 6. [`signing`] signs manifests as minisign does.
//! 7. [`report`] puts all of it on a screen or into JSON (`latchkey measure log`).
//! 8. [`launch`] predicts what an SEV-SNP guest reports as its launch digest.
//! 9. [`firmware`] keeps what a machine's firmware measured, and names what is new in it.
//! 10. [`cel`] reads logs in the canonical form: what systemd measures after the firmware.
//! 11. [`cc`] reads the logs of confidential machines (CCEL) and replays them to TDX's RTMRs.
//!
//! Specification: TCG PC Client Platform Firmware Profile (PFP) 1.05, sections 9 and 10.

#![forbid(unsafe_code)]

pub mod bank;
pub mod cc;
pub mod cel;
pub mod check;
mod codes;
pub mod diagnose;
pub mod difference;
pub mod disk_image;
pub mod error;
pub mod event;
pub mod explain;
pub mod firmware;
pub mod launch;
pub mod log;
#[cfg(any(test, feature = "log-sample"))]
pub mod log_sample;
pub mod manifest;
mod mr;
pub mod pe;
#[cfg(any(test, feature = "pe-sample"))]
pub mod pe_sample;
pub mod predict;
pub mod read_at;
pub mod registers;
pub mod replay;
pub mod report;
pub mod signing;
pub mod source;

pub use bank::{AlgorithmId, Bank};
pub use cc::{CcLog, Mr, RtmrSet, Rtmrs};
pub use codes::{MeasurementCode, reason_codes};
pub use difference::{EventDifference, explain_difference, explain_differences};
pub use error::{LogError, LogErrorKind};
pub use event::{Event, EventType};
pub use log::{EventLog, Format};
pub use replay::{Replay, ReplayError};

//! Edge Sync: tells the centre of an edge cluster's machines, and deploys to the cluster what the centre wants there.
//!
//! Decided, without I/O, clock or runtime; times are milliseconds:
//!
//! 1. [`hosts`]: Nodes as the hosts of a status; [`certificate`]: which certificate secrets are sealed for; [`sealed`]: which of them
//!    cannot be opened.
//! 2. [`status`]: what is told to the centre, and when.
//! 3. [`deployments`]: entries and templates as manifests, and which of them are applied or deleted.
//!
//! Done:
//!
//! 4. [`drive`]: follows Nodes, keys, sealed secrets, entries and what is deployed; writes the status, applies and deletes.
//! 5. `run`: the program, by its [`config`].

pub mod certificate;
pub mod config;
pub mod deployments;
pub mod drive;
pub mod hosts;
mod kinds;
mod run;
pub mod sealed;
pub mod status;

pub use run::run;

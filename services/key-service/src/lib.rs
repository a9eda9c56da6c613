//! The key service: derives data keys from the master secret for callers it knows.
//!
//! The way of a call, in code order:
//!
//! 1. `server` accepts within the limits, and lets TLS take no longer than configured.
//! 2. `tls` takes TLS 1.3 with a client certificate by a configured authority, and reads the names in it.
//! 3. [`callers`] finds the one rule that names the caller.
//! 4. [`decision`] checks rate, id, length and class, and derives. It is pure: no I/O, no clock.
//! 5. `service` writes the audit line, counts, and answers.
//!
//! `current` is what was read from files; SIGHUP reads it again, as a whole or not at all.
//! [`latchkey_service_runtime`] carries it, and serves `/metrics` and `/healthz` beside it.

pub mod callers;
pub mod config;
mod current;
pub mod decision;
mod metrics;
mod run;
mod server;
mod service;
mod tls;

pub use run::run;

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = latchkey_reason::Reason> {
    latchkey_reason::reasons::<decision::KeyRefusalCode>()
}

//! What every service stands on.
//!
//! In the order in which a service meets them:
//!
//! 1. [`program`]: the command line, exit codes, signals; [`log`].
//! 2. [`config`]: closed JSON from bounded files; [`pem`]: certificates and keys.
//! 3. [`serve`]: listening, connections within [`slots`] and [`rate`], the graceful end.
//! 4. [`request_id`], [`noise`]: what goes into the log, and how often.
//! 5. [`admin`], [`page`]: `/metrics` and `/healthz`.

pub mod admin;
pub mod config;
pub mod log;
pub mod log_limiter;
pub mod page;
pub mod pem;
pub mod program;
pub mod rate;
pub mod request_id;
pub mod serve;
pub mod slots;

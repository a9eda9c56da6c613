//! What every service stands on.
//!
//! In the order in which a service meets them:
//!
//! 1. [`binary`], [`program`]: the command line, exit codes, signals; [`log`].
//! 2. [`config`]: closed JSON from bounded files; [`pem`]: certificates and keys.
//! 3. [`serve`]: listening, [`connections`] within their limits, the graceful end; [`signals`] and what [`reload`] does.
//! 4. [`request_id`], [`log_limiter`]: what goes into the log, and how often.
//! 5. [`admin`], [`page`]: `/metrics` and `/healthz`; [`guarded`]: the same for other machines; [`pages`]: of
//!    programs without connections.

pub mod admin;
pub mod binary;
pub mod config;
pub mod connections;
pub mod guarded;
pub mod log;
pub mod log_limiter;
pub mod page;
pub mod pages;
pub mod pem;
mod process;
pub mod program;
pub mod reload;
pub mod request_id;
pub mod serve;
pub mod signals;

//! The directory of a Factory+ centre: where each service is.
//!
//! 1. [`address`]: the URL of a service, and what it is called from outside.
//! 2. [`advertised`]: what is advertised, by the configuration and by others; [`dump`]: many at once.
//! 3. [`api`]: what is asked over HTTP, and with which status it is answered.
//!
//! 4. [`keeper`]: the same durably, for many callers; [`server`]: over HTTP, with [`networks`] of proxies that are trusted.
//! 5. [`config`], `run`: the program.
//!
//! Up to [`api`] there is no I/O and no clock.

pub mod address;
pub mod advertised;
pub mod api;
pub mod config;
pub mod dump;
pub mod keeper;
pub mod networks;
mod run;
pub mod server;

pub use run::run;

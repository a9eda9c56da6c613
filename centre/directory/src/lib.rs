//! The directory of a Factory+ centre: where each service is.
//!
//! 1. [`address`]: the URL of a service, and what it is called from outside.
//! 2. [`advertised`]: what is advertised, by the configuration and by others; [`dump`]: many at once.
//! 3. [`api`]: what is asked over HTTP, and with which status it is answered.
//!
//! Up to here there is no I/O and no clock.

pub mod address;
pub mod advertised;
pub mod api;
pub mod dump;

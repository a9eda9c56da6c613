//! An edge cluster's operator of keys.
//!
//! 1. `redeem`: from a bootstrap link to this cluster's own keys, and Flux's.
//! 2. `operator`: the keys that `KerberosKey` and `LocalSecret` resources ask for.

#![forbid(unsafe_code)]

mod config;
mod failure;
mod kubernetes;
mod names;
mod operator;
mod program;
mod redeem;
mod secret;

pub use config::{Config, ConfigError, RedeemSection};
pub use failure::Failure;
pub use names::Names;
pub use program::run;

//! A centre on one machine, as text: nothing here reads or writes a file.
//!
//! 1. [`Parameters`]: what the operator decides, once; [`Service`]: the services of ours.
//! 2. [`Layout`]: where everything stands in the centre's directory.
//! 3. [`kdc`], [`broker`], [`services`]: the configuration files of the stock programs and of ours.
//! 4. [`units`]: the same as services of systemd.

pub mod broker;
pub mod kdc;
mod layout;
mod parameters;
mod service;
pub mod services;
pub mod units;

pub use layout::Layout;
pub use parameters::{Parameters, ParametersError, Place, Places, Program};
pub use service::{EnrolPlace, Service};

/// A file of a centre.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFile {
    /// Below the centre's directory.
    pub path: std::path::PathBuf,
    /// All of it.
    pub content: String,
}

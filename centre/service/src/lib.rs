//! What every service of a centre has besides its duty: three sections of its configuration, and what they make.
//!
//! 0. [`Program`]: from the command line to an exit code.
//! 1. [`KerberosConfig`]: who verifies callers.
//! 2. [`CentreConfig`]: where the other services are, and who this one is to them.
//! 3. [`AccessConfig`], [`AccessLists`]: what callers may do; [`Rights`] are asked before anything is done.
//! 4. [`Answer`]: what a service says, decided before it is HTTP; [`backup`]: a copy beside its file.

mod access;
mod answer;
pub mod backup;
mod centre;
mod kerberos;
mod program;

use std::path::PathBuf;

use latchkey_factory_plus_server::HttpConfig;

pub use access::{AccessConfig, AccessLists, Rights};
pub use answer::{Answer, Body};
pub use centre::{CentreConfig, CentreError, ServiceUrls};
pub use kerberos::{KerberosConfig, KerberosConfigError};
pub use program::Program;

/// The paths in the sections that every service has, for [`ConfigFile::paths`].
///
/// [`ConfigFile::paths`]: latchkey_service_runtime::config::ConfigFile::paths
pub fn shared_paths<'a>(
    http: &'a mut HttpConfig,
    kerberos: &'a mut KerberosConfig,
    centre: &'a mut CentreConfig,
) -> impl Iterator<Item = &'a mut PathBuf> {
    http.paths().chain(kerberos.paths()).chain(centre.paths())
}

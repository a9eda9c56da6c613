//! What every service of a centre has besides its duty: three sections of its configuration, and what they make.
//!
//! 0. [`Program`]: from the command line to an exit code.
//! 1. [`KerberosConfig`]: who verifies callers.
//! 2. [`CentreConfig`]: where the other services are, and who this one is to them.
//! 3. [`AccessConfig`], [`AccessLists`]: what callers may do; [`Rights`] are asked before anything is done.

mod access;
mod centre;
mod kerberos;
mod program;

pub use access::{AccessConfig, AccessLists, Rights};
pub use centre::{CentreConfig, CentreError, ServiceUrls};
pub use kerberos::{KerberosConfig, KerberosConfigError};
pub use program::Program;

//! Configuration files: bounded, closed JSON.

use serde::de::DeserializeOwned;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Far more than any service's configuration needs.
pub const MAX_FILE_SIZE: u64 = 1024 * 1024;

/// Why a configuration file gives no configuration. The operator's fault, all of them.
#[derive(Debug)]
pub enum ConfigFault {
    /// The file cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The file is larger than any sensible one.
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Not JSON of the closed schema; the message names line, column and field.
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        source: serde_json::Error,
    },
    /// A schema this program does not know.
    Schema {
        /// The one it knows.
        known: u32,
        /// What the file says.
        got: u32,
    },
    /// Metrics would be open to the network.
    AdminNotLoopback {
        /// What the file says.
        got: SocketAddr,
    },
    /// A number that would switch a protection off, or the service.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Smallest and largest value.
        range: (u32, u32),
        /// What the file says.
        got: u32,
    },
}

/// Reads and parses the file at `path`. The type says what is closed: use `deny_unknown_fields`.
///
/// # Errors
/// [`ConfigFault::Read`], [`ConfigFault::TooLarge`], [`ConfigFault::Syntax`].
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigFault> {
    let failed = |source| ConfigFault::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_FILE_SIZE + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_SIZE {
        return Err(ConfigFault::TooLarge { path: path.to_owned() });
    }
    serde_json::from_slice(&text).map_err(|source| ConfigFault::Syntax { path: path.to_owned(), source })
}

/// Checks `schema`.
///
/// # Errors
/// [`ConfigFault::Schema`].
pub fn check_schema(known: u32, got: u32) -> Result<(), ConfigFault> {
    if got == known { Ok(()) } else { Err(ConfigFault::Schema { known, got }) }
}

/// Checks `admin_listen`.
///
/// # Errors
/// [`ConfigFault::AdminNotLoopback`].
pub fn check_loopback(got: SocketAddr) -> Result<(), ConfigFault> {
    if got.ip().is_loopback() { Ok(()) } else { Err(ConfigFault::AdminNotLoopback { got }) }
}

/// Checks a number; both ends of `range` are allowed.
///
/// # Errors
/// [`ConfigFault::OutOfRange`].
pub fn check_range(field: &'static str, got: u32, range: (u32, u32)) -> Result<(), ConfigFault> {
    if (range.0..=range.1).contains(&got) { Ok(()) } else { Err(ConfigFault::OutOfRange { field, range, got }) }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "Cannot read {}: {source}", path.display()),
            Self::TooLarge { path } => write!(f, "{} is larger than {MAX_FILE_SIZE} bytes", path.display()),
            Self::Syntax { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Schema { known, got } => write!(f, "`schema` is {got}; this program knows schema {known}"),
            Self::AdminNotLoopback { got } => {
                write!(f, "`admin_listen` is {got}, which is not a loopback address; use 127.0.0.1 or [::1]")
            }
            Self::OutOfRange { field, range: (low, high), got } => {
                write!(f, "`{field}` is {got}; it must be between {low} and {high}")
            }
        }
    }
}

impl std::error::Error for ConfigFault {}

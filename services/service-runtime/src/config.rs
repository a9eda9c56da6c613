//! Configuration files: bounded, closed JSON.

use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Far more than any service's configuration needs.
pub const MAX_FILE_SIZE: u64 = 1024 * 1024;

/// Why a configuration file gives no configuration. The operator's fault, all of them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// The file cannot be read.
    #[error("Cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The file is larger than any sensible one.
    #[error("{} is larger than {MAX_FILE_SIZE} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Not JSON of the closed schema; the message names line, column and field.
    #[error("{}: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        source: serde_json::Error,
    },
    /// A schema this program does not know.
    #[error("`schema` is {got}; this program knows schema {known}")]
    Schema {
        /// The one it knows.
        known: u32,
        /// What the file says.
        got: u32,
    },
    /// What is for this machine alone would be open to the network.
    #[error("`{field}` is {got}, which is not a loopback address; use 127.0.0.1 or [::1]")]
    NotLoopback {
        /// The field.
        field: &'static str,
        /// What the file says.
        got: SocketAddr,
    },
    /// A number that would switch a protection off, or the service.
    #[error("`{field}` is {got}; it must be between {} and {}", range.0, range.1)]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Smallest and largest value.
        range: (u32, u32),
        /// What the file says.
        got: u32,
    },
}

/// A configuration with its schema.
pub trait Schema {
    /// The schema this program knows.
    const KNOWN: u32;

    /// The one that the file says.
    fn schema(&self) -> u32;
}

/// Reads and parses the file at `path`, and checks its schema. The type says what is closed: use `deny_unknown_fields`.
///
/// # Errors
/// [`ConfigFileError::Read`], [`ConfigFileError::TooLarge`], [`ConfigFileError::Syntax`], [`ConfigFileError::Schema`].
pub fn read<T: DeserializeOwned + Schema>(path: &Path) -> Result<T, ConfigFileError> {
    let failed = |source| ConfigFileError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_FILE_SIZE + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_SIZE {
        return Err(ConfigFileError::TooLarge { path: path.to_owned() });
    }
    let config: T =
        serde_json::from_slice(&text).map_err(|source| ConfigFileError::Syntax { path: path.to_owned(), source })?;
    let (known, got) = (T::KNOWN, config.schema());
    if got == known { Ok(config) } else { Err(ConfigFileError::Schema { known, got }) }
}

/// Makes paths that the file at `path` names relative to its directory.
pub fn resolve<'a>(path: &Path, named: impl IntoIterator<Item = &'a mut PathBuf>) {
    let directory = path.parent().unwrap_or(Path::new(""));
    for named in named {
        *named = directory.join(&*named);
    }
}

/// Checks an address on which only this machine is served.
///
/// # Errors
/// [`ConfigFileError::NotLoopback`].
pub fn check_loopback(field: &'static str, got: SocketAddr) -> Result<(), ConfigFileError> {
    if got.ip().is_loopback() { Ok(()) } else { Err(ConfigFileError::NotLoopback { field, got }) }
}

/// Checks a number; both ends of `range` are allowed.
///
/// # Errors
/// [`ConfigFileError::OutOfRange`].
pub fn check_range(field: &'static str, got: u32, range: (u32, u32)) -> Result<(), ConfigFileError> {
    if (range.0..=range.1).contains(&got) { Ok(()) } else { Err(ConfigFileError::OutOfRange { field, range, got }) }
}

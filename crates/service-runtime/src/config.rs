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
    /// Not JSON of the closed schema; the message names field, line and column.
    #[error("{}: {why}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What the parser found, and where.
        why: String,
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

/// The configuration of a service. What is closed the type says: use `deny_unknown_fields`.
pub trait ConfigFile: DeserializeOwned {
    /// The schema this program knows.
    const SCHEMA: u32;

    /// Why a file is refused: the operator's fault, always.
    type Error: From<ConfigFileError>;

    /// The schema that the file says.
    fn schema(&self) -> u32;

    /// What the types do not say, before anything is opened.
    ///
    /// # Errors
    /// The first value that cannot be meant.
    fn check(&self) -> Result<(), Self::Error>;

    /// Every path in it: where one is relative, it is so to the file's directory.
    fn paths(&mut self) -> Vec<&mut PathBuf>;

    /// Reads the file at `path`, and checks it as a whole.
    ///
    /// # Errors
    /// [`ConfigFileError`], and those of [`Self::check`].
    fn load(path: &Path) -> Result<Self, Self::Error> {
        Self::parse(path, &read(path)?)
    }

    /// The same with the text that stands there, or would.
    ///
    /// # Errors
    /// [`ConfigFileError::Syntax`], [`ConfigFileError::Schema`], and those of [`Self::check`].
    fn parse(path: &Path, text: &[u8]) -> Result<Self, Self::Error> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let syntax = |why: String| ConfigFileError::Syntax { path: path.to_owned(), why };
        let mut config: Self =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| syntax(error.to_string()))?;
        reader.end().map_err(|error| syntax(error.to_string()))?;
        let (known, got) = (Self::SCHEMA, config.schema());
        if got != known {
            return Err(ConfigFileError::Schema { known, got }.into());
        }
        config.check()?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for named in config.paths() {
            *named = directory.join(&*named);
        }
        Ok(config)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigFileError> {
    let failed = |source| ConfigFileError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_FILE_SIZE + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE_SIZE {
        return Err(ConfigFileError::TooLarge { path: path.to_owned() });
    }
    Ok(text)
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

//! Why a cluster directory, or a file of it, is not usable.

use latchkey_attestation::Refusal;
use latchkey_keys::FileFault;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The crate's public error: which file, and what is wrong with it.
#[derive(Debug)]
pub enum StoreError {
    /// The operating system refuses.
    Io {
        /// What was being done, e.g. `read`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// The file's content.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: Malformed,
    },
    /// A file that must be new is there already.
    Exists {
        /// The file.
        path: PathBuf,
    },
}

/// What is wrong with a file's content.
#[derive(Debug)]
pub enum Malformed {
    /// A directory, a pipe, a device.
    NotRegular,
    /// Larger than any sensible one; the limit in bytes.
    TooLarge(usize),
    /// Not JSON of the closed schema; line, column and field.
    Syntax(serde_json::Error),
    /// Another version than 1.
    Version(u64),
    /// A file that may hold a secret, and that others can read, or worse.
    Secret(FileFault),
    /// A rule between fields is broken.
    Rule(String),
    /// Policy or reference values, in the words of the attestation crate.
    Attestation(Box<Refusal>),
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    pub(crate) fn malformed(path: &Path) -> impl FnOnce(Malformed) -> Self {
        let path = path.to_owned();
        move |fault| Self::Malformed { path, fault }
    }

    /// The file or directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. } | Self::Malformed { path, .. } | Self::Exists { path } => path,
        }
    }

    /// Whether the file is simply not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, path, source } => write!(f, "Cannot {action} {}: {source}", path.display()),
            Self::Malformed { path, fault } => write!(f, "{}: {fault}", path.display()),
            Self::Exists { path } => write!(f, "{} exists already and is left as it is", path.display()),
        }
    }
}

impl std::error::Error for StoreError {}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegular => f.write_str("not a regular file"),
            Self::TooLarge(limit) => write!(f, "larger than {limit} bytes"),
            Self::Syntax(error) => error.fmt(f),
            Self::Version(got) => write!(f, "`version` is {got}; this program knows version 1"),
            Self::Secret(fault) => fault.fmt(f),
            Self::Rule(sentence) => f.write_str(sentence),
            Self::Attestation(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for Malformed {}

impl From<Refusal> for Malformed {
    fn from(refusal: Refusal) -> Self {
        Self::Attestation(Box::new(refusal))
    }
}

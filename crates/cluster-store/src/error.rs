//! Why a cluster directory, or a file of it, is not usable.

use crate::places::PlaceCode;
use latchkey_attestation::Refusal;
use latchkey_keys::SecretFileError;
use std::io;
use std::path::{Path, PathBuf};

/// The crate's public error: which file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refuses.
    #[error("Cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done, e.g. `read`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// The file's content.
    #[error("{}: {fault}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: ContentError,
    },
    /// A store that is no directory fails, and says why by a reason code of its own.
    #[error("{}: {detail} ({reason}); {remedy}", path.display(), remedy = .reason.remedy)]
    Elsewhere {
        /// What it was about, as that store names it.
        path: PathBuf,
        /// Its reason code.
        reason: latchkey_reason::Reason,
        /// What happened.
        detail: String,
    },
    /// A place that `latchkey init` makes is not there, and is not made in passing: see [`PlaceCode::Missing`].
    #[error("{} is gone, or is no directory ({}); {}", path.display(), PlaceCode::Missing, anew(of.as_deref()))]
    Place {
        /// The place.
        path: PathBuf,
        /// The cluster's directory; `None` at a centre.
        of: Option<PathBuf>,
    },
    /// A denial is in force, and could not be counted: see [`PlaceCode::NotCounted`].
    #[error("the machine is shut out, and that is not counted ({}): {why}", PlaceCode::NotCounted)]
    NotCounted {
        /// Why not.
        why: Box<StoreError>,
    },
    /// A denial is in force by the cluster's document, and could not be listed: see [`PlaceCode::NotListed`].
    #[error("the machine is shut out, and that is not listed ({}): {why}", PlaceCode::NotListed)]
    NotListed {
        /// Why not.
        why: Box<StoreError>,
    },
    /// A file that must be new is there already.
    #[error("{} exists already and is left as it is", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
}

/// What is wrong with a file's content.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// A directory, a pipe, a device.
    #[error("not a regular file")]
    NotRegular,
    /// Larger than any sensible one; the limit in bytes.
    #[error("larger than {0} bytes")]
    TooLarge(usize),
    /// Not JSON of the closed schema; line, column and field.
    #[error("{0}")]
    Syntax(serde_json::Error),
    /// Another version than the one that this program writes, or, where there is one, the one before.
    #[error("`version` is {got}; this program knows version {known}")]
    Version {
        /// The file's.
        got: u64,
        /// The newest that is known.
        known: u64,
    },
    /// A file that may hold a secret, and that others can read, or worse.
    #[error("{error}; {remedy}", error = .0, remedy = .0.code().remedy())]
    Secret(SecretFileError),
    /// A rule between fields is broken.
    #[error("{0}")]
    Rule(String),
    /// Policy or reference values, in the words of the attestation crate.
    #[error("{0}")]
    Attestation(Box<Refusal>),
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// The content of something that goes by this name is not usable.
    pub fn malformed(path: &Path) -> impl FnOnce(ContentError) -> Self {
        let path = path.to_owned();
        move |fault| Self::Malformed { path, fault }
    }

    /// The file or directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::Malformed { path, .. }
            | Self::Elsewhere { path, .. }
            | Self::Place { path, .. }
            | Self::Exists { path } => path,
            Self::NotCounted { why } | Self::NotListed { why } => why.path(),
        }
    }

    /// Whether the file is simply not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Refusal> for ContentError {
    fn from(refusal: Refusal) -> Self {
        Self::Attestation(Box::new(refusal))
    }
}

/// How a place is had again.
fn anew(of: Option<&Path>) -> String {
    let copy = "put it back from a copy, with what was in it";
    match of {
        Some(of) => {
            format!("{copy}; to begin it anew, see what `latchkey upgrade store --cluster {}` shows", of.display())
        }
        None => format!("{copy}, or make it, if nothing was in it"),
    }
}

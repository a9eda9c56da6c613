//! Everything that can go wrong here. Messages name the fix and never carry secret bytes.

use crate::{KeyClass, KeyLength, KeyVersion, Uuid};
use core::fmt;
use std::io;
use std::path::PathBuf;

/// The crate's public error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The id of a key, disk or cluster does not parse. The asker's fault.
    Id(IdError),
    /// A key of this many bytes cannot be had. The asker's fault.
    KeyLength {
        /// What was asked for.
        got: u32,
    },
    /// The master secret has no such version. The asker's fault, or an old secret was removed too early.
    UnknownVersion {
        /// What was asked for.
        asked: u32,
        /// What a request without a version would get.
        current: KeyVersion,
    },
    /// Bytes of the wrong number were offered as a secret.
    SecretLength {
        /// What was needed.
        expected: usize,
        /// What was given.
        got: usize,
    },
    /// The kernel gave no random bytes.
    Random,
    /// A file with a secret is not usable.
    File(FileError),
}

/// Why a text is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdError {
    /// No id at all: every asker would share one key.
    Empty,
    /// Longer than any valid id.
    TooLong,
    /// Not in the closed list of classes.
    UnknownClass,
    /// The class needs a parameter after a slash.
    ParameterMissing(KeyClass),
    /// The class takes no parameter.
    ParameterUnexpected(KeyClass),
    /// Not the 36-character form.
    UuidSyntax,
    /// The nil UUID names no disk.
    NilUuid,
    /// Not 64 hexadecimal digits.
    ClusterIdSyntax,
}

/// A file, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub fault: FileFault,
}

/// Why a file with a secret is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// A system call failed.
    Io {
        /// What was tried.
        action: &'static str,
        /// The operating system's number, if it gave one.
        errno: Option<i32>,
        /// The operating system's reason.
        kind: io::ErrorKind,
    },
    /// The path's last component is a symbolic link.
    Symlink,
    /// A directory, device, pipe or socket.
    NotRegular,
    /// Owned by somebody who is neither the effective user nor root.
    Owner {
        /// The owner's user id.
        uid: u32,
    },
    /// Group or others have access.
    Permissions {
        /// The permission bits found.
        mode: u32,
    },
    /// Larger than any valid file.
    TooLarge,
    /// Not JSON of the documented schema. Says where, and not what: the file's text is secret.
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A schema this program does not know.
    Schema {
        /// What the file says.
        got: u32,
    },
    /// The number of versions is outside the bounds.
    VersionCount {
        /// How many there are.
        got: usize,
    },
    /// The same version twice.
    VersionTwice(KeyVersion),
    /// `current` is not among the versions.
    CurrentMissing(KeyVersion),
    /// The new file's name is taken; an existing master secret is never overwritten.
    Exists,
}

impl FileFault {
    pub(crate) fn io(action: &'static str, error: &io::Error) -> Self {
        Self::Io { action, errno: error.raw_os_error(), kind: error.kind() }
    }

    pub(crate) fn at(self, path: &std::path::Path) -> KeyError {
        KeyError::File(FileError { path: path.to_owned(), fault: self })
    }
}

impl KeyError {
    /// Whether a file is simply not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::File(FileError { fault: FileFault::Io { kind: io::ErrorKind::NotFound, .. }, .. }))
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(error) => error.fmt(f),
            Self::KeyLength { got } => write!(
                f,
                "A key of {got} bytes cannot be derived: ask for {} to {} bytes",
                KeyLength::MIN,
                KeyLength::MAX
            ),
            Self::UnknownVersion { asked, current } => write!(
                f,
                "The master secret has no version {asked}: ask for a version it has, or for 0, the current one (now {current})"
            ),
            Self::SecretLength { expected, got } => write!(f, "A secret of {expected} bytes is needed, not of {got}"),
            Self::Random => f.write_str("The kernel gave no random bytes: check that getrandom(2) works here"),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "The key id is empty: {FORMS}"),
            Self::TooLong => write!(f, "The key id is longer than any valid one: {FORMS}"),
            Self::UnknownClass => write!(f, "The key id's class is unknown: {FORMS}"),
            Self::ParameterMissing(class) => write!(f, "`{class}` needs a name behind it: {FORMS}"),
            Self::ParameterUnexpected(class) => write!(f, "`{class}` takes nothing behind it: {FORMS}"),
            Self::UuidSyntax => write!(
                f,
                "Not a UUID: write {} characters such as f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
                Uuid::TEXT_LENGTH
            ),
            Self::NilUuid => f.write_str("The nil UUID names no disk: use the UUID in the disk's LUKS2 header"),
            Self::ClusterIdSyntax => f.write_str("Not a cluster id: write its 64 hexadecimal digits"),
        }
    }
}

const FORMS: &str = "use `state-disk/<uuid>` or `measurement-secret`";

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret file {}: {}", self.path.display(), self.fault)
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, errno: Some(errno), .. } => {
                write!(f, "cannot {action}: {}", io::Error::from_raw_os_error(*errno))
            }
            Self::Io { action, errno: None, kind } => write!(f, "cannot {action}: {kind}"),
            Self::Symlink => f.write_str("is a symbolic link; give the path of the file itself"),
            Self::NotRegular => f.write_str("is not a regular file"),
            Self::Owner { uid } => {
                write!(f, "is owned by user {uid}; chown it to the user that runs this program, or to root")
            }
            Self::Permissions { mode } => write!(f, "has mode {mode:04o}; chmod it to 0600 or 0400"),
            Self::TooLarge => f.write_str("is larger than any valid one; is this the right file?"),
            Self::Syntax { line, column } => write!(
                f,
                "does not follow the schema at line {line}, column {column}; see the documentation of MasterSecret"
            ),
            Self::Schema { got } => write!(f, "has schema {got}; this program knows schema 1"),
            Self::VersionCount { got } => write!(f, "holds {got} versions; 1 to 64 are possible"),
            Self::VersionTwice(version) => write!(f, "holds version {version} twice; keep one"),
            Self::CurrentMissing(version) => write!(f, "names version {version} as current but does not hold it"),
            Self::Exists => f.write_str("exists already; choose another name, a master secret is never overwritten"),
        }
    }
}

impl std::error::Error for KeyError {}
impl std::error::Error for IdError {}
impl std::error::Error for FileError {}

impl From<IdError> for KeyError {
    fn from(error: IdError) -> Self {
        Self::Id(error)
    }
}

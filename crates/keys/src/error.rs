//! Everything that can go wrong here. Messages never carry secret bytes.

use crate::{ClusterId, KeyClass, KeyLength, KeyVersion, Uuid};
use latchkey_reason::{Reason, reason_codes, reasons};
use std::io;
use std::path::PathBuf;

/// The crate's public error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The id of a key, disk or cluster does not parse. The asker's fault.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A key of this many bytes cannot be had. The asker's fault.
    #[error("a key of {got} bytes cannot be derived, only of {} to {} bytes", KeyLength::MIN, KeyLength::MAX)]
    KeyLength {
        /// What was asked for.
        got: u32,
    },
    /// The master secret has no such version. The asker's fault, or an old secret was removed too early.
    #[error("the master secret has no version {asked}; the current one is {current}")]
    UnknownVersion {
        /// What was asked for.
        asked: u32,
        /// What a request without a version would get.
        current: KeyVersion,
    },
    /// A master secret and a cluster's salt do not give the cluster's id. The wrong file was named.
    #[error("the master secret is not the one of the cluster {0}")]
    OtherCluster(ClusterId),
    /// Bytes of the wrong number were offered as a secret.
    #[error("a secret of {expected} bytes is needed, not of {got}")]
    SecretLength {
        /// What was needed.
        expected: usize,
        /// What was given.
        got: usize,
    },
    /// The kernel gave no random bytes.
    #[error("the kernel gave no random bytes")]
    Random,
    /// A file with a secret is not usable.
    #[error(transparent)]
    File(FileError),
}

/// Why a text is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// No id at all: every asker would share one key.
    #[error("the key id is empty")]
    Empty,
    /// Longer than any valid id.
    #[error("the key id is longer than any valid one")]
    TooLong,
    /// Not in the closed list of classes.
    #[error("the key id's class is unknown")]
    UnknownClass,
    /// The class needs a parameter after a slash.
    #[error("`{0}` needs a name behind it")]
    ParameterMissing(KeyClass),
    /// The class takes no parameter.
    #[error("`{0}` takes nothing behind it")]
    ParameterUnexpected(KeyClass),
    /// Not the 36-character form.
    #[error("not a UUID, which has {} characters, such as f81d4fae-7dec-11d0-a765-00a0c91e6bf6", Uuid::TEXT_LENGTH)]
    UuidSyntax,
    /// The nil UUID names no disk.
    #[error("the nil UUID names no disk")]
    NilUuid,
    /// Not 64 hexadecimal digits.
    #[error("not a cluster id, which has 64 hexadecimal digits")]
    ClusterIdSyntax,
}

/// A file, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("secret file {}: {error}", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub error: SecretFileError,
}

/// Why a file with a secret is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretFileError {
    /// A system call failed.
    #[error("cannot {action}: {}", said(*.errno, *.kind))]
    Io {
        /// What was tried.
        action: &'static str,
        /// The operating system's number, if it gave one.
        errno: Option<i32>,
        /// The operating system's reason.
        kind: io::ErrorKind,
    },
    /// The path's last component is a symbolic link.
    #[error("is a symbolic link")]
    Symlink,
    /// A directory, device, pipe or socket.
    #[error("is not a regular file")]
    NotRegular,
    /// Owned by somebody who is neither the effective user nor root.
    #[error("is owned by user {uid}")]
    Owner {
        /// The owner's user id.
        uid: u32,
    },
    /// Group or others have access.
    #[error("has mode {mode:04o}")]
    Permissions {
        /// The permission bits found.
        mode: u32,
    },
    /// Larger than any valid file.
    #[error("is larger than any valid one")]
    TooLarge,
    /// Not JSON of the documented schema. Says where, and not what: the file's text is secret.
    #[error("does not follow the schema at line {line}, column {column}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A schema this program does not know.
    #[error("has schema {got}; this program knows schema 1")]
    Schema {
        /// What the file says.
        got: u32,
    },
    /// The number of versions is outside the bounds.
    #[error("holds {got} versions; 1 to 64 are possible")]
    VersionCount {
        /// How many there are.
        got: usize,
    },
    /// The same version twice.
    #[error("holds version {0} twice")]
    VersionTwice(KeyVersion),
    /// `current` is not among the versions.
    #[error("names version {0} as current but does not hold it")]
    CurrentMissing(KeyVersion),
    /// The new file's name is taken; an existing master secret is never overwritten.
    #[error("exists already")]
    Exists,
}

/// What the operating system said.
fn said(errno: Option<i32>, kind: io::ErrorKind) -> String {
    errno.map_or_else(|| kind.to_string(), |errno| io::Error::from_raw_os_error(errno).to_string())
}

reason_codes! {
    /// Why there is no key, or no secret.
    pub enum KeyCode {
        /// The id of a key does not parse.
        Id = "key-id-invalid": "use `state-disk/<uuid>`, `measurement-secret` or `secrets-at-rest`";
        /// The UUID of a disk does not parse, or is nil.
        Uuid = "disk-uuid-invalid": "use the UUID in the disk's LUKS2 header";
        /// The id of a cluster does not parse.
        ClusterId = "cluster-id-invalid": "write the 64 hexadecimal digits of the cluster's id";
        /// A key of this length cannot be had.
        Length = "key-length-invalid": "ask for 16 to 64 bytes";
        /// The master secret has no such version.
        UnknownVersion = "key-version-unknown": "ask for a version that it has, or for 0, the current one";
        /// The master secret is not the one that the cluster was begun with: no key that comes from it opens a disk of the cluster.
        OtherCluster = "master-secret-of-another-cluster":
            "name the master secret that `latchkey init` was given for this cluster, or a copy of it";
        /// Bytes of the wrong number were offered as a secret.
        SecretLength = "secret-length-invalid": "give a secret of the length that is named";
        /// The kernel gave no random bytes.
        Random = "no-randomness": "check that getrandom(2) works here";
        /// A file with a secret cannot be read or written.
        FileIo = "secret-file-io": "check the path, the disk, and who may read the file";
        /// Its path leads to a symbolic link.
        FileLink = "secret-file-link": "give the path of the file itself";
        /// It is a directory, device, pipe or socket.
        FileKind = "secret-file-not-regular": "give the path of a regular file";
        /// It belongs to somebody else.
        FileOwner = "secret-file-owner": "chown it to the user that runs this program, or to root";
        /// Group or others have access.
        FilePermissions = "secret-file-permissions": "chmod it to 0600 or 0400";
        /// It is larger than any valid file.
        FileTooLarge = "secret-file-too-large": "give the file that is meant";
        /// It does not follow the schema of a master secret.
        FileMalformed = "secret-file-malformed": "restore the file from a copy; `latchkey secret new` shows the schema";
        /// The new file's name is taken.
        FileExists = "secret-file-exists": "choose another name: a secret is never overwritten";
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = Reason> {
    reasons::<KeyCode>()
}

impl SecretFileError {
    pub(crate) fn io(action: &'static str, error: &io::Error) -> Self {
        Self::Io { action, errno: error.raw_os_error(), kind: error.kind() }
    }

    pub(crate) fn at(self, path: &std::path::Path) -> KeyError {
        KeyError::File(FileError { path: path.to_owned(), error: self })
    }

    /// The stable reason code.
    pub const fn code(&self) -> KeyCode {
        match self {
            Self::Io { .. } => KeyCode::FileIo,
            Self::Symlink => KeyCode::FileLink,
            Self::NotRegular => KeyCode::FileKind,
            Self::Owner { .. } => KeyCode::FileOwner,
            Self::Permissions { .. } => KeyCode::FilePermissions,
            Self::TooLarge => KeyCode::FileTooLarge,
            Self::Syntax { .. }
            | Self::Schema { .. }
            | Self::VersionCount { .. }
            | Self::VersionTwice(_)
            | Self::CurrentMissing(_) => KeyCode::FileMalformed,
            Self::Exists => KeyCode::FileExists,
        }
    }
}

impl IdError {
    /// The stable reason code.
    pub const fn code(self) -> KeyCode {
        match self {
            Self::Empty
            | Self::TooLong
            | Self::UnknownClass
            | Self::ParameterMissing(_)
            | Self::ParameterUnexpected(_) => KeyCode::Id,
            Self::UuidSyntax | Self::NilUuid => KeyCode::Uuid,
            Self::ClusterIdSyntax => KeyCode::ClusterId,
        }
    }
}

impl KeyError {
    /// Whether a file is simply not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::File(FileError { error: SecretFileError::Io { kind: io::ErrorKind::NotFound, .. }, .. }))
    }

    /// The stable reason code.
    pub const fn code(&self) -> KeyCode {
        match self {
            Self::Id(error) => error.code(),
            Self::KeyLength { .. } => KeyCode::Length,
            Self::UnknownVersion { .. } => KeyCode::UnknownVersion,
            Self::OtherCluster(_) => KeyCode::OtherCluster,
            Self::SecretLength { .. } => KeyCode::SecretLength,
            Self::Random => KeyCode::Random,
            Self::File(FileError { error, .. }) => error.code(),
        }
    }
}

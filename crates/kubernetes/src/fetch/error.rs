//! Why a file was not got.

use std::io;
use std::path::PathBuf;

use latchkey_mirror::MirrorError;

use super::code::FetchCode;
use crate::hash::Sha256;

/// Why a file was not got. Texts name the address or path.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Where components come from is neither a folder nor an address.
    #[error("{0}")]
    Origin(String),
    /// The mirror did not give it.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// The table has no address for it.
    #[error("{0} has no official address in the version table")]
    NoAddress(String),
    /// It is not there.
    #[error("{0} is not there")]
    Missing(String),
    /// The connection broke again and again.
    #[error("{place}: interrupted {times} times, the last time after {got} bytes: {reason}")]
    Interrupted {
        /// The address.
        place: String,
        /// How often.
        times: u32,
        /// How much there is.
        got: u64,
        /// What went wrong.
        reason: String,
    },
    /// It is longer than the table allows.
    #[error("{place}: more than {max} bytes, which is what the version table allows")]
    TooLarge {
        /// The address or path.
        place: String,
        /// What the table allows.
        max: u64,
    },
    /// It is another file.
    #[error("{place}: its SHA-256 is {got}, and the version table says {expected}")]
    Differs {
        /// The address or path.
        place: String,
        /// What the table says.
        expected: Sha256,
        /// What it is.
        got: Sha256,
    },
    /// Another process has locked it.
    #[error("{}: somebody else is getting this file", .0.display())]
    Busy(PathBuf),
    /// Not a file, but a directory, a device or a link.
    #[error("{} is no plain file", .0.display())]
    NoFile(PathBuf),
    /// It is no archive.
    #[error("{}: {source}", .path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// Why it cannot be unpacked.
        source: io::Error,
    },
    /// What the table takes out of an archive is not usable.
    #[error("{}: {member:?} {what}", .path.display())]
    Member {
        /// The archive.
        path: PathBuf,
        /// Which file in it.
        member: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl FetchError {
    /// The stable reason code.
    pub fn code(&self) -> FetchCode {
        match self {
            Self::Origin(_) => FetchCode::OriginRefused,
            Self::Mirror(error) => match error {
                MirrorError::NoAuthorities => FetchCode::NoAuthorities,
                MirrorError::Missing(_) => FetchCode::Missing,
                MirrorError::Request { .. } => FetchCode::Unreachable,
                MirrorError::Status { .. } => FetchCode::AnswerRefused,
                MirrorError::Slow { .. } => FetchCode::TooSlow,
            },
            Self::NoAddress(_) => FetchCode::NoAddress,
            Self::Missing(_) => FetchCode::Missing,
            Self::Interrupted { .. } => FetchCode::Interrupted,
            Self::TooLarge { .. } => FetchCode::TooLarge,
            Self::Differs { .. } => FetchCode::HashDiffers,
            Self::Busy(_) => FetchCode::Busy,
            Self::Archive { .. } | Self::Member { .. } => FetchCode::ArchiveUnusable,
            Self::Io { source, .. } if is_full(source) => FetchCode::NoRoom,
            Self::NoFile(_) | Self::Io { .. } => FetchCode::FileUnusable,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Names the file that an operation failed at.
pub(super) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> FetchError {
    let path = path.into();
    move |source| FetchError::Io { path, source }
}

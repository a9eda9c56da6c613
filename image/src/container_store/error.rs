//! Why container images are not put into an image.

use std::io;
use std::path::PathBuf;

use crate::program::ProgramError;

/// Why container images are not put into an image. Texts name the archive.
#[derive(Debug, thiserror::Error)]
pub enum ContainerStoreError {
    /// The archive is no archive of an image.
    #[error("{}: {why}", .path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It holds another image than the version table names.
    #[error("{}: it has no image with the digest {expected} of the version table", .path.display())]
    Digest {
        /// The archive.
        path: PathBuf,
        /// What the table says.
        expected: String,
    },
    /// Something in it hashes to something else than what names it.
    #[error("{}: {what} hashes to {got}, and is named {expected}", .path.display())]
    Differs {
        /// The archive.
        path: PathBuf,
        /// What in it.
        what: String,
        /// What names it.
        expected: String,
        /// What it is.
        got: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// mksquashfs is missing or failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl ContainerStoreError {
    /// What to do.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Archive { .. } => {
                "give an archive as `docker save`, or `skopeo copy … oci-archive:FILE`, writes it, for linux/amd64, not packed"
            }
            Self::Digest { .. } => {
                "make the archive of NAME@DIGEST: skopeo copy --all docker://NAME@DIGEST oci-archive:FILE"
            }
            Self::Differs { .. } => "make the archive again: it is damaged, or was changed",
            Self::Io { .. } => "check the path, who may read or write it, and whether there is room",
            Self::Program(error) => return error.remedy(),
        })
    }
}

/// Names the file that an operation failed at.
pub(super) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ContainerStoreError {
    let path = path.into();
    move |source| ContainerStoreError::Io { path, source }
}

//! Why a node does not have its components.

use std::io;
use std::path::{Path, PathBuf};

use latchkey_kubernetes::fetch::{FetchCode, FetchError};
use latchkey_kubernetes::{ListError, Sha256};
use latchkey_reason::{Reason, ReasonCode as _, reason_codes};

reason_codes! {
    /// Why a node does not have its components, besides what lists and mirrors do.
    pub enum ComponentsCode {
        /// The list on the disk is not there, or another one.
        ListChanged = "component-list-changed":
            "wipe the node's state disk, and it joins anew; of a node that nobody touched, look at its disk";
        /// Something on the disk cannot be read or written.
        StoreUnusable = "component-store-unusable": "look at the node's state disk";
        /// Somebody else works on it.
        StoreBusy = "component-store-busy": "wait until the other run is done";
    }
}

/// Why a node does not have its components.
#[derive(Debug, thiserror::Error)]
pub enum ComponentsError {
    /// The list cannot be used.
    #[error(transparent)]
    List(#[from] ListError),
    /// A component is not there.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// There is no list on the disk.
    #[error("{} is not there, and the node's record names it", .0.display())]
    NoList(PathBuf),
    /// The list on the disk is another one than the one that is asked for.
    #[error("{}: its SHA-256 is {found}, and the node's record says {expected}", .path.display())]
    ListChanged {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: Sha256,
        /// What it should be.
        expected: Sha256,
    },
    /// Another process works on the store.
    #[error("{}: somebody else is at work on it", .0.display())]
    Busy(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl ComponentsError {
    /// The stable reason code, with what to do.
    pub fn reason(&self) -> Reason {
        match self {
            Self::List(error) => error.code().reason(),
            Self::Fetch(error) => error.code().reason(),
            Self::NoList(_) | Self::ListChanged { .. } => ComponentsCode::ListChanged.reason(),
            Self::Busy(_) => ComponentsCode::StoreBusy.reason(),
            Self::Io { source, .. }
                if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                FetchCode::NoRoom.reason()
            }
            Self::Io { .. } => ComponentsCode::StoreUnusable.reason(),
        }
    }
}

/// Names the file that an operation failed at.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> ComponentsError + use<> {
    let path = path.to_owned();
    move |source| ComponentsError::Io { path, source }
}

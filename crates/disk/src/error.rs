//! The crate's public error. Each module has its own small one; this enum only says which of them it was.

use crate::luks2::{HeaderRefusal, StateError, UnlockCode, UnlockError};
use crate::mapper::{MapCode, MapError};
use crate::probe::{DiskCode, DiskRefusal};
use crate::random::RandomError;
use crate::superblock::{SuperblockCode, SuperblockRefusal};
use latchkey_reason::{Reason, reason_codes, reasons};
use std::io;

/// What can go wrong with a state disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The device did not do what it was asked.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The disk is neither fresh nor ours.
    #[error(transparent)]
    Disk(#[from] DiskRefusal),
    /// The header is outside the closed list.
    #[error("the state disk's header is refused: {}", .0.sentence())]
    Header(#[from] HeaderRefusal),
    /// The header does not open with this key.
    #[error(transparent)]
    Unlock(#[from] UnlockError),
    /// The superblock below the authenticated mode is not the one that was made.
    #[error(transparent)]
    Superblock(#[from] SuperblockRefusal),
    /// The node state may not be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// No random bytes.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The device mapper refused.
    #[error(transparent)]
    Map(#[from] MapError),
}

reason_codes! {
    /// What else can go wrong with a state disk.
    pub enum StorageCode {
        /// The device did not do what it was asked.
        Io = "disk-io": "check the disk";
        /// The state that is to be written is out of bounds.
        State = "disk-state": "reset the disk to make another node of it";
        /// The kernel gave no random bytes.
        Random = "no-random": "check that getrandom(2) works here";
    }
}

impl DiskError {
    /// The stable reason code, with its remedy.
    pub fn code(&self) -> Reason {
        match self {
            Self::Io { .. } => StorageCode::Io.into(),
            Self::Disk(refusal) => refusal.code().into(),
            Self::Header(refusal) => (*refusal).into(),
            Self::Unlock(error) => error.code().into(),
            Self::Superblock(refusal) => refusal.code().into(),
            Self::State(_) => StorageCode::State.into(),
            Self::Random(_) => StorageCode::Random.into(),
            Self::Map(error) => error.code().into(),
        }
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = Reason> {
    reasons::<DiskCode>()
        .chain(reasons::<StorageCode>())
        .chain(reasons::<UnlockCode>())
        .chain(reasons::<HeaderRefusal>())
        .chain(reasons::<SuperblockCode>())
        .chain(reasons::<MapCode>())
}

/// Says what was tried when an I/O call failed.
pub(crate) const fn io(action: &'static str) -> impl FnOnce(io::Error) -> DiskError {
    move |source| DiskError::Io { action, source }
}

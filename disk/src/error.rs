//! The crate's public error. Each module has its own small one; this enum only says which of them it was.

use crate::luks2::{HeaderRefusal, StateFault, UnlockError};
use crate::mapper::MapError;
use crate::probe::DiskRefusal;
use crate::random::NoRandom;
use crate::superblock::SuperblockRefusal;
use core::fmt;
use std::io;

/// What can go wrong with a state disk.
#[derive(Debug)]
pub enum DiskError {
    /// The device did not do what it was asked.
    Io {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The disk is neither fresh nor ours.
    Disk(DiskRefusal),
    /// The header is outside the closed list.
    Header(HeaderRefusal),
    /// The header does not open with this key.
    Unlock(UnlockError),
    /// The superblock below the authenticated mode is not the one that was made.
    Superblock(SuperblockRefusal),
    /// The node state may not be written.
    State(StateFault),
    /// No random bytes.
    Random(NoRandom),
    /// The device mapper refused.
    Map(MapError),
}

impl DiskError {
    /// The stable, kebab-case code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "disk-io",
            Self::Disk(refusal) => refusal.code(),
            Self::Header(refusal) => refusal.code(),
            Self::Unlock(error) => error.code(),
            Self::Superblock(refusal) => refusal.code(),
            Self::State(_) => "disk-state",
            Self::Random(_) => "no-random",
            Self::Map(error) => error.code(),
        }
    }
}

/// Says what was tried when an I/O call failed.
pub(crate) const fn io(action: &'static str) -> impl FnOnce(io::Error) -> DiskError {
    move |source| DiskError::Io { action, source }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, source } => write!(f, "Cannot {action} (disk-io): {source}; check the disk"),
            Self::Disk(error) => error.fmt(f),
            Self::Header(error) => error.fmt(f),
            Self::Unlock(error) => error.fmt(f),
            Self::Superblock(error) => error.fmt(f),
            Self::State(error) => error.fmt(f),
            Self::Random(error) => error.fmt(f),
            Self::Map(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($variant:ident($error:ty)),* $(,)?) => {$(
        impl From<$error> for DiskError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from!(
    Disk(DiskRefusal),
    Header(HeaderRefusal),
    Unlock(UnlockError),
    Superblock(SuperblockRefusal),
    State(StateFault),
    Random(NoRandom),
    Map(MapError),
);

//! LUKS2 headers: a closed list of two shapes, read once, checked field by field, authenticated with the disk's key.
//!
//! The way of a header, in code order: `binary` (two copies, checksums, the newer valid one) → `metadata` (JSON, closed
//! schema) → `volume` (the closed list) → `token` (the node state and its MAC) → `header` (the types in between) →
//! `unlocked`. `write` makes new headers and replaces the state in old ones.

mod binary;
mod header;
mod metadata;
mod mode;
mod refusal;
mod state;
#[cfg(test)]
mod tests;
mod token;
mod unlocked;
mod volume;
mod write;

pub use header::{CheckedHeader, UncheckedHeader};
pub use mode::{SECTOR, SegmentMode};
pub use refusal::HeaderRefusal;
pub use state::{NodeName, NodeState, Phase, Role, StateError};
pub use token::TokenKey;
pub use unlocked::{UnlockCode, UnlockError, UnlockedDisk, VolumeKey};
pub use write::{NewDisk, update_state};

pub(crate) use binary::{HEADER_SIZES, MAGIC_PRIMARY, MAGIC_SECONDARY};
pub(crate) use volume::MIB;
pub(crate) use write::{Draft, HEADERS};

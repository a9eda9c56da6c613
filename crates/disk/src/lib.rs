//! The state disk: LUKS2, the authenticated token, device-mapper.
//!
//! A disk's way through this crate, in code order; each type is made only by the step before it:
//!
//! 1. [`Disk::open_exclusive`] opens the device; [`probe()`] reads its beginning once and says [`Probe::Fresh`],
//!    [`Probe::Existing`] or [`Probe::Refused`].
//! 2. Existing: [`UncheckedHeader::check`] holds every field against a closed list → [`CheckedHeader`], whose UUID names
//!    the key to ask for. [`CheckedHeader::unlock`] with the key checks key slot, digest and MAC → [`UnlockedDisk`].
//! 3. [`Mapping::open`] hands the volume key to dm-crypt through the kernel's keyring and leaves a [`TokenKey`].
//! 4. Fresh: [`Mapping::format`] with the issued key formats and maps in one go, since the authenticated mode is made
//!    through its mapping.
//! 5. The OS stage says with that key what became of the bootstrap: [`update_state`]; or [`reset()`] gives the disk back.
//!
//! All that is on the disk is attacker's input. It is readable by stock cryptsetup (`cryptsetup open --key-file`), and
//! what stock cryptsetup makes is readable here as far as the closed list goes.

mod block;
mod bytes;
mod dm;
mod error;
mod foreign;
mod kdf;
mod keyring;
mod luks2;
mod mapper;
mod marker;
#[cfg(test)]
mod power_cut;
mod probe;
mod random;
mod reset;
mod superblock;
#[cfg(test)]
mod testing;
mod xts;

pub use block::{BlockDevice, DeviceNumber, Disk};
pub use dm::{Control, MappingName, NameError, OnCorruption, Status, Table, TargetVersion, VerityRoot};
pub use error::{DiskError, StorageCode, reason_codes};
pub use foreign::Foreign;
pub use keyring::{KeyDescription, LoadedKey};
pub use luks2::{
    CheckedHeader, HeaderRefusal, NewDisk, NodeName, NodeState, Phase, Role, SECTOR, SegmentMode, StateError, TokenKey,
    UncheckedHeader, UnlockCode, UnlockError, UnlockedDisk, VolumeKey, update_state,
};
pub use mapper::{MapCode, MapError, Mapping, Step};
pub use marker::{ResetMarker, ResetReason, ResetReasonError};
pub use probe::{DiskCode, DiskRefusal, Fresh, MIN_SIZE, Probe, probe};
pub use random::{KernelRandom, Random, RandomError};
pub use reset::{ResetPermit, reset};
pub use superblock::{Field, Geometry, SuperblockCode, SuperblockRefusal};

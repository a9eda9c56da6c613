//! The formats that a boot begins with, each read in one place: by the agent on a node, and by those who build and predict
//! images on a host.
//!
//! * [`Guid`] (UEFI 2.10, appendix A) and those of [partitions](partition_type) and of [firmware](firmware_guid) that
//!   Latchkey knows;
//! * [`Cursor`] and the functions beside it: little-endian fields of bytes that somebody else wrote, never beyond their end;
//! * [`ReadAt`]: bytes that can be read at any place;
//! * [`Window`]: a part of them;
//! * `fat` (feature): a bounded reader of FAT file systems;
//! * `gpt` (feature): a strict, bounded reader of GUID partition tables, with their CRC-32;
//! * `sha256` (feature): SHA-256 of bytes in memory.
//!
//! Everything here is total: whatever the bytes are, there is an answer and no panic, and memory is taken only for what was
//! checked to be there or to be small.

#![forbid(unsafe_code)]

#[cfg(feature = "gpt")]
mod crc32;
mod cursor;
#[cfg(feature = "fat")]
pub mod fat;
pub mod firmware_guid;
#[cfg(feature = "gpt")]
pub mod gpt;
#[cfg(feature = "gpt-sample")]
pub mod gpt_sample;
mod guid;
pub mod partition_type;
mod read_at;
#[cfg(feature = "sha256")]
mod sha256;
mod window;

#[cfg(feature = "gpt")]
pub use crc32::crc32;
pub use cursor::{Cursor, array_at, slice_at, u16_at, u32_at, u64_at};
pub use guid::Guid;
pub use read_at::ReadAt;
#[cfg(feature = "sha256")]
pub use sha256::sha256;
pub use window::Window;

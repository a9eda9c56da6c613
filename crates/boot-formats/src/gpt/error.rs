//! Why a partition table is not taken.

use std::io;

/// A partition table is not acceptable.
#[derive(Debug, thiserror::Error)]
pub enum GptError {
    /// The disk has no GPT.
    #[error("there is no GPT")]
    Absent,
    /// Sectors of this size do not exist.
    #[error("the size of its sectors is unknown")]
    SectorSize,
    /// The disk cannot be read.
    #[error(transparent)]
    Io(io::Error),
    /// A field of the header is out of bounds.
    #[error("the header is wrong in {0}")]
    Header(&'static str),
    /// The checksum of the header does not match.
    #[error("the checksum of the header does not match")]
    HeaderChecksum,
    /// The checksum of the table does not match.
    #[error("the checksum of the entries does not match")]
    EntriesChecksum,
    /// A partition lies outside of the usable range.
    #[error("partition {number} lies outside of the usable range")]
    Partition {
        /// Its number.
        number: u32,
    },
}

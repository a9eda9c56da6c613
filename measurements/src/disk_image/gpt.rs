//! The EFI system partition of a disk with a GUID partition table, in sectors of 512 bytes.

use latchkey_boot_formats::gpt::{self, GptError};
use latchkey_boot_formats::partition_type;

use super::{ImageError, ReadAt, unreadable};

/// First byte and size of the one EFI system partition.
///
/// Only the first copy of the table is looked at: an image whose first copy is broken is broken.
pub(super) fn esp<R: ReadAt + ?Sized>(disk: &R, size: u64) -> Result<(u64, u64), ImageError> {
    let table = gpt::read_primary(disk, size, SECTOR).map_err(error)?;
    let mut found = table.partitions.iter().filter(|partition| partition.kind == partition_type::ESP);
    let esp = found.next().ok_or(ImageError::NoEsp)?;
    if found.next().is_some() {
        return Err(ImageError::SeveralEsps);
    }
    // What the reader takes lies on the disk.
    esp.extent(SECTOR.into()).ok_or(ImageError::Truncated)
}

fn error(error: GptError) -> ImageError {
    match error {
        GptError::Absent => ImageError::NotAnImage,
        GptError::Io(error) => unreadable(error),
        other => ImageError::BadPartitionTable(other.to_string()),
    }
}

const SECTOR: u32 = 512;

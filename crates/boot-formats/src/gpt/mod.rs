//! A strict, bounded reader of GUID partition tables (UEFI 2.10, section 5.3).
//!
//! The table is whatever the disk's owner or host wrote. Each copy is taken whole or not at all: signature, revision,
//! both checksums, the place of the header, the bounds of the table and of every partition. If the primary copy is
//! damaged, the backup at the end of the disk is read, as the kernel does with its parameter `gpt`.

mod error;
mod header;
mod partition;
#[cfg(test)]
mod tests;

pub use error::GptError;
pub use header::Header;
pub use partition::Partition;

use crate::{Guid, ReadAt, crc32};

const MAX_SECTOR: u32 = 4096;

/// A partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The disk's GUID.
    pub disk: Guid,
    /// The used entries, by number.
    pub partitions: Vec<Partition>,
    /// Which of the two copies this is.
    pub copy: Copy,
}

/// Which copy of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// The one at the beginning of the disk.
    Primary,
    /// The one at its end; the primary is damaged.
    Backup,
}

/// Reads the table of a disk of this many bytes and sectors of this size (512 to 4096, a power of two).
///
/// # Errors
/// [`GptError`], that of the primary copy if both are damaged; [`GptError::Absent`] for a disk without any trace of a table.
pub fn read(disk: &(impl ReadAt + ?Sized), bytes: u64, sector: u32) -> Result<Table, GptError> {
    let reader = Reader::new(disk, bytes, sector)?;
    match reader.copy(1) {
        Ok(raw) => Ok(raw.table(Copy::Primary)),
        Err(error) => reader.copy(reader.last).map(|raw| raw.table(Copy::Backup)).map_err(|_| error),
    }
}

/// Reads the primary copy only, with the bytes it is made of.
///
/// # Errors
/// [`GptError`], as [`read`].
pub fn read_primary(disk: &(impl ReadAt + ?Sized), bytes: u64, sector: u32) -> Result<RawTable, GptError> {
    Reader::new(disk, bytes, sector)?.copy(1)
}

/// A copy of a table that has passed all checks, as it stands on the disk.
#[derive(Debug)]
pub struct RawTable {
    /// Its header.
    pub header: Header,
    /// The sector that the header stands in.
    pub header_sector: Vec<u8>,
    /// All entries, used or not.
    pub entries: Vec<u8>,
    /// The used ones.
    pub partitions: Vec<Partition>,
}

impl RawTable {
    fn table(self, copy: Copy) -> Table {
        Table { disk: self.header.disk, partitions: self.partitions, copy }
    }
}

struct Reader<'a, D: ?Sized> {
    disk: &'a D,
    sector: u32,
    /// The disk's last sector.
    last: u64,
}

impl<'a, D: ReadAt + ?Sized> Reader<'a, D> {
    fn new(disk: &'a D, bytes: u64, sector: u32) -> Result<Self, GptError> {
        if !sector.is_power_of_two() || !(512..=MAX_SECTOR).contains(&sector) {
            return Err(GptError::SectorSize);
        }
        // Sector 0 is the protective MBR; the smallest table has a header and a sector of entries at each end.
        let last = (bytes / u64::from(sector)).checked_sub(1).filter(|last| *last >= 5).ok_or(GptError::Absent)?;
        Ok(Self { disk, sector, last })
    }

    fn copy(&self, at: u64) -> Result<RawTable, GptError> {
        let header_sector = self.bytes(at, self.sector as usize)?;
        let header = Header::checked(&header_sector, at, self.last)?;
        let entries = self.bytes(header.entries_at, header.entries as usize * header.entry_size as usize)?;
        if crc32(&entries) != header.entries_checksum {
            return Err(GptError::EntriesChecksum);
        }
        let mut partitions = Vec::new();
        for (entry, number) in entries.chunks_exact(header.entry_size as usize).zip(1..) {
            let Some(partition) = Partition::read(entry, number) else { continue };
            if !partition.lies_in(&header.usable()) {
                return Err(GptError::Partition { number });
            }
            partitions.push(partition);
        }
        Ok(RawTable { header, header_sector, entries, partitions })
    }

    /// At most a sector, or as much as a checked header says.
    fn bytes(&self, sector: u64, length: usize) -> Result<Vec<u8>, GptError> {
        let mut buffer = vec![0; length];
        let at = sector.checked_mul(self.sector.into()).ok_or(GptError::Header("the place of its table"))?;
        self.disk.read_exact_at(&mut buffer, at).map_err(GptError::Io)?;
        Ok(buffer)
    }
}

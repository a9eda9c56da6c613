//! The header of a partition table (section 5.3.2).

use std::ops::RangeInclusive;

use super::GptError;
use crate::{Cursor, Guid, crc32};

/// The most entries read; every tool writes 128.
const MAX_ENTRIES: u32 = 1024;
/// Section 5.3.3: "The size of each entry is 128 × 2ⁿ bytes"; larger ones are in use nowhere.
const MAX_ENTRY_SIZE: u32 = 1024;

/// A header's fields. Places are in sectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// How many bytes its checksum covers.
    pub size: u32,
    /// Where it stands itself, or so it says.
    pub own: u64,
    /// Where the other copy's header stands, or so it says.
    pub other: u64,
    /// The first sector that a partition may have.
    pub first_usable: u64,
    /// The last one.
    pub last_usable: u64,
    /// The disk's GUID.
    pub disk: Guid,
    /// Where the entries begin.
    pub entries_at: u64,
    /// How many there are.
    pub entries: u32,
    /// Bytes of each.
    pub entry_size: u32,
    pub(super) entries_checksum: u32,
    revision: u32,
    checksum: u32,
}

impl Header {
    /// Bytes of the fields.
    pub const SIZE: usize = 92;
    /// What it begins with.
    pub const SIGNATURE: [u8; 8] = *b"EFI PART";

    /// The fields as they stand there, nothing checked; `None` when there are not enough bytes.
    pub fn unchecked(bytes: &[u8]) -> Option<Self> {
        let mut fields = Cursor::new(bytes);
        let _signature: [u8; 8] = fields.array()?;
        let (revision, size, checksum, _reserved) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
        let (own, other, first_usable, last_usable) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let (disk, entries_at) = (fields.guid()?, fields.u64()?);
        let (entries, entry_size, entries_checksum) = (fields.u32()?, fields.u32()?, fields.u32()?);
        Some(Self {
            size,
            own,
            other,
            first_usable,
            last_usable,
            disk,
            entries_at,
            entries,
            entry_size,
            entries_checksum,
            revision,
            checksum,
        })
    }

    /// The header in this sector, which is the one at `at` of a disk that ends with sector `last`.
    pub(super) fn checked(sector: &[u8], at: u64, last: u64) -> Result<Self, GptError> {
        if !sector.starts_with(&Self::SIGNATURE) {
            return Err(GptError::Absent);
        }
        let header = Self::unchecked(sector).ok_or(GptError::Header("its length"))?;
        let size = header.size as usize;
        // Section 5.3.2: "must be greater than or equal to 92 and must be less than or equal to the logical block size".
        if header.revision != 0x0001_0000 || !(Self::SIZE..=sector.len()).contains(&size) {
            return Err(GptError::Header("its revision or size"));
        }
        let mut covered = sector.get(..size).ok_or(GptError::Header("its size"))?.to_vec();
        // "This value is computed by setting this field to 0".
        if let Some(field) = covered.get_mut(16..20) {
            field.fill(0);
        }
        if crc32(&covered) != header.checksum {
            return Err(GptError::HeaderChecksum);
        }
        if header.own != at {
            return Err(GptError::Header("its own place"));
        }
        header.check(sector.len() as u64, last)?;
        Ok(header)
    }

    fn check(&self, sector: u64, last: u64) -> Result<(), GptError> {
        let size_ok = self.entry_size.is_power_of_two() && (128..=MAX_ENTRY_SIZE).contains(&self.entry_size);
        if !size_ok || self.entries == 0 || self.entries > MAX_ENTRIES {
            return Err(GptError::Header("the size of its table"));
        }
        let usable = self.usable();
        if usable.is_empty() || *usable.start() < 2 {
            return Err(GptError::Header("its usable range"));
        }
        if *usable.end() > last {
            return Err(GptError::Header(
                "its usable range, which ends behind the disk: the disk or image is cut short",
            ));
        }
        let sectors = (u64::from(self.entries) * u64::from(self.entry_size)).div_ceil(sector);
        let end = self.entries_at.checked_add(sectors).ok_or(GptError::Header("the place of its table"))?;
        let overlaps = self.entries_at <= *usable.end() && end > *usable.start();
        if self.entries_at < 2 || end > last + 1 || overlaps {
            return Err(GptError::Header("the place of its table"));
        }
        Ok(())
    }

    /// The sectors that partitions may have.
    pub fn usable(&self) -> RangeInclusive<u64> {
        self.first_usable..=self.last_usable
    }
}

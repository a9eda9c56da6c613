//! An entry of a partition table (section 5.3.3).

use std::ops::RangeInclusive;

use crate::{Cursor, Guid};

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1, as in the kernel's device names.
    pub number: u32,
    /// Its type.
    pub kind: Guid,
    /// Its own GUID.
    pub id: Guid,
    /// Its first sector.
    pub first: u64,
    /// Its last sector.
    pub last: u64,
    /// Its label, as far as it is UTF-16.
    pub label: String,
}

impl Partition {
    /// Bytes of the fields; an entry may be longer.
    pub const SIZE: usize = 128;

    /// The partition in an entry, with the number that the entry has; `None` when the entry is unused or too short.
    pub fn read(entry: &[u8], number: u32) -> Option<Self> {
        let mut fields = Cursor::new(entry);
        let kind = fields.guid().filter(|kind| !kind.is_zero())?;
        let (id, first, last, _attributes) = (fields.guid()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let (units, _) = fields.take(72)?.as_chunks::<2>();
        let units = units.iter().map(|unit| u16::from_le_bytes(*unit)).take_while(|unit| *unit != 0);
        let label = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        Some(Self { number, kind, id, first, last, label })
    }

    pub(super) fn lies_in(&self, usable: &RangeInclusive<u64>) -> bool {
        self.first <= self.last && usable.contains(&self.first) && usable.contains(&self.last)
    }

    /// Its first byte and how many bytes it has on a disk with sectors of this size; `None` when no disk has so many.
    pub fn extent(&self, sector: u64) -> Option<(u64, u64)> {
        let sectors = self.last.checked_sub(self.first)?.checked_add(1)?;
        Some((self.first.checked_mul(sector)?, sectors.checked_mul(sector)?))
    }
}

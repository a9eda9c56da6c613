//! The superblock of dm-integrity, below the authenticated mode: attacker's input that the kernel reads for itself.
//!
//! The kernel writes it once, when the disk is formatted, and its geometry goes into the token under our MAC. On every
//! later boot it is read and held against that *before* the device is given to the kernel, field by field. What this
//! cannot do is make the kernel read the same bytes: a host can show them one superblock each. Then the kernel's own
//! checks, and the tag of every sector, are what is left.
//!
//! Source: the kernel's `drivers/md/dm-integrity.c`, `struct superblock` (6.1 to 6.12). Little-endian.

use crate::block::BlockDevice;
use crate::bytes::is_zero;
use crate::error::{DiskError, io};
use latchkey_boot_formats::{array_at, slice_at};
use latchkey_reason::reason_codes;

/// `SB_SECTORS`: the superblock owns this many bytes, of which the kernel uses the first 64.
pub(crate) const SUPERBLOCK: usize = 4096;

/// What dm-integrity counts in.
pub(crate) const UNIT: u64 = 512;

/// Bytes of a tag: the IV and the HMAC-SHA256 of one sector.
pub(crate) const TAG: u16 = 16 + 32;

const MAGIC: [u8; 8] = *b"integrt\0";
/// `SB_VERSION_4`: the version that has `SB_FLAG_FIXED_PADDING`.
const VERSION: u64 = 4;
/// `DEFAULT_INTERLEAVE_SECTORS` is 32768.
const LOG2_INTERLEAVE: u64 = 15;
/// `SB_FLAG_FIXED_PADDING` and nothing else: no journal MAC, no bitmap, no recalculation.
const FLAGS: u64 = 8;
/// 8 units of 512 bytes.
const LOG2_UNITS_PER_SECTOR: u64 = 3;
/// `DEFAULT_SECTORS_PER_BITMAP_BIT` is 32768 units; written always, used by the bitmap mode only.
const LOG2_SECTORS_PER_BITMAP_BIT: u64 = 12;
/// A journal section holds at least one sector of 4096 bytes, and the largest journal the kernel makes is 64 MiB.
const MAX_JOURNAL_SECTIONS: u64 = (64 << 20) / 4096;

const AT_VERSION: usize = 8;
const AT_INTERLEAVE: usize = 9;
const AT_TAG: usize = 10;
const AT_JOURNAL_SECTIONS: usize = 12;
const AT_DATA_SECTORS: usize = 16;
const AT_FLAGS: usize = 24;
const AT_UNITS: usize = 28;
const AT_BITMAP: usize = 29;
const AT_REST: usize = 30;

/// What dm-integrity made of a disk. Recorded in the token, so that a disk that was cut short, or whose journal was
/// moved, is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Units of 512 bytes that the mapping has: everything but superblock, journal and tags.
    pub data_sectors: u64,
    /// Sections of the journal; the data begins behind it.
    pub journal_sections: u32,
}

impl Geometry {
    /// Whether a disk could have it at all. Also what the token is held to.
    pub(crate) fn is_possible(self) -> bool {
        let sectors = self.data_sectors;
        sectors > 0
            && sectors.is_multiple_of(1 << LOG2_UNITS_PER_SECTOR)
            && sectors <= u64::MAX / UNIT
            && (1..=MAX_JOURNAL_SECTIONS).contains(&u64::from(self.journal_sections))
    }
}

/// Reads the superblock at `offset` and holds every field of it against what the kernel writes for our table.
///
/// # Errors
/// [`DiskError::Io`], or [`DiskError::Superblock`] with the first field that is wrong.
pub(crate) fn read(device: &impl BlockDevice, offset: u64) -> Result<Geometry, DiskError> {
    let mut bytes = [0; SUPERBLOCK];
    device.read_at(offset, &mut bytes).map_err(io("read the integrity superblock"))?;
    let size = device.size().map_err(io("ask for the disk's size"))?;
    Ok(parse(&bytes, size.saturating_sub(offset))?)
}

/// The same, and the geometry must be the recorded one. The data may have become larger, since the kernel fits it to a
/// disk that grew; what is mapped is what was recorded.
///
/// # Errors
/// As for [`read`].
pub(crate) fn read_expecting(device: &impl BlockDevice, offset: u64, recorded: Geometry) -> Result<(), DiskError> {
    let found = read(device, offset)?;
    expect(Field::JournalSections, recorded.journal_sections.into(), found.journal_sections.into())?;
    if found.data_sectors < recorded.data_sectors {
        return Err(SuperblockRefusal {
            field: Field::DataSectors,
            expected: recorded.data_sectors,
            got: found.data_sectors,
        }
        .into());
    }
    Ok(())
}

/// `room`: bytes of the device from the superblock on.
fn parse(bytes: &[u8], room: u64) -> Result<Geometry, SuperblockRefusal> {
    let magic = array_at(bytes, 0).map_or(0, u64::from_be_bytes);
    expect(Field::Magic, u64::from_be_bytes(MAGIC), magic)?;
    expect(Field::Version, VERSION, byte(bytes, AT_VERSION))?;
    expect(Field::Interleave, LOG2_INTERLEAVE, byte(bytes, AT_INTERLEAVE))?;
    expect(Field::TagSize, TAG.into(), array_at(bytes, AT_TAG).map_or(0, u16::from_le_bytes).into())?;
    expect(Field::Flags, FLAGS, array_at(bytes, AT_FLAGS).map_or(0, u32::from_le_bytes).into())?;
    expect(Field::SectorSize, LOG2_UNITS_PER_SECTOR, byte(bytes, AT_UNITS))?;
    expect(Field::Bitmap, LOG2_SECTORS_PER_BITMAP_BIT, byte(bytes, AT_BITMAP))?;
    let rest = slice_at(bytes, AT_REST, SUPERBLOCK - AT_REST).is_some_and(is_zero);
    expect(Field::Rest, 0, u64::from(!rest))?;
    let journal_sections = array_at(bytes, AT_JOURNAL_SECTIONS).map_or(0, u32::from_le_bytes);
    let data_sectors = array_at(bytes, AT_DATA_SECTORS).map_or(0, u64::from_le_bytes);
    let geometry = Geometry { data_sectors, journal_sections };
    let most = room / UNIT;
    let wrong = |field, expected, got| Err(SuperblockRefusal { field, expected, got });
    if least_room(data_sectors).is_none_or(|least| least > most)
        || !(Geometry { journal_sections: 1, ..geometry }).is_possible()
    {
        return wrong(Field::DataSectors, most, data_sectors);
    }
    if !geometry.is_possible() {
        return wrong(Field::JournalSections, MAX_JOURNAL_SECTIONS, journal_sections.into());
    }
    Ok(geometry)
}

/// Units that superblock, data and tags take; how large the journal is, only the kernel knows.
fn least_room(data_sectors: u64) -> Option<u64> {
    const TAGS: u64 = (TAG as u64) << (LOG2_INTERLEAVE - LOG2_UNITS_PER_SECTOR);
    let runs = data_sectors.div_ceil(1 << LOG2_INTERLEAVE).checked_mul(TAGS / UNIT)?;
    data_sectors.checked_add(runs)?.checked_add(SUPERBLOCK as u64 / UNIT)
}

fn byte(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at).copied().unwrap_or_default().into()
}

fn expect(field: Field, expected: u64, got: u64) -> Result<(), SuperblockRefusal> {
    if expected == got { Ok(()) } else { Err(SuperblockRefusal { field, expected, got }) }
}

/// A field of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each field's sentence is in `text`, next to its code")]
pub enum Field {
    Magic,
    Version,
    Interleave,
    TagSize,
    JournalSections,
    DataSectors,
    Flags,
    SectorSize,
    Bitmap,
    Rest,
}

/// The first field of the integrity superblock that is not as it must be. Whoever wrote the disk is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state disk's integrity superblock is refused: {}: expected {expected}, got {got}", .field.name())]
pub struct SuperblockRefusal {
    /// Which.
    pub field: Field,
    /// What it must be; the bound where there is one.
    pub expected: u64,
    /// What it is.
    pub got: u64,
}

reason_codes! {
    /// The first field of dm-integrity's superblock that is not as it was recorded: the disk was changed or cut short outside
    /// Latchkey.
    pub enum SuperblockCode {
        /// There is no integrity superblock.
        Magic = "integrity-magic": "restore the disk, or give the node another one";
        /// Its version.
        Version = "integrity-version": "restore the disk, or give the node another one";
        /// The distance between tags.
        Interleave = "integrity-interleave": "restore the disk, or give the node another one";
        /// The size of a tag.
        TagSize = "integrity-tag-size": "restore the disk, or give the node another one";
        /// The journal's length.
        Journal = "integrity-journal": "restore the disk, or give the node another one";
        /// The data's length.
        DataSize = "integrity-data-size": "restore the disk, or give the node another one";
        /// The flags.
        Flags = "integrity-flags": "restore the disk, or give the node another one";
        /// The sector size.
        SectorSize = "integrity-sector-size": "restore the disk, or give the node another one";
        /// The share of a bitmap's bit.
        Bitmap = "integrity-bitmap": "restore the disk, or give the node another one";
        /// What must be zero.
        Padding = "integrity-padding": "restore the disk, or give the node another one";
    }
}

impl Field {
    const fn name(self) -> &'static str {
        match self {
            Self::Magic => "there is none",
            Self::Version => "its version",
            Self::Interleave => "the distance between tags",
            Self::TagSize => "the size of a tag",
            Self::JournalSections => "the journal's length",
            Self::DataSectors => "the data's length",
            Self::Flags => "the flags",
            Self::SectorSize => "the sector size",
            Self::Bitmap => "the share of a bitmap's bit",
            Self::Rest => "what must be zero",
        }
    }
}

impl SuperblockRefusal {
    /// The stable reason code.
    pub const fn code(self) -> SuperblockCode {
        match self.field {
            Field::Magic => SuperblockCode::Magic,
            Field::Version => SuperblockCode::Version,
            Field::Interleave => SuperblockCode::Interleave,
            Field::TagSize => SuperblockCode::TagSize,
            Field::JournalSections => SuperblockCode::Journal,
            Field::DataSectors => SuperblockCode::DataSize,
            Field::Flags => SuperblockCode::Flags,
            Field::SectorSize => SuperblockCode::SectorSize,
            Field::Bitmap => SuperblockCode::Bitmap,
            Field::Rest => SuperblockCode::Padding,
        }
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    /// As the kernel writes it.
    pub(crate) fn superblock(geometry: Geometry) -> Vec<u8> {
        let mut bytes = b"integrt\0\x04\x0f\x30\0".to_vec();
        bytes.extend(geometry.journal_sections.to_le_bytes());
        bytes.extend(geometry.data_sectors.to_le_bytes());
        bytes.extend([8, 0, 0, 0, 3, 12]);
        bytes.resize(SUPERBLOCK, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::superblock;
    use super::*;
    use crate::testing::{DISK_SIZE, MemoryDisk};

    const GEOMETRY: Geometry = Geometry { data_sectors: 4096, journal_sections: 3 };
    const OFFSET: usize = 1 << 20;

    fn disk(superblock: &[u8]) -> MemoryDisk {
        let mut disk = MemoryDisk::blank(DISK_SIZE);
        disk.bytes[OFFSET..OFFSET + SUPERBLOCK].copy_from_slice(superblock);
        disk
    }

    fn refusal(superblock: &[u8]) -> Field {
        match read_expecting(&disk(superblock), OFFSET as u64, GEOMETRY) {
            Err(DiskError::Superblock(refusal)) => refusal.field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_kernel_wrote_is_accepted() {
        let disk = disk(&superblock(GEOMETRY));
        assert_eq!(read(&disk, OFFSET as u64).unwrap(), GEOMETRY);
        read_expecting(&disk, OFFSET as u64, GEOMETRY).unwrap();
    }

    #[test]
    fn every_flipped_bit_is_refused_or_a_disk_that_grew() {
        let whole = superblock(GEOMETRY);
        let mut grown = 0;
        for bit in 0..SUPERBLOCK * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match read_expecting(&disk(&flipped), OFFSET as u64, GEOMETRY) {
                Ok(()) => {
                    let data_sectors = u64::from_le_bytes(flipped[16..24].try_into().unwrap());
                    assert!(data_sectors > GEOMETRY.data_sectors && data_sectors * UNIT < (DISK_SIZE - OFFSET) as u64);
                    grown += 1;
                }
                Err(DiskError::Superblock(_)) => {}
                Err(other) => panic!("bit {bit}: {other}"),
            }
        }
        assert!(grown > 0);
    }

    #[test]
    fn each_field_has_its_own_refusal() {
        let cases: &[(usize, &[u8], Field)] = &[
            (0, &[0; 8], Field::Magic),
            (8, &[5], Field::Version),
            (9, &[3], Field::Interleave),
            (10, &[32], Field::TagSize),
            (12, &4_u32.to_le_bytes(), Field::JournalSections),
            (12, &0_u32.to_le_bytes(), Field::JournalSections),
            (12, &u32::MAX.to_le_bytes(), Field::JournalSections),
            (16, &4088_u64.to_le_bytes(), Field::DataSectors),
            (16, &0_u64.to_le_bytes(), Field::DataSectors),
            (16, &4097_u64.to_le_bytes(), Field::DataSectors),
            (16, &6144_u64.to_le_bytes(), Field::DataSectors),
            (16, &u64::MAX.to_le_bytes(), Field::DataSectors),
            (24, &[9], Field::Flags),
            (24, &[10], Field::Flags),
            (28, &[0], Field::SectorSize),
            (29, &[0], Field::Bitmap),
            (30, &[1], Field::Rest),
            (32, &[1], Field::Rest),
            (48, &[1], Field::Rest),
            (4095, &[1], Field::Rest),
        ];
        for &(at, bytes, expected) in cases {
            let mut changed = superblock(GEOMETRY);
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(refusal(&changed), expected, "{bytes:?} at {at}");
        }
    }

    #[test]
    fn a_disk_that_was_cut_short_is_refused() {
        let mut disk = disk(&superblock(GEOMETRY));
        disk.bytes.truncate(OFFSET + 4096 * 512);
        let error = read_expecting(&disk, OFFSET as u64, GEOMETRY).unwrap_err();
        assert_eq!(error.code(), SuperblockCode::DataSize);
        disk.bytes.truncate(OFFSET + 512);
        assert_eq!(read(&disk, OFFSET as u64).unwrap_err().code(), crate::StorageCode::Io);
    }
}

//! A strict, bounded reader of GUID partition tables (UEFI 2.10 section 5.3).
//!
//! The table is whatever the disk's owner or host wrote. Each copy is taken whole or not at all: signature, revision,
//! both checksums, the place of the header, the bounds of the table and of every partition. If the primary copy is
//! damaged, the backup at the end of the disk is read, as the kernel does with its parameter `gpt`.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use latchkey_node_config::Guid;

/// The most entries read; every tool writes 128.
const MAX_ENTRIES: u32 = 1024;
/// Section 5.3.3: "The size of each entry is 128 × 2ⁿ bytes"; larger ones are in use nowhere.
const MAX_ENTRY_SIZE: u32 = 1024;
/// Section 5.3.2: the fields of the header end here.
const HEADER_SIZE: u32 = 92;
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
    /// Its label.
    pub label: String,
}

/// Reads the table of a disk of this many bytes and sectors of this size (512 to 4096, a power of two).
///
/// The fault is that of the primary copy, if both are damaged. A disk without any trace of a GPT gives
/// [`GptFault::Absent`].
pub fn read(disk: &mut (impl Read + Seek), bytes: u64, sector: u32) -> Result<Table, GptFault> {
    if !sector.is_power_of_two() || !(512..=MAX_SECTOR).contains(&sector) {
        return Err(GptFault::SectorSize);
    }
    // Sector 0 is the protective MBR; the smallest table has a header and a sector of entries at each end.
    let last = (bytes / u64::from(sector)).checked_sub(1).filter(|last| *last >= 5).ok_or(GptFault::Absent)?;
    let mut reader = Reader { disk, sector, last };
    match reader.copy(1) {
        Ok(raw) => Ok(raw.table(Copy::Primary)),
        Err(fault) => reader.copy(last).map(|raw| raw.table(Copy::Backup)).map_err(|_| fault),
    }
}

/// Reads the primary copy only, with the bytes it is made of.
pub(super) fn read_primary(disk: &mut (impl Read + Seek), last: u64, sector: u32) -> Result<Raw, GptFault> {
    Reader { disk, sector, last }.copy(1)
}

/// A copy of a table that has passed all checks, as it stands on the disk.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) header: Header,
    /// The sector that the header stands in.
    pub(super) header_sector: Vec<u8>,
    /// All entries, used or not.
    pub(super) entries: Vec<u8>,
    pub(super) partitions: Vec<Partition>,
}

impl Raw {
    fn table(self, copy: Copy) -> Table {
        Table { disk: self.header.disk, partitions: self.partitions, copy }
    }
}

struct Reader<'a, D> {
    disk: &'a mut D,
    sector: u32,
    /// The disk's last sector.
    last: u64,
}

/// The fields of a header that anybody needs.
#[derive(Debug)]
pub(super) struct Header {
    disk: Guid,
    /// How many bytes its checksum covers.
    pub(super) size: u32,
    /// Where the other copy's header stands, or so it says.
    pub(super) other: u64,
    pub(super) first_usable: u64,
    pub(super) last_usable: u64,
    pub(super) entries_at: u64,
    entries: u32,
    pub(super) entry_size: u32,
    entries_crc: u32,
}

impl<D: Read + Seek> Reader<'_, D> {
    fn copy(&mut self, at: u64) -> Result<Raw, GptFault> {
        let header_sector = self.bytes(at, self.sector as usize)?;
        let header = self.header(&header_sector, at)?;
        let table = self.bytes(header.entries_at, header.entries as usize * header.entry_size as usize)?;
        if crc32(&table) != header.entries_crc {
            return Err(GptFault::EntriesChecksum);
        }
        let entries = table.chunks_exact(header.entry_size as usize).zip(1..);
        let partitions: Result<Vec<_>, _> =
            entries.filter_map(|(entry, number)| partition(entry, number, &header)).collect();
        Ok(Raw { partitions: partitions?, header, header_sector, entries: table })
    }

    fn header(&self, sector: &[u8], at: u64) -> Result<Header, GptFault> {
        if sector.get(..8) != Some(b"EFI PART") {
            return Err(GptFault::Absent);
        }
        let size = u32_at(sector, 12)?;
        // Section 5.3.2: "must be greater than or equal to 92 and must be less than or equal to the logical block size".
        if u32_at(sector, 8)? != 0x0001_0000 || !(HEADER_SIZE..=self.sector).contains(&size) {
            return Err(GptFault::Header("its revision or size"));
        }
        let mut covered = sector.get(..size as usize).ok_or(GptFault::Header("its size"))?.to_vec();
        if let Some(crc) = covered.get_mut(16..20) {
            crc.fill(0);
        }
        if crc32(&covered) != u32_at(sector, 16)? {
            return Err(GptFault::HeaderChecksum);
        }
        let header = Header {
            size,
            other: u64_at(sector, 32)?,
            disk: Guid::from_disk_order(array_at(sector, 56)?),
            first_usable: u64_at(sector, 40)?,
            last_usable: u64_at(sector, 48)?,
            entries_at: u64_at(sector, 72)?,
            entries: u32_at(sector, 80)?,
            entry_size: u32_at(sector, 84)?,
            entries_crc: u32_at(sector, 88)?,
        };
        if u64_at(sector, 24)? != at {
            return Err(GptFault::Header("its own place"));
        }
        self.check(&header)?;
        Ok(header)
    }

    fn check(&self, header: &Header) -> Result<(), GptFault> {
        let size_ok = header.entry_size.is_power_of_two() && (128..=MAX_ENTRY_SIZE).contains(&header.entry_size);
        if !size_ok || header.entries == 0 || header.entries > MAX_ENTRIES {
            return Err(GptFault::Header("the size of its table"));
        }
        let sectors = (u64::from(header.entries) * u64::from(header.entry_size)).div_ceil(u64::from(self.sector));
        let end = header.entries_at.checked_add(sectors).ok_or(GptFault::Header("the place of its table"))?;
        let usable = header.first_usable..=header.last_usable;
        let overlaps = header.entries_at <= *usable.end() && end > *usable.start();
        if header.entries_at < 2 || end > self.last + 1 || overlaps {
            return Err(GptFault::Header("the place of its table"));
        }
        if usable.is_empty() || *usable.start() < 2 || *usable.end() > self.last {
            return Err(GptFault::Header("its usable range"));
        }
        Ok(())
    }

    fn bytes(&mut self, sector: u64, length: usize) -> Result<Vec<u8>, GptFault> {
        // At most MAX_ENTRIES * MAX_ENTRY_SIZE bytes, checked before.
        let mut buffer = vec![0; length];
        let at = sector.checked_mul(self.sector.into()).ok_or(GptFault::Header("the place of its table"))?;
        self.disk.seek(SeekFrom::Start(at)).map_err(GptFault::Io)?;
        self.disk.read_exact(&mut buffer).map_err(GptFault::Io)?;
        Ok(buffer)
    }
}

fn partition(entry: &[u8], number: u32, header: &Header) -> Option<Result<Partition, GptFault>> {
    let read = || {
        let kind = Guid::from_disk_order(array_at(entry, 0)?);
        if kind.is_zero() {
            return Ok(None);
        }
        let (first, last) = (u64_at(entry, 32)?, u64_at(entry, 40)?);
        if first > last || first < header.first_usable || last > header.last_usable {
            return Err(GptFault::Partition { number });
        }
        let name =
            entry.get(56..128).unwrap_or_default().chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        let name = char::decode_utf16(name.take_while(|unit| *unit != 0));
        let label = name.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        Ok(Some(Partition { number, kind, id: Guid::from_disk_order(array_at(entry, 16)?), first, last, label }))
    };
    read().transpose()
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], GptFault> {
    bytes.get(at..at + N).and_then(|slice| slice.try_into().ok()).ok_or(GptFault::Header("its length"))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, GptFault> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, GptFault> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

/// Section 5.3.1: "the 32-bit CRC \[…\] the same as in ISO/IEC 3309" with seed and final complement of all ones; bit by
/// bit, since a table has 16 KiB and is read once.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

/// A partition table is not acceptable.
#[derive(Debug)]
pub enum GptFault {
    /// The disk has no GPT.
    Absent,
    /// Sectors of this size do not exist.
    SectorSize,
    /// The disk can not be read.
    Io(io::Error),
    /// A field of the header is out of bounds.
    Header(&'static str),
    /// The checksum of the header does not match.
    HeaderChecksum,
    /// The checksum of the table does not match.
    EntriesChecksum,
    /// A partition lies outside of the usable range.
    Partition {
        /// Its number.
        number: u32,
    },
}

impl fmt::Display for GptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(f, "there is no GPT"),
            Self::SectorSize => write!(f, "the size of its sectors is unknown"),
            Self::Io(error) => error.fmt(f),
            Self::Header(what) => write!(f, "the header is wrong in {what}"),
            Self::HeaderChecksum => write!(f, "the checksum of the header does not match"),
            Self::EntriesChecksum => write!(f, "the checksum of the entries does not match"),
            Self::Partition { number } => write!(f, "partition {number} lies outside of the usable range"),
        }
    }
}

#[cfg(test)]
#[path = "gpt_tests.rs"]
pub(super) mod tests;

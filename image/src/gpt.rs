//! Lays out a disk with a GUID partition table (UEFI specification 2.10, section 5.3).
//!
//! Identifiers are the caller's, so equal input gives equal bytes. Space that nothing is written to
//! stays a hole in the file.

use std::fmt;
use std::io::{self, Seek, SeekFrom, Write};

/// Bytes of a logical block, as QEMU's disks and most real ones have them.
const SECTOR: u64 = 512;
const SECTOR_BYTES: usize = 512;
/// "a minimum of 16,384 bytes of space must be reserved for the GPT Partition Entry Array"
const ENTRIES: u32 = 128;
const ENTRY_SIZE: u32 = 128;
const TABLE_SECTORS: u64 = 32;
/// Partitions start at whole MiB, which suits every disk's physical blocks.
const ALIGNMENT: u64 = 2048;
/// "The size in bytes of the GPT Header": everything up to the reserved rest.
const HEADER_SIZE: u32 = 92;
/// Revision 1.0
const REVISION: u32 = 0x0001_0000;
/// 36 UTF-16 units
const MAX_LABEL: usize = 36;

/// A GUID, given as the 16 bytes of its text form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guid(pub [u8; 16]);

/// The type of a Latchkey state partition: 8f1d5a2e-6c37-4b0e-9a54-1ce07ad3926b.
pub const STATE: Guid = Guid(0x8f1d_5a2e_6c37_4b0e_9a54_1ce0_7ad3_926b_u128.to_be_bytes());
/// The type "Linux root (x86-64)" of the Discoverable Partitions Specification: 4f68bce3-e8cd-4db1-96e7-fbcaf984b709.
pub const ROOT_X86_64: Guid = Guid(0x4f68_bce3_e8cd_4db1_96e7_fbca_f984_b709_u128.to_be_bytes());

/// What a partition holds.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// So many bytes of nothing.
    Empty(u64),
}

/// A partition to be.
#[derive(Debug, Clone, Copy)]
pub struct Partition<'a> {
    /// The label, at most 36 characters.
    pub label: &'a str,
    /// What it is for.
    pub kind: Guid,
    /// Which one it is.
    pub id: Guid,
    /// What is in it; rounded up to whole MiB.
    pub content: Content<'a>,
}

/// A disk to be.
#[derive(Debug, Clone)]
pub struct Disk<'a> {
    /// Which one it is.
    pub id: Guid,
    /// Its partitions, in order.
    pub partitions: Vec<Partition<'a>>,
}

/// Why a disk could not be laid out.
#[derive(Debug)]
pub enum GptError {
    /// A label has more than 36 UTF-16 units.
    LongLabel(String),
    /// More partitions than the table has entries.
    TooMany,
    /// A partition without content, or more than a disk can hold.
    BadSize(String),
    /// The file could not be written.
    Io(io::Error),
}

impl fmt::Display for GptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LongLabel(label) => write!(f, "the partition label {label:?} has more than {MAX_LABEL} characters"),
            Self::TooMany => write!(f, "more than {ENTRIES} partitions"),
            Self::BadSize(label) => {
                write!(f, "partition {label:?}: give it at least a byte, and fewer than a disk has")
            }
            Self::Io(source) => write!(f, "write disk: {source}"),
        }
    }
}

impl std::error::Error for GptError {}

impl From<io::Error> for GptError {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}

/// Where a partition lies, in sectors, first and last.
type Extent = (u64, u64);

impl Disk<'_> {
    /// Writes the disk to an empty file and gives its size in bytes.
    ///
    /// The last thing written is the last sector, so the file has the disk's size.
    pub fn write(&self, out: &mut (impl Write + Seek)) -> Result<u64, GptError> {
        let (extents, end) = self.extents()?;
        let entries = self.entries(&extents)?;
        // Behind the last partition: a copy of the table, then of the header in the last sector.
        let last = end + TABLE_SECTORS;
        write_at(out, 0, &protective_mbr(last))?;
        write_at(out, 1, &self.header(&entries, 1, last, 2))?;
        write_at(out, 2, &entries)?;
        for (partition, (first, _)) in self.partitions.iter().zip(&extents) {
            if let Content::Bytes(bytes) = partition.content {
                write_at(out, *first, bytes)?;
            }
        }
        write_at(out, end, &entries)?;
        write_at(out, last, &self.header(&entries, last, 1, end))?;
        Ok((last + 1) * SECTOR)
    }

    /// Where each partition lies, and the first sector behind them.
    fn extents(&self) -> Result<(Vec<Extent>, u64), GptError> {
        let mut next = ALIGNMENT;
        let mut extents = Vec::with_capacity(self.partitions.len());
        for partition in &self.partitions {
            let size = match partition.content {
                Content::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(0),
                Content::Empty(size) => size,
            };
            let sectors = size.div_ceil(SECTOR).checked_next_multiple_of(ALIGNMENT).filter(|sectors| *sectors > 0);
            let end = sectors.and_then(|sectors| next.checked_add(sectors)).filter(|end| *end < u64::MAX / SECTOR / 2);
            let end = end.ok_or_else(|| GptError::BadSize(partition.label.into()))?;
            extents.push((next, end - 1));
            next = end;
        }
        Ok((extents, next))
    }

    fn entries(&self, extents: &[Extent]) -> Result<Vec<u8>, GptError> {
        let size = ENTRIES as usize * ENTRY_SIZE as usize;
        let mut table = Vec::with_capacity(size);
        for (partition, (first, last)) in self.partitions.iter().zip(extents) {
            let start = table.len();
            table.extend_from_slice(&disk_order(partition.kind));
            table.extend_from_slice(&disk_order(partition.id));
            table.extend_from_slice(&first.to_le_bytes());
            table.extend_from_slice(&last.to_le_bytes());
            // No attributes.
            table.extend_from_slice(&[0; 8]);
            let label: Vec<u16> = partition.label.encode_utf16().collect();
            if label.len() > MAX_LABEL {
                return Err(GptError::LongLabel(partition.label.into()));
            }
            table.extend(label.into_iter().flat_map(u16::to_le_bytes));
            table.resize(start + ENTRY_SIZE as usize, 0);
        }
        if table.len() > size {
            return Err(GptError::TooMany);
        }
        table.resize(size, 0);
        Ok(table)
    }

    fn header(&self, entries: &[u8], own: u64, other: u64, table: u64) -> Vec<u8> {
        let usable = (2 + TABLE_SECTORS, own.max(other) - TABLE_SECTORS - 1);
        let build = |checksum: u32| {
            let mut header = b"EFI PART".to_vec();
            header.extend([REVISION, HEADER_SIZE, checksum, 0].into_iter().flat_map(u32::to_le_bytes));
            header.extend([own, other, usable.0, usable.1].into_iter().flat_map(u64::to_le_bytes));
            header.extend_from_slice(&disk_order(self.id));
            header.extend_from_slice(&table.to_le_bytes());
            header.extend([ENTRIES, ENTRY_SIZE, crc32(entries)].into_iter().flat_map(u32::to_le_bytes));
            header
        };
        build(crc32(&build(0)))
    }
}

/// Tells tools that know no GPT that the whole disk is taken (section 5.2.3).
fn protective_mbr(last: u64) -> Vec<u8> {
    let mut sector = vec![0; 446];
    // Not bootable; from 0/0/2 to the end of what cylinders can say; type 0xEE.
    sector.extend_from_slice(&[0x00, 0x00, 0x02, 0x00, 0xee, 0xff, 0xff, 0xff]);
    sector.extend_from_slice(&1_u32.to_le_bytes());
    // "If the size is too large to be represented, set to 0xFFFFFFFF."
    sector.extend_from_slice(&u32::try_from(last).unwrap_or(u32::MAX).to_le_bytes());
    sector.resize(510, 0);
    sector.extend_from_slice(&[0x55, 0xaa]);
    sector
}

/// The first three groups are little-endian on disk (appendix A).
fn disk_order(Guid(mut guid): Guid) -> [u8; 16] {
    for group in [0..4, 4..6, 6..8] {
        guid[group].reverse();
    }
    guid
}

/// CRC-32 as in IEEE 802.3, which section 5.3.1 asks for.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

fn write_at(out: &mut (impl Write + Seek), sector: u64, bytes: &[u8]) -> io::Result<()> {
    out.seek(SeekFrom::Start(sector * SECTOR))?;
    out.write_all(bytes)?;
    // A header's sector is whole, so that the last one ends the file where the disk ends.
    let rest = bytes.len().next_multiple_of(SECTOR_BYTES) - bytes.len();
    out.write_all(&vec![0; rest])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition<'a>(label: &'a str, content: Content<'a>) -> Partition<'a> {
        Partition { label, kind: STATE, id: Guid([7; 16]), content }
    }

    fn written(partitions: Vec<Partition<'_>>) -> Result<Vec<u8>, GptError> {
        let mut file = io::Cursor::new(Vec::new());
        let size = Disk { id: Guid([1; 16]), partitions }.write(&mut file)?;
        let bytes = file.into_inner();
        assert_eq!(u64::try_from(bytes.len()).unwrap(), size);
        Ok(bytes)
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn both_headers_have_their_checksums_and_point_at_each_other() {
        let bytes = written(vec![partition("one", Content::Bytes(b"content"))]).unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let last = bytes.len() - 512;
        for (own, other) in [(512, last), (last, 512)] {
            let mut header = bytes[own..own + 92].to_vec();
            assert_eq!(&header[..8], b"EFI PART");
            let checksum = header.splice(16..20, [0; 4]).collect::<Vec<_>>();
            assert_eq!(checksum, crc32(&header).to_le_bytes());
            assert_eq!((number(own + 24), number(own + 32)), (own as u64 / 512, other as u64 / 512));
            let table = usize::try_from(number(own + 72)).unwrap() * 512;
            assert_eq!(bytes[own + 88..own + 92], crc32(&bytes[table..table + 16384]).to_le_bytes());
        }
    }

    #[test]
    fn partitions_lie_apart_and_hold_their_content() {
        let big = vec![0x5a; (1 << 20) + 1];
        let bytes = written(vec![partition("a", Content::Bytes(&big)), partition("b", Content::Empty(1))]).unwrap();
        assert_eq!(&bytes[1 << 20..=2 << 20], &big[..]);
        let entry = |index: usize| &bytes[1024 + 128 * index..1024 + 128 * (index + 1)];
        assert_eq!(entry(0)[32..48], [2048_u64.to_le_bytes(), 6143_u64.to_le_bytes()].concat());
        assert_eq!(entry(1)[32..48], [6144_u64.to_le_bytes(), 8191_u64.to_le_bytes()].concat());
        assert_eq!(&entry(1)[56..60], b"b\0\0\0");
        assert_eq!(entry(0)[..4], [0x2e, 0x5a, 0x1d, 0x8f]);
        assert_eq!(entry(2), [0; 128]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let long = "x".repeat(37);
        assert!(matches!(written(vec![partition(&long, Content::Empty(1))]), Err(GptError::LongLabel(_))));
        assert!(matches!(written(vec![partition("e", Content::Bytes(b""))]), Err(GptError::BadSize(_))));
        assert!(matches!(written(vec![partition("h", Content::Empty(u64::MAX))]), Err(GptError::BadSize(_))));
        let many = (0..129).map(|_| partition("m", Content::Empty(1))).collect();
        assert!(matches!(written(many), Err(GptError::TooMany)));
    }
}

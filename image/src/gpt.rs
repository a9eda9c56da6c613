//! Lays out a disk with a GUID partition table (UEFI specification 2.10, section 5.3).
//!
//! The table itself is written by the crate `gpt`; here is decided where partitions lie. Identifiers are the caller's,
//! so equal input gives equal bytes. Space that nothing is written to stays a hole in the file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use gpt::disk::LogicalBlockSize;
use gpt::mbr::ProtectiveMBR;
use gpt::partition_types::{OperatingSystem, Type};
use gpt::{DiskDevice, GptConfig};
use latchkey_boot_formats::Guid;
use uuid::Uuid;

/// Bytes of a logical block, as QEMU's disks and most real ones have them.
const SECTOR: u64 = 512;
/// "a minimum of 16,384 bytes of space must be reserved for the GPT Partition Entry Array"
const ENTRIES: usize = 128;
const TABLE_SECTORS: u64 = 32;
/// Partitions start at whole MiB, which suits every disk's physical blocks; and the disk ends at one.
const ALIGNMENT: u64 = 2048;
/// 36 UTF-16 units
const MAX_LABEL: usize = 36;

/// What a partition holds.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// What is in this file.
    File(&'a Path),
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
#[derive(Debug, thiserror::Error)]
pub enum GptError {
    /// A label has more than 36 UTF-16 units.
    #[error("the partition label {0:?} has more than {MAX_LABEL} characters")]
    LongLabel(String),
    /// More partitions than the table has entries.
    #[error("more than {ENTRIES} partitions")]
    TooMany,
    /// A partition without content, or more than a disk can hold.
    #[error("partition {0:?} has no byte, or more than a disk has")]
    BadSize(String),
    /// The table could not be written.
    #[error("write partition table: {0}")]
    Table(#[from] gpt::GptError),
    /// The file could not be written, or a partition's content not read.
    #[error("write disk: {0}")]
    Io(#[from] io::Error),
}

/// Where a partition lies, in sectors, first and last.
type Extent = (u64, u64);

impl Disk<'_> {
    /// Writes the disk to an empty file, opened for reading too (checksums are made of what was written), and gives
    /// its size in bytes.
    pub fn write<D: Read + Write + Seek + fmt::Debug>(&self, out: &mut D) -> Result<u64, GptError> {
        let (extents, end) = self.extents()?;
        let table = self.table(&extents)?;
        // Behind the last partition: a copy of the table, then of the header in the last sector.
        let sectors = (end + TABLE_SECTORS + 1).next_multiple_of(ALIGNMENT);
        out.seek(SeekFrom::Start(sectors * SECTOR - 1))?;
        out.write_all(&[0])?;
        for (partition, (first, _)) in self.partitions.iter().zip(&extents) {
            out.seek(SeekFrom::Start(first * SECTOR))?;
            match partition.content {
                Content::Bytes(bytes) => out.write_all(bytes)?,
                Content::File(path) => drop(io::copy(&mut File::open(path)?, out)?),
                Content::Empty(_) => {}
            }
        }
        self.write_table(out, sectors, table)?;
        Ok(sectors * SECTOR)
    }

    fn write_table<D: DiskDevice>(
        &self,
        out: &mut D,
        sectors: u64,
        table: BTreeMap<u32, gpt::partition::Partition>,
    ) -> Result<(), GptError> {
        // "If the size is too large to be represented, set to 0xFFFFFFFF."
        let mbr = ProtectiveMBR::with_lb_size(u32::try_from(sectors - 1).unwrap_or(u32::MAX));
        mbr.overwrite_lba0(out).map_err(|error| io::Error::other(error.to_string()))?;
        let config = GptConfig::new().writable(true).logical_block_size(LogicalBlockSize::Lb512);
        let mut disk = config.create_from_device(out, Some(Uuid::from_bytes(self.id.text_order())))?;
        disk.update_partitions(table)?;
        disk.write_inplace()?;
        Ok(())
    }

    /// Where each partition lies, and the first sector behind them.
    fn extents(&self) -> Result<(Vec<Extent>, u64), GptError> {
        let mut next = ALIGNMENT;
        let mut extents = Vec::with_capacity(self.partitions.len());
        for partition in &self.partitions {
            let size = match partition.content {
                Content::Bytes(bytes) => u64::try_from(bytes.len()).unwrap_or(0),
                Content::File(path) => std::fs::metadata(path)?.len(),
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

    fn table(&self, extents: &[Extent]) -> Result<BTreeMap<u32, gpt::partition::Partition>, GptError> {
        if self.partitions.len() > ENTRIES {
            return Err(GptError::TooMany);
        }
        let entry = |partition: &Partition<'_>, (first_lba, last_lba): Extent| {
            if partition.label.encode_utf16().count() > MAX_LABEL {
                return Err(GptError::LongLabel(partition.label.into()));
            }
            Ok(gpt::partition::Partition {
                part_type_guid: Type { guid: Uuid::from_bytes(partition.kind.text_order()), os: OperatingSystem::None },
                part_guid: Uuid::from_bytes(partition.id.text_order()),
                first_lba,
                last_lba,
                flags: 0,
                name: partition.label.into(),
            })
        };
        let entries = self.partitions.iter().zip(extents).map(|(partition, extent)| entry(partition, *extent));
        (1..).zip(entries).map(|(number, entry)| Ok((number, entry?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_boot_formats::partition_type::STATE;

    fn partition<'a>(label: &'a str, content: Content<'a>) -> Partition<'a> {
        Partition { label, kind: STATE, id: Guid::from_text_order([7; 16]), content }
    }

    fn written(partitions: Vec<Partition<'_>>) -> Result<Vec<u8>, GptError> {
        let mut file = io::Cursor::new(Vec::new());
        let size = Disk { id: Guid::from_text_order([1; 16]), partitions }.write(&mut file)?;
        let bytes = file.into_inner();
        assert_eq!(u64::try_from(bytes.len()).unwrap(), size);
        Ok(bytes)
    }

    #[test]
    fn both_headers_point_at_each_other_and_carry_the_disk_s_id() {
        let bytes = written(vec![partition("one", Content::Bytes(b"content"))]).unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let last = bytes.len() - 512;
        for (own, other) in [(512, last), (last, 512)] {
            assert_eq!(&bytes[own..own + 8], b"EFI PART");
            assert_eq!((number(own + 24), number(own + 32)), (own as u64 / 512, other as u64 / 512));
            assert_eq!(bytes[own + 56..own + 72], [1; 16]);
        }
    }

    #[test]
    fn partitions_lie_apart_and_hold_their_content() {
        let content = vec![0xab; 3 << 20];
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"from a file").unwrap();
        let bytes = written(vec![
            partition("a", Content::Bytes(&content)),
            partition("b", Content::File(file.path())),
            partition("c", Content::Empty(5 << 20)),
        ])
        .unwrap();
        let entry = |index: usize| &bytes[1024 + index * 128..][..128];
        let extent = |index: usize| [32, 40].map(|at| u64::from_le_bytes(entry(index)[at..at + 8].try_into().unwrap()));
        assert_eq!([extent(0), extent(1), extent(2)], [[2048, 8191], [8192, 10239], [10240, 20479]]);
        assert_eq!(bytes[1 << 20..4 << 20], content);
        assert_eq!(&bytes[4 << 20..][..12], b"from a file\0");
        assert_eq!(&entry(1)[56..60], b"b\0\0\0");
        assert_eq!(entry(0)[..4], [0x2e, 0x5a, 0x1d, 0x8f]);
        assert_eq!(entry(3), [0; 128]);
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

//! A bounded reader of FAT12, FAT16 and FAT32 (Microsoft "FAT: General Overview of On-Disk Format" 1.03).
//!
//! Which of the three it is, is decided as EDK II does: FAT32 when the 16-bit field for the size of a FAT is zero, else by
//! the number of clusters.

mod directory;

use std::ops::Range;

use latchkey_boot_formats::Cursor;

use super::{ImageError, ReadAt, Window, fitting};
pub(super) use directory::Entry;

/// A file system: its geometry, and its table in memory.
pub(super) struct Fat<'a, R: ?Sized> {
    volume: &'a Window<'a, R>,
    kind: Kind,
    table: Vec<u8>,
    cluster: u64,
    clusters: u32,
    data: u64,
    root: Root,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fat12,
    Fat16,
    Fat32,
}

#[derive(Clone, Copy)]
enum Root {
    /// FAT12 and FAT16: between table and data.
    Area { offset: u64, size: usize },
    /// FAT32: a file like others.
    Cluster(u32),
}

impl<'a, R: ReadAt + ?Sized> Fat<'a, R> {
    /// Reads the boot sector and the table.
    pub(super) fn open(volume: &'a Window<'a, R>) -> Result<Self, ImageError> {
        let sector = volume.bytes(0, 512)?;
        let boot = BootSector::parse(&sector).ok_or(ImageError::Truncated)?;
        let geometry = boot.geometry()?;
        let table = volume.bytes(geometry.table.0, geometry.table.1)?;
        let Geometry { kind, cluster, clusters, data, root, .. } = geometry;
        Ok(Self { volume, kind, table, cluster, clusters, data, root })
    }

    /// The entries of a directory: the root without one.
    pub(super) fn directory(&self, directory: Option<&Entry>) -> Result<Vec<Entry>, ImageError> {
        let bytes = match (directory, self.root) {
            (None, Root::Area { offset, size }) => self.volume.bytes(offset, size)?,
            (None, Root::Cluster(first)) => self.directory_bytes(first)?,
            (Some(entry), _) => self.directory_bytes(entry.first_cluster)?,
        };
        Ok(directory::entries(&bytes))
    }

    fn directory_bytes(&self, first: u32) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        for range in self.chain(first, None)? {
            let length = usize::try_from(range.end - range.start).map_err(|_| BAD_CHAIN)?;
            bytes.extend(self.volume.bytes(range.start, length)?);
        }
        Ok(bytes)
    }

    /// Where on the volume the content of a file lies.
    pub(super) fn file(&self, entry: &Entry) -> Result<Vec<Range<u64>>, ImageError> {
        let size = u64::from(entry.size);
        fitting(size)?;
        if size == 0 { Ok(Vec::new()) } else { self.chain(entry.first_cluster, Some(size)) }
    }

    /// The clusters from `first` on: so many bytes of them, or all of a directory. Neighbours are one range.
    fn chain(&self, first: u32, size: Option<u64>) -> Result<Vec<Range<u64>>, ImageError> {
        let wanted = size.unwrap_or(MAX_DIRECTORY);
        // A chain in circles would else be followed for longer than the volume is large.
        if wanted > self.volume.size && size.is_some() {
            return Err(BAD_CHAIN);
        }
        let mut ranges = Vec::new();
        let (mut next, mut found) = (Some(first), 0);
        while let Some(start) = next.filter(|_| found < wanted) {
            let (mut last, mut length) = (start, 0);
            loop {
                if last < 2 || last - 2 >= self.clusters {
                    return Err(BAD_CHAIN);
                }
                length += self.cluster;
                next = self.next(last)?;
                match next {
                    Some(following) if following == last + 1 && found + length < wanted => last = following,
                    _ => break,
                }
            }
            let offset = self.data + u64::from(start - 2) * self.cluster;
            let length = length.min(wanted - found);
            if offset.checked_add(length).is_none_or(|end| end > self.volume.size) {
                return Err(ImageError::Truncated);
            }
            ranges.push(offset..offset + length);
            found += length;
        }
        match size {
            Some(_) if found < wanted => Err(BAD_CHAIN),
            None if next.is_some() => Err(ImageError::BadFileSystem("a directory is too large, or goes in circles")),
            _ => Ok(ranges),
        }
    }

    /// The cluster behind this one; `None` behind the last.
    fn next(&self, cluster: u32) -> Result<Option<u32>, ImageError> {
        let at = usize::try_from(cluster).map_err(|_| BAD_CHAIN)?;
        let byte = |index: usize| self.table.get(index).map(|byte| u32::from(*byte)).ok_or(BAD_CHAIN);
        let (value, end) = match self.kind {
            Kind::Fat12 => {
                let pair = at + at / 2;
                let both = byte(pair)? | byte(pair + 1)? << 8;
                (if at.is_multiple_of(2) { both & 0xfff } else { both >> 4 }, 0xff8)
            }
            Kind::Fat16 => (byte(2 * at)? | byte(2 * at + 1)? << 8, 0xfff8),
            Kind::Fat32 => {
                let bytes = [byte(4 * at)?, byte(4 * at + 1)?, byte(4 * at + 2)?, byte(4 * at + 3)?];
                // "the high 4 bits are reserved"
                (bytes.iter().rev().fold(0, |value, byte| value << 8 | byte) & 0x0fff_ffff, 0x0fff_fff8)
            }
        };
        Ok((value < end).then_some(value))
    }
}

/// The fields that say where what is.
struct BootSector {
    sector: u64,
    cluster: u64,
    reserved: u64,
    tables: u64,
    root_entries: u64,
    sectors: u64,
    table16: u64,
    table32: u64,
    root_cluster: u32,
}

impl BootSector {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Cursor::new(bytes);
        let _jump_and_name = fields.take(11)?;
        let sector = u64::from(fields.u16()?);
        let cluster = u64::from(fields.u8()?);
        let reserved = u64::from(fields.u16()?);
        let tables = u64::from(fields.u8()?);
        let root_entries = u64::from(fields.u16()?);
        let sectors16 = u64::from(fields.u16()?);
        let _media = fields.u8()?;
        let table16 = u64::from(fields.u16()?);
        let _geometry_and_hidden = fields.take(2 + 2 + 4)?;
        let sectors32 = u64::from(fields.u32()?);
        let table32 = u64::from(fields.u32()?);
        let _flags_and_version = fields.take(4)?;
        let root_cluster = fields.u32()?;
        let sectors = if sectors16 == 0 { sectors32 } else { sectors16 };
        Some(Self { sector, cluster, reserved, tables, root_entries, sectors, table16, table32, root_cluster })
    }

    fn geometry(&self) -> Result<Geometry, ImageError> {
        let bad = ImageError::BadFileSystem("no FAT, or one with impossible sizes");
        let power = |value: u64, most: u64| value.is_power_of_two() && value <= most;
        let in_range = (512..=4096).contains(&self.sector) && power(self.sector, 4096) && power(self.cluster, 128);
        if !in_range || self.reserved == 0 || !(1..=2).contains(&self.tables) {
            return Err(bad);
        }
        let table = if self.table16 == 0 { self.table32 } else { self.table16 };
        // None of these products and sums comes near the end of 64 bits: their factors have at most 32, 8 and 16.
        let root = (self.root_entries * 32).div_ceil(self.sector);
        let before_data = self.reserved + self.tables * table + root;
        let clusters = self.sectors.checked_sub(before_data).ok_or(bad.clone())? / self.cluster;
        let kind = match (self.table16, clusters) {
            (0, _) => Kind::Fat32,
            (_, 0..4085) => Kind::Fat12,
            _ => Kind::Fat16,
        };
        let table_size = table * self.sector;
        if table_size > MAX_TABLE {
            let what = "the file allocation table";
            return Err(ImageError::TooLarge { what, size: table_size, limit: MAX_TABLE });
        }
        let offset = (self.reserved + self.tables * table) * self.sector;
        let root = match kind {
            Kind::Fat32 => Root::Cluster(self.root_cluster),
            _ => Root::Area { offset, size: usize::try_from(self.root_entries * 32).map_err(|_| bad.clone())? },
        };
        Ok(Geometry {
            kind,
            table: (self.reserved * self.sector, usize::try_from(table_size).map_err(|_| bad.clone())?),
            cluster: self.cluster * self.sector,
            clusters: u32::try_from(clusters).map_err(|_| bad)?,
            data: before_data * self.sector,
            root,
        })
    }
}

/// In bytes.
struct Geometry {
    kind: Kind,
    /// Where the first table is, and its size.
    table: (u64, usize),
    cluster: u64,
    clusters: u32,
    data: u64,
    root: Root,
}

const BAD_CHAIN: ImageError = ImageError::BadFileSystem("the chain of a file's clusters is broken");
/// A directory has at most 65536 entries of 32 bytes.
const MAX_DIRECTORY: u64 = 2 << 20;
/// Of a volume with two million clusters.
const MAX_TABLE: u64 = 8 << 20;

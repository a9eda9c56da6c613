//! A bounded reader of FAT12, FAT16 and FAT32 (Microsoft "FAT: General Overview of On-Disk Format" 1.03).
//!
//! Which of the three it is, is decided as EDK II does: FAT32 when the 16-bit field for the size of a FAT is zero, else by
//! the number of clusters.

mod directory;

use std::io;
use std::ops::Range;

use crate::{Cursor, ReadAt, Window};
pub use directory::Entry;

/// Why there is no reading a file system.
#[derive(Debug, thiserror::Error)]
pub enum FatError {
    /// The operating system's; [`io::ErrorKind::UnexpectedEof`] when the volume ends before what it promises.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is none, or contradicts itself.
    #[error("{0}")]
    Bad(&'static str),
    /// Its table has more bytes than are read.
    #[error("the file allocation table has {size} bytes, at most {limit} are read")]
    TableTooLarge {
        /// Bytes it has.
        size: u64,
        /// Bytes that are read.
        limit: u64,
    },
}

/// The label of a volume: the one in its root directory, else the one in its boot sector. `None` if it is no FAT or has none.
///
/// Where the root directory cannot be read, what the boot sector says counts: so that who looks for the volume finds it damaged,
/// not missing.
pub fn label<R: ReadAt + ?Sized>(volume: &Window<'_, R>) -> Option<String> {
    let sector = volume.bytes(0, 512).ok()?;
    let kind = BootSector::parse(&sector)?.geometry().ok()?.kind;
    let in_root = || directory::label(&Fat::open(volume).ok()?.directory_of(None).ok()?);
    in_root().or_else(|| boot_label(&sector, kind))
}

/// `BS_VolLab`, which is there if `BS_BootSig` says so.
fn boot_label(sector: &[u8], kind: Kind) -> Option<String> {
    let signature = if kind == Kind::Fat32 { 66 } else { 38 };
    let name = crate::array_at(sector, signature + 5).filter(|_| sector.get(signature) == Some(&0x29))?;
    Some(directory::label_text(&name)).filter(|label| label != "NO NAME")
}

/// A file system: its geometry, and its table in memory.
#[derive(Debug)]
pub struct Fat<'a, R: ?Sized> {
    volume: &'a Window<'a, R>,
    kind: Kind,
    table: Vec<u8>,
    cluster: u64,
    clusters: u32,
    data: u64,
    root: Root,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fat12,
    Fat16,
    Fat32,
}

#[derive(Debug, Clone, Copy)]
enum Root {
    /// FAT12 and FAT16: between table and data.
    Area { offset: u64, size: usize },
    /// FAT32: a file like others.
    Cluster(u32),
}

impl<'a, R: ReadAt + ?Sized> Fat<'a, R> {
    /// Reads the boot sector and the table.
    ///
    /// # Errors
    /// [`FatError`].
    pub fn open(volume: &'a Window<'a, R>) -> Result<Self, FatError> {
        let sector = volume.bytes(0, 512)?;
        let geometry = BootSector::parse(&sector).ok_or(io::Error::from(TRUNCATED))?.geometry()?;
        if geometry.table.1 as u64 > MAX_TABLE {
            return Err(FatError::TableTooLarge { size: geometry.table.1 as u64, limit: MAX_TABLE });
        }
        let table = volume.bytes(geometry.table.0, geometry.table.1)?;
        let Geometry { kind, cluster, clusters, data, root, .. } = geometry;
        Ok(Self { volume, kind, table, cluster, clusters, data, root })
    }

    /// The entries of a directory: the root without one.
    ///
    /// # Errors
    /// [`FatError`]: it lies outside, has more than 65536 entries, or its chain is broken.
    pub fn directory(&self, directory: Option<&Entry>) -> Result<Vec<Entry>, FatError> {
        Ok(directory::entries(&self.directory_of(directory)?))
    }

    fn directory_of(&self, directory: Option<&Entry>) -> Result<Vec<u8>, FatError> {
        match (directory, self.root) {
            (None, Root::Area { offset, size }) => Ok(self.volume.bytes(offset, size)?),
            (None, Root::Cluster(first)) => self.directory_bytes(first),
            (Some(entry), _) => self.directory_bytes(entry.first_cluster),
        }
    }

    fn directory_bytes(&self, first: u32) -> Result<Vec<u8>, FatError> {
        let mut bytes = Vec::new();
        for range in self.chain(first, None)? {
            let length = usize::try_from(range.end - range.start).map_err(|_| BAD_CHAIN)?;
            bytes.extend(self.volume.bytes(range.start, length)?);
        }
        Ok(bytes)
    }

    /// Where on the volume the content of a file lies. How large a file may be is the caller's to say: it is told by the entry.
    ///
    /// # Errors
    /// [`FatError`]: the chain of its clusters is broken, or it lies outside.
    pub fn file(&self, entry: &Entry) -> Result<Vec<Range<u64>>, FatError> {
        let size = u64::from(entry.size);
        if size == 0 { Ok(Vec::new()) } else { self.chain(entry.first_cluster, Some(size)) }
    }

    /// The clusters from `first` on: so many bytes of them, or all of a directory. Neighbours are one range.
    fn chain(&self, first: u32, size: Option<u64>) -> Result<Vec<Range<u64>>, FatError> {
        let wanted = size.unwrap_or(MAX_DIRECTORY);
        // A chain in circles would else be followed for longer than the volume is large.
        if wanted > self.volume.size() && size.is_some() {
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
            if offset.checked_add(length).is_none_or(|end| end > self.volume.size()) {
                return Err(io::Error::from(TRUNCATED).into());
            }
            ranges.push(offset..offset + length);
            found += length;
        }
        match size {
            Some(_) if found < wanted => Err(BAD_CHAIN),
            None if next.is_some() => Err(FatError::Bad("a directory is too large, or goes in circles")),
            _ => Ok(ranges),
        }
    }

    /// The cluster behind this one; `None` behind the last.
    fn next(&self, cluster: u32) -> Result<Option<u32>, FatError> {
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

    fn geometry(&self) -> Result<Geometry, FatError> {
        let bad = || FatError::Bad("no FAT, or one with impossible sizes");
        let power = |value: u64, most: u64| value.is_power_of_two() && value <= most;
        let in_range = (512..=4096).contains(&self.sector) && power(self.sector, 4096) && power(self.cluster, 128);
        if !in_range || self.reserved == 0 || !(1..=2).contains(&self.tables) {
            return Err(bad());
        }
        let table = if self.table16 == 0 { self.table32 } else { self.table16 };
        // None of these products and sums comes near the end of 64 bits: their factors have at most 32, 8 and 16.
        let root = (self.root_entries * 32).div_ceil(self.sector);
        let before_data = self.reserved + self.tables * table + root;
        let clusters = self.sectors.checked_sub(before_data).ok_or_else(bad)? / self.cluster;
        let kind = match (self.table16, clusters) {
            (0, _) => Kind::Fat32,
            (_, 0..4085) => Kind::Fat12,
            _ => Kind::Fat16,
        };
        let table_size = table * self.sector;
        let offset = (self.reserved + self.tables * table) * self.sector;
        let root = match kind {
            Kind::Fat32 => Root::Cluster(self.root_cluster),
            _ => Root::Area { offset, size: usize::try_from(self.root_entries * 32).map_err(|_| bad())? },
        };
        Ok(Geometry {
            kind,
            table: (self.reserved * self.sector, usize::try_from(table_size).map_err(|_| bad())?),
            cluster: self.cluster * self.sector,
            clusters: u32::try_from(clusters).map_err(|_| bad())?,
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

const TRUNCATED: io::ErrorKind = io::ErrorKind::UnexpectedEof;
const BAD_CHAIN: FatError = FatError::Bad("the chain of a file's clusters is broken");
/// A directory has at most 65536 entries of 32 bytes.
const MAX_DIRECTORY: u64 = 2 << 20;
/// Of a volume with two million clusters.
const MAX_TABLE: u64 = 8 << 20;

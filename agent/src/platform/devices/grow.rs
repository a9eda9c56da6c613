//! How the last partition of a disk grows to the disk's end: pure, what is to be written and in which order.
//!
//! **A power cut at any sector leaves a table that the kernel reads.** The kernel looks for the backup copy only where a
//! sound primary header names it (`find_valid_gpt` in `block/partitions/efi.c`, without the parameter `gpt`), so the
//! primary must never be torn: header and entries are different sectors and cannot change at once. Therefore the new
//! entries are written to a second place behind the first, where the old header does not look, and one sector, the header,
//! decides between them. Then they move back in the same way. UEFI 2.10 section 5.3.2 allows both places: the entries must
//! "be located after the primary \[…\] header and end before the First Usable LBA".
//!
//! Space behind the last partition of a sound table belongs to nobody. What lies there is not looked at, and the last MiB
//! of what is taken is zeroed, since a state disk is fresh only if its end is blank.

use latchkey_boot_formats::gpt::{self, GptError, Header, Partition, RawTable};
use latchkey_boot_formats::{ReadAt, crc32, partition_type};

const MIB: u64 = 1 << 20;
/// Less is not worth a changed table. It is also more than a backup table and a MiB: what is left of the old backup copy
/// never lies in the last MiB of the grown partition.
const MIN_GROWTH: u64 = 2 * MIB;

/// A partition that may grow, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    /// Its number.
    pub number: u32,
    /// Its first byte on the disk.
    pub begin: u64,
    /// The bytes it will have.
    pub length: u64,
    /// What is to be done, in order.
    pub steps: Vec<Step>,
}

/// Something to do to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write these bytes there.
    Write {
        /// The first byte on the disk.
        at: u64,
        /// What is written.
        bytes: Vec<u8>,
    },
    /// Write zeros there.
    Zero {
        /// The first byte on the disk.
        at: u64,
        /// How many bytes.
        length: u64,
    },
    /// Wait until all of it has reached the medium.
    Flush,
}

/// Plans the growth of partition `number` on a disk of this many bytes and sectors of this size, or says why it stays as
/// it is.
pub fn plan(disk: &(impl ReadAt + ?Sized), bytes: u64, sector: u32, number: u32) -> Result<Growth, &'static str> {
    if !matches!(sector, 512 | 1024 | 2048 | 4096) {
        return Err("the size of the disk's sectors is unknown");
    }
    let last = (bytes / u64::from(sector)).checked_sub(1).ok_or("the disk is empty")?;
    let raw = gpt::read_primary(disk, bytes, sector).map_err(|error| match error {
        GptError::Absent => "the disk has no partition table",
        _ => "the first copy of the partition table is damaged",
    })?;
    let layout = Layout::of(&raw, last, sector, number)?;
    let mbr = read_sector(disk, 0, sector).ok_or("the disk's first sector cannot be read")?;
    let old_backup = old_backup(disk, &raw, &layout);
    Ok(layout.growth(&raw, &mbr, old_backup))
}

/// Where things are and will be, in sectors.
struct Layout {
    sector: u64,
    /// The disk's last.
    last: u64,
    /// How many a table's entries take.
    array: u64,
    state: Partition,
    /// The partition's last, when it has grown.
    end: u64,
    /// Where the entries are written first.
    spare: u64,
}

/// Where the entries of a primary table usually begin.
const USUAL: u64 = 2;

impl Layout {
    fn of(raw: &RawTable, last: u64, sector: u32, number: u32) -> Result<Self, &'static str> {
        let state = raw.partitions.iter().find(|partition| partition.number == number);
        let state =
            state.filter(|state| state.kind == partition_type::STATE).ok_or("it is no state partition")?.clone();
        let others = || raw.partitions.iter().filter(|partition| partition.number != number);
        if others().any(|other| other.last >= state.first) {
            return Err("it is not the last partition");
        }
        let sector = u64::from(sector);
        let array = (raw.entries.len() as u64).div_ceil(sector);
        let per_mib = MIB / sector;
        let end = last.checked_sub(array).map_or(0, |first| first / per_mib * per_mib).saturating_sub(1);
        if end.saturating_sub(state.last) < MIN_GROWTH / sector {
            return Err("there is no room behind it");
        }
        let at = raw.header.entries_at;
        let spare = if at == USUAL { USUAL + array } else { USUAL };
        let first = raw.partitions.iter().map(|partition| partition.first).min().unwrap_or(0);
        // Entries behind the partitions would be overwritten before the header looks elsewhere.
        if spare.abs_diff(at) < array
            || at + array > first
            || first < USUAL + 2 * array
            || first < raw.header.first_usable
        {
            return Err("its table has no room to change in");
        }
        Ok(Self { sector, last, array, state, end, spare })
    }

    fn growth(&self, raw: &RawTable, mbr: &[u8], old_backup: Option<(u64, u64)>) -> Growth {
        let entries = self.entries(raw);
        let at = |sector: u64| sector * self.sector;
        let write = |sector: u64, bytes: Vec<u8>| Step::Write { at: at(sector), bytes };
        let primary = |place| write(1, self.header(raw, &entries, 1, self.last, place));
        let backup = self.last - self.array;
        let mut steps = vec![
            Step::Zero { at: at(self.end + 1) - MIB, length: MIB },
            write(backup, entries.clone()),
            write(self.last, self.header(raw, &entries, self.last, 1, backup)),
            write(self.spare, entries.clone()),
            Step::Flush,
            // From this sector on the partition has grown.
            primary(self.spare),
            Step::Flush,
        ];
        if self.spare != USUAL {
            steps.extend([write(USUAL, entries.clone()), Step::Flush, primary(USUAL), Step::Flush]);
            steps.push(Step::Zero { at: at(self.spare), length: at(self.array) });
        }
        steps.extend(protective(mbr, self.last).map(|mbr| write(0, mbr)));
        if let Some((header, entries)) = old_backup {
            steps.push(Step::Zero { at: at(header), length: self.sector });
            steps.push(Step::Zero { at: at(entries), length: at(self.array) });
        }
        steps.push(Step::Flush);
        let (begin, length) = (at(self.state.first), at(self.end + 1 - self.state.first));
        Growth { number: self.state.number, begin, length, steps }
    }

    /// All entries as they were, but for the partition's last sector (UEFI 2.10 section 5.3.3, `EndingLBA`).
    fn entries(&self, raw: &RawTable) -> Vec<u8> {
        let mut entries = raw.entries.clone();
        let index = self.state.number as usize - 1;
        let entry = entries.chunks_exact_mut(raw.header.entry_size as usize).nth(index);
        if let Some(ending) = entry.and_then(|entry| entry.get_mut(40..48)) {
            ending.copy_from_slice(&self.end.to_le_bytes());
        }
        entries
    }

    /// A header's sector as it was, but for places, ends and checksums (section 5.3.2).
    fn header(&self, raw: &RawTable, entries: &[u8], own: u64, other: u64, place: u64) -> Vec<u8> {
        let mut sector = raw.header_sector.clone();
        let first_usable =
            if own == 1 { raw.header.first_usable.max(place + self.array) } else { raw.header.first_usable };
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(field) = sector.get_mut(at..at + bytes.len()) {
                field.copy_from_slice(bytes);
            }
        };
        put(16, &[0; 4]);
        put(24, &own.to_le_bytes());
        put(32, &other.to_le_bytes());
        put(40, &first_usable.to_le_bytes());
        put(48, &(self.last - self.array - 1).to_le_bytes());
        put(72, &place.to_le_bytes());
        put(88, &crc32(entries).to_le_bytes());
        let crc = crc32(sector.get(..raw.header.size as usize).unwrap_or_default());
        if let Some(field) = sector.get_mut(16..20) {
            field.copy_from_slice(&crc.to_le_bytes());
        }
        sector
    }
}

/// Header and entries of the backup copy, if that lies in the space that is taken, and is one.
fn old_backup(disk: &(impl ReadAt + ?Sized), raw: &RawTable, layout: &Layout) -> Option<(u64, u64)> {
    let taken = layout.state.last + 1..layout.last - layout.array;
    let header = Some(raw.header.other).filter(|header| taken.contains(header))?;
    let sector = read_sector(disk, header, u32::try_from(layout.sector).ok()?)?;
    let there = Header::unchecked(&sector).filter(|there| there.own == header)?;
    let entries = there.entries_at;
    let inside = taken.contains(&entries) && entries.checked_add(layout.array)? <= header;
    (sector.starts_with(&Header::SIGNATURE) && inside).then_some((header, entries))
}

/// The protective MBR with the disk's new size, if it is one: section 5.2.3, `SizeInLBA` is "the size of the disk minus
/// one \[…\] Set to 0xFFFFFFFF if the size of the disk is too large to be represented in this field".
fn protective(mbr: &[u8], last: u64) -> Option<Vec<u8>> {
    let mut mbr = mbr.to_vec();
    let is_one = mbr.get(510..512)? == [0x55, 0xaa] && mbr.get(450)? == &0xee && mbr.get(454..458)? == [1, 0, 0, 0];
    mbr.get_mut(458..462)?.copy_from_slice(&u32::try_from(last).unwrap_or(u32::MAX).to_le_bytes());
    is_one.then_some(mbr)
}

fn read_sector(disk: &(impl ReadAt + ?Sized), at: u64, sector: u32) -> Option<Vec<u8>> {
    let mut bytes = vec![0; sector as usize];
    disk.read_exact_at(&mut bytes, at.checked_mul(sector.into())?).ok()?;
    Some(bytes)
}

#[cfg(test)]
#[path = "grow_tests.rs"]
mod tests;

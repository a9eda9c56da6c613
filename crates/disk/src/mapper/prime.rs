//! The first writes to an authenticated disk that was not wiped.
//!
//! A sector without a valid tag is an I/O error to who reads it, and to who writes a part of it. Whole sectors can be
//! written. File systems write whole blocks of 4096 bytes with few exceptions, and read only what they wrote with few
//! exceptions; these are made readable here, by writing zeros.

use crate::luks2::{MIB, SECTOR};
use core::cmp::Reverse;
use core::ops::Range;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Blocks of one ext4 block group: as many as one bitmap block has bits.
const EXT4_GROUP: u64 = 8 * SECTOR * SECTOR;

/// What `xfs_repair` reads of an allocation group's beginning.
const XFS_HEADER: u64 = MIB / 8;

/// libblkid looks as far as 3087 units of 512 bytes before the end. Each sector is encrypted, authenticated and written
/// twice, so what nobody looks at is left alone.
const TAIL: u64 = (3087_u64 * 512).next_multiple_of(SECTOR);

/// Bytes of one write; the boot's memory is promised to be small.
const PIECE: usize = 1 << 18;

/// Writes zeros to every place of [`places`] and returns when they are durable.
pub(super) fn prime(mapping: &Path, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(mapping)?;
    let zeros = vec![0; PIECE];
    for place in places(length) {
        for offset in place.clone().step_by(PIECE) {
            let rest = usize::try_from(place.end - offset).unwrap_or(PIECE).min(PIECE);
            file.write_all_at(zeros.get(..rest).unwrap_or_default(), offset)?;
        }
    }
    file.sync_all()
}

/// What is primed on a disk of `length` bytes, in whole sectors, in order, without overlaps:
///
/// * the beginning, up to and with the first block of the first inode table: `mkfs.ext4` reads that block to put the root
///   directory's inode into it, and writes its first superblock as 1024 bytes into the first block; every `mkfs`, `blkid` and
///   `mount` look into the first MiB for what was on the disk before, and libblkid also at 1, 2 and 4 MiB;
/// * the first block of each ext4 block group that has a copy of the superblock, which `mkfs.ext4` also writes as 1024
///   bytes;
/// * the beginning of each XFS allocation group, of which `mkfs.xfs` makes four: `xfs_repair` reads more there than was
///   written;
/// * the end, where RAIDs, partition tables and other file systems have signatures ([`TAIL`]).
///
/// This list is what system call traces of `mkfs.ext4` 1.47 on disks of 40 MiB to 8 TiB and of `blkid` 2.38 show, and what
/// a kernel complains about while these, `mkfs.xfs` 6.1 and `mount` run. Anything that it names too much costs milliseconds;
/// what it may name too little is an I/O error and not wrong data.
fn places(length: u64) -> Vec<Range<u64>> {
    let length = length - length % SECTOR;
    let groups = length.div_ceil(EXT4_GROUP);
    let head = (ext4_tables(groups) * SECTOR).max(MIB + SECTOR).min(length);
    let tail = length.saturating_sub(TAIL).max(head);
    let mut middle: Vec<_> = scattered(length).filter(|place| place.start >= head && place.end <= tail).collect();
    // A group of ext4 may begin where one of XFS does: the longer place first, and the shorter one goes.
    middle.sort_unstable_by_key(|place| (place.start, Reverse(place.end)));
    middle.dedup_by(|next, before| next.start < before.end);
    let ends = (core::iter::once(0..head), core::iter::once(tail..length));
    ends.0.chain(middle).chain(ends.1).filter(|place| !place.is_empty()).collect()
}

/// The places between the two ends: copies of ext4's superblock, libblkid's looks, the groups of XFS.
fn scattered(length: u64) -> impl Iterator<Item = Range<u64>> {
    let groups = superblock_groups(length.div_ceil(EXT4_GROUP)).into_iter().map(|group| group * EXT4_GROUP);
    let sectors = groups.chain([2 * MIB, 4 * MIB]).map(|start| start..start + SECTOR);
    let quarter = (length / SECTOR).div_ceil(4) * SECTOR;
    sectors.chain((1..4).map(move |number| number * quarter..number * quarter + XFS_HEADER))
}

/// The most blocks that can stand in front of the first inode table's second block: the superblock, 64 bytes for each
/// group, blocks reserved for 1024 times as many groups but at most 1024, bitmaps for 16 groups, one block of inodes.
fn ext4_tables(groups: u64) -> u64 {
    1 + (groups * 64).div_ceil(SECTOR) + (groups * 16).min(1024) + 2 * 16 + 1
}

/// The groups with a copy, with the feature `sparse_super` that every `mkfs.ext4` turns on: 1 and the powers of 3, 5, 7.
fn superblock_groups(groups: u64) -> Vec<u64> {
    let powers = |base: u64| core::iter::successors(Some(base), move |power| power.checked_mul(base));
    let mut all: Vec<_> = [1]
        .into_iter()
        .chain([3, 5, 7].into_iter().flat_map(|base| powers(base).take_while(|&power| power < groups)))
        .filter(|&group| group < groups)
        .collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_copies_are_where_ext4_puts_them() {
        // "Superblock backups stored on blocks: 32768, 98304, 163840, 229376", says mkfs.ext4 for 1 GiB of 4 KiB blocks.
        let all = places(GIB);
        let copies = [32768, 98304, 163_840, 229_376].map(|block| block * SECTOR..(block + 1) * SECTOR);
        for copy in copies {
            assert!(all.contains(&copy), "{copy:?}");
        }
        assert_eq!([&all[0], &all[all.len() - 1]], [&(0..MIB + SECTOR), &(GIB - TAIL..GIB)]);
        assert_eq!(all.len(), 6 + 3 + 2);
        assert!((3087 * 512..2 * MIB).contains(&TAIL));
    }

    /// "superblock read failed, offset 262983680, size 131072, ag 1", said `xfs_repair` 6.1 of 2054536 units.
    #[test]
    fn the_groups_of_xfs_are_primed() {
        assert!(places(2_054_536 * 512).contains(&(262_983_680..262_983_680 + 131_072)));
        assert!(places(GIB / 2).contains(&(EXT4_GROUP..EXT4_GROUP + XFS_HEADER)), "where a group of ext4 begins, too");
    }

    /// Where `mkfs.ext4` 1.47 was seen reading before it wrote.
    #[test]
    fn the_first_inode_table_is_primed_on_disks_of_all_sizes() {
        let seen = [
            (40 * MIB, 155_648),
            (120 * MIB, 196_608),
            (500 * MIB, 294_912),
            (GIB, 593_920),
            (10 * GIB, 4_337_664),
            (100 * GIB, 4_382_720),
            (1 << 40, 4_853_760),
            (8 << 40, 8_523_776),
        ];
        for (length, read) in seen {
            assert!(places(length)[0].end >= read + SECTOR, "{length}");
        }
    }

    #[test]
    fn a_large_disk_costs_little_more_than_a_small_one() {
        let bytes = |length: u64| places(length).iter().map(|place| place.end - place.start).sum::<u64>();
        assert!(bytes(1 << 40) < 8 * MIB, "{}", bytes(1 << 40));
        assert_eq!(superblock_groups(1 << 13).len(), 18, "1 TiB");
    }

    #[test]
    fn places_are_whole_sectors_in_order_inside_the_disk() {
        let around = |length: u64| [length - 4096, length, length + 4096, length + 4097];
        let sizes = [MIB, 5 * MIB, 6 * MIB, EXT4_GROUP, 7 * EXT4_GROUP, 1 << 50].into_iter().flat_map(around);
        for length in sizes.chain([0, 1, 4096]) {
            let mut end = 0;
            for place in places(length) {
                assert!(place.start >= end && place.end > place.start && place.end <= length, "{place:?} of {length}");
                assert!(place.start % SECTOR == 0 && place.end % SECTOR == 0);
                end = place.end;
            }
            assert_eq!(end, length - length % SECTOR, "the end is primed");
        }
    }
}

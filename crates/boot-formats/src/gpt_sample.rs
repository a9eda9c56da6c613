//! Disks with a GUID partition table, for tests: as a standard tool writes them, and then changed in any way.

use crate::{Guid, crc32, slice_at, u32_at, u64_at};

/// Entries of a table, and bytes of each.
const ENTRIES: usize = 128;
const ENTRY: usize = 128;
/// Bytes of a header.
const HEADER: usize = 92;

/// An entry. Its own GUID is the first sector's lowest byte, sixteen times.
pub fn entry(kind: Guid, first: u64, last: u64, label: &str) -> Vec<u8> {
    let [id, ..] = first.to_le_bytes();
    let mut entry = [&kind.disk_order()[..], &[id; 16], &first.to_le_bytes(), &last.to_le_bytes(), &[0; 8]].concat();
    entry.extend(label.encode_utf16().take(36).flat_map(u16::to_le_bytes));
    entry.resize(ENTRY, 0);
    entry
}

/// A disk of so many sectors of this size with these entries in both copies of its table. Its GUID is 9, sixteen times.
///
/// # Panics
/// When the disk is smaller than two tables: tests say how large it is.
pub fn disk(sector: usize, sectors: usize, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut disk = vec![0; sector * sectors];
    let (last, array) = (sectors - 1, (ENTRIES * ENTRY).div_ceil(sector));
    for (own, other, place) in [(1, last, 2), (last, 1, last - array)] {
        let mut header = b"EFI PART\0\0\x01\0\x5c\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        for field in [own, other, 2 + array, last - array - 1] {
            header.extend((field as u64).to_le_bytes());
        }
        header.extend([9; 16]);
        header.extend((place as u64).to_le_bytes());
        header.extend([128, 128, 0].into_iter().flat_map(u32::to_le_bytes));
        put(&mut disk, own * sector, &header);
        for (index, entry) in entries.iter().enumerate() {
            put(&mut disk, place * sector + index * ENTRY, entry);
        }
        assert_eq!(seal(&mut disk, sector, own), Some(()), "a disk of {sectors} sectors has no room for a table");
    }
    disk
}

/// Makes the checksums of the copy whose header is at sector `own` right, whatever it says; `None` where its fields lead
/// beyond the disk's end, with what was reached before made right.
pub fn seal(disk: &mut [u8], sector: usize, own: usize) -> Option<()> {
    let at = own.checked_mul(sector)?;
    let header = slice_at(disk, at, HEADER)?.to_vec();
    let number = |offset| usize::try_from(u32_at(&header, offset)?).ok();
    let place = usize::try_from(u64_at(&header, 72)?).ok()?.checked_mul(sector);
    let length = number(80)?.checked_mul(number(84)?);
    let entries = place.zip(length).and_then(|(place, length)| slice_at(disk, place, length)).map(crc32);
    if let Some(checksum) = entries {
        put(disk, at + 88, &checksum.to_le_bytes());
    }
    put(disk, at + 16, &[0; 4]);
    let checksum = crc32(slice_at(disk, at, number(12)?)?);
    put(disk, at + 16, &checksum.to_le_bytes());
    entries.map(|_| ())
}

fn put(disk: &mut [u8], at: usize, bytes: &[u8]) {
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

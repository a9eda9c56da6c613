//! A disk with a partition table. The first byte says whether the checksums of the input's tables are made right, so that
//! the checks behind them are reached.
#![no_main]

use std::io::Cursor;

use latchkey_agent::platform::devices::read_gpt;
use libfuzzer_sys::fuzz_target;

const SECTOR: usize = 512;
const DISK: usize = 80 * SECTOR;

/// CRC-32 (IEEE 802.3), bit by bit: UEFI 2.10, section 4.2.1.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

fn seal(disk: &mut [u8], at: usize) -> Option<()> {
    let field =
        |disk: &[u8], offset: usize| Some(u32::from_le_bytes(disk.get(at + offset..at + offset + 4)?.try_into().ok()?));
    let entries = usize::try_from(field(disk, 72)?).ok()?.checked_mul(SECTOR)?;
    let length = usize::try_from(field(disk, 80)?).ok()?.checked_mul(usize::try_from(field(disk, 84)?).ok()?)?;
    if let Some(entries) = disk.get(entries..entries.checked_add(length)?) {
        let crc = crc32(entries);
        disk[at + 88..at + 92].copy_from_slice(&crc.to_le_bytes());
    }
    let size = usize::try_from(field(disk, 12)?).ok()?;
    disk[at + 16..at + 20].fill(0);
    let crc = crc32(disk.get(at..at.checked_add(size)?)?);
    disk[at + 16..at + 20].copy_from_slice(&crc.to_le_bytes());
    Some(())
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, content)) = input.split_first() else { return };
    let mut disk = content.to_vec();
    disk.resize(DISK, 0);
    if choice & 1 != 0 {
        let _ = seal(&mut disk, SECTOR);
        let _ = seal(&mut disk, DISK - SECTOR);
    }
    let size = u64::try_from(DISK).expect("small");
    if let Ok(table) = read_gpt(&mut Cursor::new(&disk), size, 512) {
        for partition in &table.partitions {
            assert!(partition.first <= partition.last && partition.last < size / 512, "{partition:?}");
        }
    }
    drop(read_gpt(&mut Cursor::new(&disk), size, 4096));
});

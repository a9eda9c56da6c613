//! Attacks on the header. The attacker owns the disk: every change is made with the checksum made right again.

mod authenticated;
mod authenticity;
mod closed_list;

use super::binary::fix_checksum;
use super::*;
use crate::testing::{DISK_SIZE, MemoryDisk};

const COPY: usize = 0x4000;
const JSON: usize = 0x1000;

fn check(disk: &[u8]) -> Result<CheckedHeader, HeaderRefusal> {
    UncheckedHeader::from_bytes(disk[..1 << 20].to_vec(), disk.len() as u64).check(SegmentMode::Confidential)
}

fn json(disk: &[u8]) -> String {
    let area = &disk[JSON..COPY];
    String::from_utf8(area[..area.iter().position(|&byte| byte == 0).unwrap()].to_vec()).unwrap()
}

/// Replaces the JSON of both copies and fixes both checksums.
fn with_json(disk: &[u8], json: &[u8]) -> Vec<u8> {
    let mut disk = disk.to_vec();
    for offset in [0, COPY] {
        let area = &mut disk[offset + JSON..offset + COPY];
        area.fill(0);
        area[..json.len()].copy_from_slice(json);
        fix_checksum(&mut disk, offset, COPY);
    }
    disk
}

/// Writes into the binary header of both copies and fixes both checksums.
fn with_binary(disk: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut disk = disk.to_vec();
    for offset in [0, COPY] {
        disk[offset + at..offset + at + bytes.len()].copy_from_slice(bytes);
        fix_checksum(&mut disk, offset, COPY);
    }
    disk
}

/// A formatted disk, made once.
fn template() -> Vec<u8> {
    static DISK: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    DISK.get_or_init(|| MemoryDisk::formatted(DISK_SIZE).bytes).clone()
}

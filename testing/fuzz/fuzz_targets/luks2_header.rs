//! A LUKS2 header. The first byte chooses: 0 is a whole region as it is; 1 a JSON area put into a good header; else a list
//! of changes of a good header, three bytes of place and value each. The last two get right checksums, so that the checks
//! behind them are reached.
#![no_main]

use std::sync::LazyLock;

use latchkey_disk::UncheckedHeader;
use libfuzzer_sys::fuzz_target;
use ring::digest::{SHA256, digest};

#[path = "support/memory_disk.rs"]
mod memory_disk;

use memory_disk::{DISK, formatted};

static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| formatted()[..1 << 20].to_vec());

/// Bytes of one copy of the header: `hdr_size`, big-endian, at byte 8.
fn size(region: &[u8]) -> usize {
    usize::try_from(u64::from_be_bytes(region[8..16].try_into().expect("eight"))).expect("small")
}

/// LUKS2 On-Disk Format 1.1, section 2.1: the checksum at byte 448 is over the copy with the checksum zeroed.
fn seal(copy: &mut [u8]) {
    copy[448..512].fill(0);
    let sum = digest(&SHA256, copy);
    copy[448..480].copy_from_slice(sum.as_ref());
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, content)) = input.split_first() else { return };
    let size = size(&GOOD);
    let region = match choice {
        0 => content.to_vec(),
        1 => {
            let mut region = GOOD.clone();
            for at in [0, size] {
                let area = &mut region[at + 4096..at + size];
                area.fill(0);
                let length = content.len().min(area.len());
                area[..length].copy_from_slice(&content[..length]);
                seal(&mut region[at..at + size]);
            }
            region
        }
        _ => {
            let mut region = GOOD.clone();
            for change in content.chunks_exact(3).take(64) {
                region[usize::from(u16::from_be_bytes([change[0], change[1]])) % (2 * size)] = change[2];
            }
            [0, size].into_iter().for_each(|at| seal(&mut region[at..at + size]));
            region
        }
    };
    if let Err(refusal) = UncheckedHeader::from_bytes(region, DISK).check_either_mode() {
        assert!(!refusal.to_string().contains(char::is_control));
    }
});

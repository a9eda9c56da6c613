//! A disk with a partition table. The first byte says whether the checksums of the input's tables are made right, so that
//! the checks behind them are reached.
#![no_main]

use latchkey_boot_formats::{gpt, gpt_sample};
use libfuzzer_sys::fuzz_target;

const SECTOR: usize = 512;
const SECTORS: usize = 80;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, content)) = input.split_first() else { return };
    let mut disk = content.to_vec();
    disk.resize(SECTORS * SECTOR, 0);
    if choice & 1 != 0 {
        let _ = gpt_sample::seal(&mut disk, SECTOR, 1);
        let _ = gpt_sample::seal(&mut disk, SECTOR, SECTORS - 1);
    }
    let size = disk.len() as u64;
    if let Ok(table) = gpt::read(&disk, size, 512) {
        for partition in &table.partitions {
            assert!(partition.first <= partition.last && partition.last < size / 512, "{partition:?}");
        }
    }
    drop(gpt::read(&disk, size, 4096));
});

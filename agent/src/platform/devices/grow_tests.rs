//! Growing on disks in memory, with the power cut at every sector.
//!
//! The model is that of the state disk's tests: a disk writes sectors whole or not at all; what was written before the
//! last flush is there, and of what was written since any subset may be.

use std::io;

use latchkey_boot_formats::gpt::{Copy, Table};
use latchkey_boot_formats::gpt_sample::{self, entry};
use latchkey_boot_formats::{Guid, gpt};
use latchkey_disk::{BlockDevice, Probe, probe};

use super::*;

const SECTOR: usize = 512;
const MIB_SECTORS: usize = 2048;
const ESP: Guid = Guid::from_text_order([1; 16]);
/// The state partition's number and first sector.
const STATE: (u32, usize) = (2, 2 * MIB_SECTORS);

/// An image of 7 MiB with 4 MiB of state, as it is built.
fn built() -> Vec<u8> {
    let first = STATE.1 as u64;
    let mut image = gpt_sample::disk(
        SECTOR,
        7 * MIB_SECTORS,
        &[entry(ESP, 2048, 4095, "esp"), entry(partition_type::STATE, first, first + 4 * 2048 - 1, "state")],
    );
    image[2048 * SECTOR..4096 * SECTOR].fill(0x5a);
    protective_mbr(&mut image, 7 * MIB_SECTORS - 1);
    image
}

fn protective_mbr(image: &mut [u8], last: usize) {
    image[450] = 0xee;
    image[454..458].copy_from_slice(&1u32.to_le_bytes());
    image[458..462].copy_from_slice(&u32::try_from(last).unwrap().to_le_bytes());
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
}

/// The same on a larger disk that held something else.
fn on_a_disk_of(mib: usize) -> Vec<u8> {
    let mut disk = built();
    disk.resize(mib << 20, 0xa5);
    disk
}

fn planned(disk: &[u8]) -> Result<Growth, &'static str> {
    plan(disk, disk.len() as u64, 512, STATE.0)
}

fn apply(disk: &mut [u8], steps: &[Step]) {
    for step in steps {
        for (at, sector) in sectors(step) {
            disk[at..at + SECTOR].copy_from_slice(&sector);
        }
    }
}

/// A step's writes, sector by sector.
fn sectors(step: &Step) -> Vec<(usize, Vec<u8>)> {
    let (at, bytes) = match step {
        Step::Write { at, bytes } => (*at, bytes.clone()),
        Step::Zero { at, length } => (*at, vec![0; usize::try_from(*length).unwrap()]),
        Step::Flush => return Vec::new(),
    };
    let at = usize::try_from(at).unwrap();
    assert_eq!((at % SECTOR, bytes.len() % SECTOR), (0, 0), "whole sectors");
    bytes.chunks(SECTOR).enumerate().map(|(index, sector)| (at + index * SECTOR, sector.to_vec())).collect()
}

fn read(disk: &[u8]) -> Table {
    gpt::read(disk, disk.len() as u64, 512).unwrap()
}

/// The state partition's bytes, as a device of their own.
struct StatePartition<'a>(&'a [u8]);

impl<'a> StatePartition<'a> {
    fn of(disk: &'a [u8]) -> Self {
        Self::by(&read(disk), disk)
    }

    fn by(table: &Table, disk: &'a [u8]) -> Self {
        let state = &table.partitions[1];
        let at = |sector: u64| usize::try_from(sector).unwrap() * SECTOR;
        Self(&disk[at(state.first)..at(state.last + 1)])
    }

    fn is_fresh(&self) -> bool {
        matches!(probe(self).unwrap(), Probe::Fresh(_))
    }
}

impl BlockDevice for StatePartition<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0[offset..offset + buffer.len()]);
        Ok(())
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        unreachable!("a look writes nothing")
    }

    fn flush(&mut self) -> io::Result<()> {
        unreachable!("a look writes nothing")
    }
}

#[test]
fn a_state_partition_grows_to_the_last_whole_mib_and_is_still_fresh() {
    let mut disk = on_a_disk_of(20);
    let growth = planned(&disk).unwrap();
    assert_eq!((growth.number, growth.begin, growth.length), (2, 2 << 20, 17 << 20));
    apply(&mut disk, &growth.steps);
    let table = read(&disk);
    assert_eq!(table.copy, Copy::Primary);
    let seen: Vec<_> = table.partitions.iter().map(|p| (p.number, p.first, p.last, p.label.as_str())).collect();
    assert_eq!(seen, [(1, 2048, 4095, "esp"), (2, 4096, 19 * 2048 - 1, "state")]);
    assert!(StatePartition::of(&disk).is_fresh());
    assert_eq!(&disk[458..462], (20 * 2048u32 - 1).to_le_bytes(), "the protective MBR");
    assert_eq!(planned(&disk), Err("there is no room behind it"), "once");
}

#[test]
fn the_table_is_again_where_everybody_expects_it_with_a_copy_at_the_end_and_none_at_the_old_one() {
    let mut disk = on_a_disk_of(20);
    let (before, steps) = (disk.clone(), planned(&disk).unwrap().steps);
    apply(&mut disk, &steps);
    let field = |header: usize, at: usize| u64::from_le_bytes(disk[header + at..header + at + 8].try_into().unwrap());
    let (primary, backup) = (SECTOR, disk.len() - SECTOR);
    assert_eq!((field(primary, 72), field(primary, 32)), (2, 20 * 2048 - 1));
    assert_eq!((field(backup, 72), field(backup, 32)), (20 * 2048 - 33, 1));
    assert_eq!(field(primary, 56), field(backup, 56), "the same disk");
    let old = 7 * MIB_SECTORS * SECTOR;
    assert!(disk[old - 33 * SECTOR..old].iter().all(|byte| *byte == 0));
    assert!(disk[34 * SECTOR..66 * SECTOR].iter().all(|byte| *byte == 0), "nothing is left of the other place");
    // Nothing else is touched: not the other partition, not the state, not what lies unused in the middle.
    assert_eq!(disk[1 << 20..6 << 20], before[1 << 20..6 << 20]);
    assert_eq!(disk[old..18 << 20], before[old..18 << 20]);
    disk[SECTOR..34 * SECTOR].fill(0);
    assert_eq!(read(&disk).copy, Copy::Backup, "and the copy is whole");
}

#[test]
fn what_may_be_somebodys_or_is_damaged_stays_as_it_is() {
    let refused = |disk: &[u8]| planned(disk).unwrap_err();
    assert_eq!(refused(&built()), "there is no room behind it");
    assert_eq!(refused(&on_a_disk_of(8)), "there is no room behind it");
    assert!(planned(&on_a_disk_of(9)).is_ok());
    let grown = |entries: &[Vec<u8>]| {
        let mut disk = gpt_sample::disk(SECTOR, 7 * MIB_SECTORS, entries);
        disk.resize(20 << 20, 0);
        disk
    };
    let state = |first, last| entry(partition_type::STATE, first, last, "state");
    let behind = grown(&[entry(ESP, 8192, 9000, "other"), state(4096, 8191)]);
    assert_eq!(refused(&behind), "it is not the last partition");
    let overlapped = grown(&[entry(ESP, 2048, 5000, "other"), state(4096, 8191)]);
    assert_eq!(refused(&overlapped), "it is not the last partition");
    let other_kind = grown(&[entry(ESP, 2048, 4095, "esp"), entry(ESP, 4096, 8191, "state")]);
    assert_eq!(refused(&other_kind), "it is no state partition");
    let narrow = grown(&[entry(ESP, 40, 100, "esp"), state(4096, 8191)]);
    assert_eq!(refused(&narrow), "its table has no room to change in");
    for at in [SECTOR + 60, 2 * SECTOR + 32] {
        let mut disk = on_a_disk_of(20);
        disk[at] ^= 1;
        assert_eq!(refused(&disk), "the first copy of the partition table is damaged");
    }
    assert_eq!(refused(&vec![0; 20 << 20]), "the disk has no partition table");
    assert_eq!(refused(&[]), "the disk is empty");
    assert_eq!(plan(&built(), 7 << 20, 0, 2).unwrap_err(), "the size of the disk's sectors is unknown");
}

#[test]
fn an_old_copy_that_is_none_is_not_zeroed() {
    // The header names the first sector of nobody's space as its other copy.
    let mut disk = on_a_disk_of(20);
    let old = 7 * MIB_SECTORS * SECTOR;
    disk[old - SECTOR] ^= 1;
    let steps = planned(&disk).unwrap().steps;
    apply(&mut disk, &steps);
    assert_eq!(disk[old - SECTOR], b'E' ^ 1);
    assert!(StatePartition::of(&disk).is_fresh());
}

#[test]
fn a_power_cut_anywhere_leaves_a_table_that_the_kernel_reads_and_a_partition_that_is_fresh() {
    let before = on_a_disk_of(10);
    let growth = planned(&before).unwrap();
    let (mut old, mut new) = (0, 0);
    after_each_cut(&before, &growth.steps, |when, disk| {
        let table = read(disk);
        // Without the parameter `gpt` the kernel takes the primary copy or none.
        assert_eq!(table.copy, Copy::Primary, "{when}");
        assert_eq!((table.partitions[0].first, table.partitions[0].last), (2048, 4095), "{when}");
        if table.partitions[1].last == 6 * 2048 - 1 {
            old += 1;
            if old % 17 == 0 {
                let mut again = disk.to_vec();
                apply(&mut again, &planned(disk).unwrap().steps);
                assert_eq!(read(&again).partitions[1].last, 9 * 2048 - 1, "{when}, grown again");
            }
        } else {
            new += 1;
            assert_eq!(table.partitions[1].last, 9 * 2048 - 1, "{when}");
            assert_eq!(planned(disk), Err("there is no room behind it"), "{when}");
        }
        if (old + new) % 7 == 0 {
            assert!(StatePartition::by(&table, disk).is_fresh(), "{when}");
            assert_eq!(disk[1 << 20..6 << 20], before[1 << 20..6 << 20], "{when}");
        }
    });
    assert!(old > 50 && new > 50, "{old} cuts before, {new} behind");
}

#[test]
fn a_disk_that_grows_again_while_its_table_is_at_the_other_place_keeps_it_readable() {
    let before = on_a_disk_of(20);
    let steps = planned(&before).unwrap().steps;
    // Power is lost when the header has just changed for the first time.
    let cut = steps.iter().position(|step| matches!(step, Step::Write { at: 512, .. })).unwrap();
    let mut disk = before;
    apply(&mut disk, &steps[..=cut]);
    disk.resize(30 << 20, 0xa5);
    let growth = planned(&disk).unwrap();
    after_each_cut(&disk, &growth.steps, |when, disk| assert_eq!(read(disk).copy, Copy::Primary, "{when}"));
    apply(&mut disk, &growth.steps);
    assert_eq!(read(&disk).partitions[1].last, 29 * 2048 - 1);
    assert_eq!(disk[SECTOR + 72..SECTOR + 80], 2u64.to_le_bytes());
}

#[test]
fn sectors_of_4096_bytes_are_no_other_disk() {
    let small = gpt_sample::disk(4096, 7 << 8, &[entry(partition_type::STATE, 512, 6 * 256 - 1, "state")]);
    let mut disk = small;
    disk.resize(20 << 20, 0xa5);
    let growth = plan(&disk, 20 << 20, 4096, 1).unwrap();
    assert_eq!((growth.begin, growth.length), (2 << 20, 17 << 20));
    apply(&mut disk, &growth.steps);
    let table = gpt::read(&disk, 20 << 20, 4096).unwrap();
    assert_eq!((table.copy, table.partitions[0].last), (Copy::Primary, 19 * 256 - 1));
}

proptest::proptest! {
    #[test]
    fn no_disk_makes_the_plan_panic_or_write_into_another_partition(
        changes in proptest::collection::vec((0usize..66 * SECTOR, proptest::prelude::any::<u8>()), 0..8),
        numbers in proptest::collection::vec((0usize..4, proptest::prelude::any::<u64>()), 0..3),
    ) {
        let mut disk = on_a_disk_of(12);
        for (at, byte) in changes {
            disk[at] = byte;
        }
        // Places and ends in headers and entries, with right checksums.
        for (which, number) in numbers {
            let at = [SECTOR + 32, SECTOR + 48, 2 * SECTOR + 128 + 40, 2 * SECTOR + 32][which];
            let number = if number % 2 == 0 { number } else { number % 40_000 };
            disk[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let _ = gpt_sample::seal(&mut disk, SECTOR, 1);
        if let Ok(growth) = planned(&disk) {
            let table = read(&disk);
            for (at, _) in growth.steps.iter().flat_map(sectors) {
                let sector = (at / SECTOR) as u64;
                let inside = table.partitions.iter().find(|p| (p.first..=p.last).contains(&sector));
                proptest::prop_assert_eq!(inside, None);
            }
            apply(&mut disk, &growth.steps);
            proptest::prop_assert_eq!(read(&disk).copy, Copy::Primary);
        }
    }
}

/// Calls `look` with the disk as every power cut during these steps can leave it.
fn after_each_cut(before: &[u8], steps: &[Step], mut look: impl FnMut(&str, &[u8])) {
    let mut durable = before.to_vec();
    let mut pending: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut coin = Coin(1);
    for (index, step) in steps.iter().enumerate() {
        if *step == Step::Flush {
            for (at, sector) in pending.drain(..) {
                durable[at..at + SECTOR].copy_from_slice(&sector);
            }
        }
        let all = sectors(step);
        for (number, sector) in all.iter().cloned().enumerate() {
            pending.push(sector);
            // Entries and zeros have many sectors; not every one of them is a case of its own.
            if number % (all.len() / 6).max(1) != 0 && number + 1 != all.len() {
                continue;
            }
            let keep: [(&str, &mut dyn FnMut(usize) -> bool); 4] = [
                ("all so far", &mut |_| true),
                ("only the last", &mut |index| index + 1 == pending.len()),
                ("all but the first", &mut |index| index > 0),
                ("some", &mut |_| coin.toss()),
            ];
            for (which, keep) in keep {
                let mut disk = durable.clone();
                for (_, (at, sector)) in pending.iter().enumerate().filter(|(index, _)| keep(*index)) {
                    disk[*at..*at + SECTOR].copy_from_slice(sector);
                }
                look(&format!("cut in step {index}, sector {number}, {which} kept"), &disk);
            }
        }
    }
    look("no cut", &durable);
}

/// Throws a coin, the same way in every run (xorshift64).
struct Coin(u64);

impl Coin {
    fn toss(&mut self) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 & 1 == 1
    }
}

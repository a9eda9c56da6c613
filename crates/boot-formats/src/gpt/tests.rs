use proptest::prelude::*;

use super::*;
use crate::gpt_sample::{disk, entry, seal};
use crate::partition_type::STATE;

const SECTOR: usize = 512;
const SECTORS: usize = 2048;

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

fn sample() -> Vec<u8> {
    disk(
        SECTOR,
        SECTORS,
        &[entry(STATE, 40, 99, "state-ä"), vec![0; 128], entry(Guid::from_text_order([1; 16]), 100, 2014, "")],
    )
}

fn read_image(image: &[u8]) -> Result<Table, GptError> {
    read(image, image.len() as u64, 512)
}

#[test]
fn partitions_keep_their_numbers_labels_and_bounds() {
    let table = read_image(&sample()).unwrap();
    assert_eq!(table.copy, Copy::Primary);
    let seen: Vec<_> = table.partitions.iter().map(|p| (p.number, p.first, p.last, p.label.as_str())).collect();
    assert_eq!(seen, [(1, 40, 99, "state-ä"), (3, 100, 2014, "")]);
    assert_eq!(table.partitions[0].kind, STATE);
}

#[test]
fn the_backup_serves_when_the_primary_is_damaged() {
    let mut image = sample();
    image[SECTOR + 60] ^= 1;
    let table = read_image(&image).unwrap();
    assert_eq!((table.copy, table.partitions.len()), (Copy::Backup, 2));
    image[(SECTORS - 1) * SECTOR + 60] ^= 1;
    assert!(matches!(read_image(&image), Err(GptError::HeaderChecksum)));
}

#[test]
fn a_disk_without_a_table_is_told_from_a_damaged_one() {
    assert!(matches!(read_image(&vec![0; 1 << 20]), Err(GptError::Absent)));
    assert!(matches!(read_image(&[0; 100]), Err(GptError::Absent)));
}

/// Changes the primary header, seals it, removes the backup and reads.
fn with_header(change: impl Fn(&mut [u8])) -> Result<Table, GptError> {
    let mut image = sample();
    change(&mut image[SECTOR..2 * SECTOR]);
    let _ = seal(&mut image, SECTOR, 1);
    image[(SECTORS - 1) * SECTOR..].fill(0);
    read_image(&image)
}

#[test]
fn a_header_with_right_checksum_but_wild_fields_is_refused() {
    assert!(with_header(|_| ()).is_ok());
    let wild: [(usize, &[u8]); 12] = [
        (8, &2u32.to_le_bytes()),
        (12, &u32::MAX.to_le_bytes()),
        (24, &2u64.to_le_bytes()),
        (40, &1u64.to_le_bytes()),
        (40, &2000u64.to_le_bytes()),
        (48, &(SECTORS as u64).to_le_bytes()),
        (72, &0u64.to_le_bytes()),
        (72, &u64::MAX.to_le_bytes()),
        (72, &40u64.to_le_bytes()),
        (80, &u32::MAX.to_le_bytes()),
        (84, &u32::MAX.to_le_bytes()),
        (84, &64u32.to_le_bytes()),
    ];
    for (at, bytes) in wild {
        let result = with_header(|header| put(header, at, bytes));
        assert!(matches!(result, Err(GptError::Header(_) | GptError::Partition { .. })), "field at {at}: {result:?}");
    }
}

#[test]
fn a_partition_outside_of_the_usable_range_is_refused() {
    for (first, last) in [(1, 50), (50, 49), (50, 3000), (0, u64::MAX)] {
        let result = read_image(&disk(SECTOR, SECTORS, &[entry(STATE, first, last, "x")]));
        assert!(matches!(result, Err(GptError::Partition { number: 1 })), "{first}..{last}");
    }
}

#[test]
fn a_table_written_by_a_standard_tool_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    std::fs::write(&path, vec![0; 4 << 20]).unwrap();
    let script = format!("label: gpt\nsize=1MiB, name=esp, type=uefi\nname=state, type={STATE}\n");
    let tool = std::process::Command::new("sfdisk").arg("-q").arg(&path).stdin(std::process::Stdio::piped()).spawn();
    let Ok(mut tool) = tool else {
        latchkey_test_support::skip("sfdisk is missing: apt-get install fdisk");
        return;
    };
    std::io::Write::write_all(&mut tool.stdin.take().unwrap(), script.as_bytes()).unwrap();
    assert!(latchkey_test_support::wait("sfdisk", &mut tool).success());
    let image = std::fs::read(&path).unwrap();
    let table = read_image(&image).unwrap();
    let labels: Vec<_> = table.partitions.iter().map(|p| (p.number, p.label.as_str())).collect();
    assert_eq!(labels, [(1, "esp"), (2, "state")]);
    assert_eq!(table.partitions[1].kind, STATE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_flipped_bit_never_gives_other_partitions(bit in 0usize..(2 + 32) * SECTOR * 8) {
        let good = read_image(&sample()).unwrap();
        let mut image = sample();
        image[bit / 8] ^= 1 << (bit % 8);
        // Either the bit is outside of what counts, or the backup serves.
        prop_assert_eq!(read_image(&image).unwrap().partitions, good.partitions);
    }

    #[test]
    fn no_header_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 84)) {
        let _ = with_header(|header| put(header, 8, &bytes));
    }
}

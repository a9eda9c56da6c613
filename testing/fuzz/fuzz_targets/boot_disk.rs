//! A boot partition, from whatever made the disk: read, and what is booted from it predicted, without Secure Boot and with
//! signatures and databases from the same hand. What is put around it is a good partition table.
#![no_main]

use latchkey_attestation::reference::KernelMeasures;
use latchkey_boot_formats::{ReadAt, gpt_sample, partition_type};
use latchkey_measurements::disk_image::BootImage;
use latchkey_measurements::predict::{
    BootPath, Machine, MachineType, SecureBoot, SignatureDatabases, TdxGuestType, TdxImage, Uki,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let disk = match bytes {
        [b'M', b'Z', ..] => bytes.to_vec(),
        _ => disk(bytes),
    };
    let Ok(image) = BootImage::read(&disk) else { return };
    let bytes = image.uki.to_vec().expect("what was found lies on the disk");
    assert!(bytes.len() <= disk.len());
    let Ok(uki) = Uki::measure(&image.uki) else { return };
    let plain = MachineType::builtin("debian-12-ovmf").expect("known").with_variables(None).expect("complete");
    let prediction = uki.predict(&plain).expect("nothing is refused without Secure Boot");
    assert_eq!(prediction.pcrs().len(), 6);
    let databases = SignatureDatabases { db: bytes[bytes.len() / 2..].to_vec(), ..SignatureDatabases::default() };
    let tdx = Some(TdxGuestType { kernel_measures: KernelMeasures::Tpm, separator: None });
    let secure_boot = SecureBoot::On(databases);
    let secure = Machine { name: "on".into(), boot: BootPath::Disk, secure_boot, guests: None, tdx };
    let _ = uki.predict(&secure);
    let _ = TdxImage::measure(&image.uki).expect("what was measured once").predict(&secure);
});

/// A disk with a table of one partition, which has these bytes.
fn disk(partition: &[u8]) -> Vec<u8> {
    let sectors = partition.len().div_ceil(SECTOR).max(1);
    let last = (FIRST + sectors) as u64 - 1;
    let entry = gpt_sample::entry(partition_type::ESP, FIRST as u64, last, "esp");
    let mut disk = gpt_sample::disk(SECTOR, FIRST + sectors + FIRST, &[entry]);
    disk[FIRST * SECTOR..][..partition.len()].copy_from_slice(partition);
    disk
}

const SECTOR: usize = 512;
/// Behind the protective MBR, a header and its entries; as much lies behind the partition.
const FIRST: usize = 34;

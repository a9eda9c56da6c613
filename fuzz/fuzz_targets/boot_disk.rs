//! A boot partition, from whatever made the disk: read, and what is booted from it predicted, without Secure Boot and with
//! signatures and databases from the same hand. What is put around it is a good partition table.
#![no_main]

use latchkey_measurements::disk_image::BootImage;
use latchkey_measurements::predict::{BootPath, Machine, MachineType, SecureBoot, SignatureDatabases, Uki};
use latchkey_measurements::read_at::ReadAt;
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
    let secure = Machine { name: "on".into(), boot: BootPath::Disk, secure_boot: SecureBoot::On(databases), guests: None };
    let _ = uki.predict(&secure);
});

/// A disk with a table of one partition, which lies behind it.
fn disk(partition: &[u8]) -> Vec<u8> {
    const ESP: [u8; 16] = *b"\x28\x73\x2a\xc1\x1f\xf8\xd2\x11\xba\x4b\x00\xa0\xc9\x3e\xc9\x3b";
    let sectors = partition.len().div_ceil(512).max(1) as u64;
    let mut entry = [&ESP[..], &[1; 16], &3_u64.to_le_bytes(), &(2 + sectors).to_le_bytes()].concat();
    entry.resize(128, 0);
    let header = |checksum: u32| {
        let mut header = b"EFI PART\0\0\x01\0\x5c\0\0\0".to_vec();
        header.extend(checksum.to_le_bytes());
        header.resize(72, 0);
        header.extend(2_u64.to_le_bytes());
        header.extend([1, 128, crc32(&entry)].into_iter().flat_map(u32::to_le_bytes));
        header
    };
    let mut disk = vec![0; 512];
    disk.extend(header(crc32(&header(0))));
    disk.resize(1024, 0);
    disk.extend(&entry);
    disk.resize(1536, 0);
    disk.extend(partition);
    disk.resize(1536 + 512 * sectors as usize, 0);
    disk
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

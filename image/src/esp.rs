//! The EFI system partition: a FAT32 file system with one file, the default boot loader of removable media.

use std::io::{self, Cursor, Write};

use fatfs::{FatType, FileSystem, FormatVolumeOptions, FsOptions};

const MIB: u64 = 1 << 20;
/// From 65 525 clusters on a volume is FAT32; the authors advise to stay 16 clusters away from the border (Microsoft's
/// "FAT: General Overview of On-Disk Format", version 1.03, "FAT Type Determination").
const MIN_FAT32_CLUSTERS: u64 = 65_525 + 16;
/// The smallest cluster, one sector.
const SECTOR: u64 = 512;
/// Larger ones save firmware nothing.
const MAX_CLUSTER: u64 = 4096;
/// What firmware boots from a disk that it has no boot option for, on x86-64 (UEFI specification 2.10, section 3.5.1.1).
pub(crate) const LOADER: [&str; 3] = ["EFI", "BOOT", "BOOTX64.EFI"];

/// The bytes of a file system that holds `loader`; of `size` bytes, or as large as it must be.
///
/// Files carry no time (1 January 1980), so that equal content gives equal bytes.
pub(crate) fn build(loader: &[u8], size: Option<u64>, volume_id: u32) -> io::Result<Vec<u8>> {
    let smallest = smallest(loader.len() as u64);
    let size = size.unwrap_or(smallest).next_multiple_of(MIB);
    if size < smallest {
        let why = format!("the boot partition needs {smallest} bytes, esp_size allows {size}");
        return Err(io::Error::new(io::ErrorKind::StorageFull, why));
    }
    let length = usize::try_from(size).map_err(io::Error::other)?;
    let mut disk = Cursor::new(vec![0; length]);
    let options = FormatVolumeOptions::new().fat_type(FatType::Fat32).bytes_per_cluster(cluster(size));
    fatfs::format_volume(&mut disk, options.volume_id(volume_id).volume_label(*b"ESP        "))?;
    let system = FileSystem::new(&mut disk, FsOptions::new())?;
    let [efi, boot, name] = LOADER;
    let mut file = system.root_dir().create_dir(efi)?.create_dir(boot)?.create_file(name)?;
    file.write_all(loader)?;
    file.flush()?;
    drop(file);
    // Counts free clusters, which formatting leaves unknown.
    system.stats()?;
    system.unmount()?;
    let mut bytes = disk.into_inner();
    mend_parent(&mut bytes)?;
    Ok(bytes)
}

/// `..` of a directory in the root has cluster 0 (the specification's section on directories); `fatfs` 0.3 writes the root's
/// number on FAT32, which fsck.fat finds fault with. The directory is the only one in the root, so it follows the root's cluster.
fn mend_parent(bytes: &mut [u8]) -> io::Result<()> {
    let number = |at: usize, size: usize| {
        let field = bytes.get(at..at + size).unwrap_or_default();
        field.iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
    };
    // Reserved sectors, tables, sectors of each; then clusters 2 (the root) and 3.
    let cluster = number(13, 1) * 512;
    let entry = (number(14, 2) + number(16, 1) * number(36, 4)) * 512 + cluster + 32;
    let entry = bytes.get_mut(entry..entry + 32).filter(|entry| entry.starts_with(b"..         "));
    let entry = entry.ok_or_else(|| io::Error::other("the directory is not where it was expected"))?;
    for (at, byte) in entry.iter_mut().enumerate() {
        if matches!(at, 20 | 21 | 26 | 27) {
            *byte = 0;
        }
    }
    Ok(())
}

/// What the file needs: its clusters, two tables of 4 bytes for each, reserved sectors, two directories.
fn smallest(content: u64) -> u64 {
    let clusters = (content / SECTOR + 64).max(MIN_FAT32_CLUSTERS);
    (clusters * (SECTOR + 8) + 64 * SECTOR).next_multiple_of(MIB)
}

/// The largest cluster with which this is FAT32 still: firmware walks fewer of them.
fn cluster(size: u64) -> u32 {
    let fits = |cluster: &u64| size.saturating_sub(64 * SECTOR) / (cluster + 8) >= MIN_FAT32_CLUSTERS;
    let largest = [MAX_CLUSTER, 2048, 1024].into_iter().find(fits).unwrap_or(SECTOR);
    u32::try_from(largest).unwrap_or(512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn the_loader_comes_out_as_it_went_in_from_fat32_of_any_size() {
        for (content, size) in [(3, None), (40 << 20, None), (1 << 20, Some(100 << 20)), (70 << 20, Some(300 << 20))] {
            let loader: Vec<u8> = (0..content).map(|index: u32| index.to_le_bytes()[index as usize % 3]).collect();
            let bytes = build(&loader, size, 0x1234_5678).unwrap();
            assert!(size.is_none_or(|size| size == bytes.len() as u64));
            let system = FileSystem::new(Cursor::new(bytes), FsOptions::new()).unwrap();
            assert_eq!((system.fat_type(), system.volume_id()), (FatType::Fat32, 0x1234_5678));
            let mut read = Vec::new();
            system.root_dir().open_file(&LOADER.join("/")).unwrap().read_to_end(&mut read).unwrap();
            assert!(read == loader, "{content}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_not_cut() {
        let error = build(&vec![0; 64 << 20], Some(64 << 20), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}

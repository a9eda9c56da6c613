//! The text of mapping tables: one target over the whole mapping.

use crate::block::DeviceNumber;
use crate::keyring::KeyDescription;
use crate::luks2::{SECTOR, SegmentMode, UnlockedDisk};
use crate::superblock::{Geometry, TAG};

/// The device mapper counts in sectors of 512 bytes, whatever the device does.
const UNIT: u64 = 512;

/// One target and its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    target: &'static str,
    sectors: u64,
    parameters: String,
    read_only: bool,
}

impl Table {
    /// The `crypt` target for an unlocked disk (the kernel's `admin-guide/device-mapper/dm-crypt.rst`):
    /// `<cipher> <key> <iv_offset> <device> <offset> <#opt_params> <opt_params>`, the key as
    /// `:<size>:<type>:<description>`, so that no key is in the table.
    ///
    /// `device` is the disk, or in the authenticated mode its `integrity` mapping, which begins with the data. The options
    /// are those of cryptsetup for LUKS2: `iv_large_sectors` is absent, so the IV counts 512-byte units. Discards are not
    /// passed down: they would tell the host which sectors are in use.
    pub fn crypt(disk: &UnlockedDisk, key: &KeyDescription, device: DeviceNumber) -> Self {
        let size = disk.volume_key().expose().len();
        let (cipher, offset, options) = match disk.segment_mode() {
            SegmentMode::Confidential => ("aes-xts-plain64", disk.data_offset() / UNIT, "1".to_owned()),
            SegmentMode::Authenticated => {
                ("capi:authenc(hmac(sha256),xts(aes))-random", 0, format!("2 integrity:{TAG}:aead"))
            }
        };
        Self {
            target: "crypt",
            sectors: disk.data_length() / UNIT,
            parameters: format!("{cipher} :{size}:logon:{key} 0 {device} {offset} {options} sector_size:{SECTOR}"),
            read_only: false,
        }
    }

    /// The `integrity` target below the authenticated mode (the kernel's `admin-guide/device-mapper/dm-integrity.rst`):
    /// `<device> <reserved sectors> <tag size> <mode> <#opt_params> <opt_params>`, with the journal that keeps data and tag
    /// together over a power cut.
    pub fn integrity(device: DeviceNumber, offset: u64, geometry: Geometry) -> Self {
        Self::journalled(device, offset, geometry.data_sectors, &[])
    }

    /// The `integrity` target that makes the kernel write a superblock and a journal of at most `journal` units where it
    /// finds zeros. The mapping itself is of no use: "the target can be reloaded with the provided size" (same source).
    pub fn integrity_format(device: DeviceNumber, offset: u64, journal: u64) -> Self {
        Self::journalled(device, offset, SECTOR / UNIT, &[format!("journal_sectors:{journal}")])
    }

    fn journalled(device: DeviceNumber, offset: u64, sectors: u64, more: &[String]) -> Self {
        let options =
            [&[format!("block_size:{SECTOR}"), "interleave_sectors:32768".into(), "fix_padding".into()], more];
        let options = options.concat();
        Self {
            target: "integrity",
            sectors,
            parameters: format!("{device} {} {TAG} J {} {}", offset / UNIT, options.len(), options.join(" ")),
            read_only: false,
        }
    }

    /// The `verity` target for a read-only root (the kernel's `admin-guide/device-mapper/verity.rst`): `<version> <dev>
    /// <hash_dev> <data_block_size> <hash_block_size> <num_data_blocks> <hash_start_block> <algorithm> <digest> <salt>`.
    ///
    /// Everything comes from the measured configuration and nothing from the disk, so no superblock is read.
    pub fn verity(root: &VerityRoot, corrupt: OnCorruption) -> Self {
        let VerityRoot { data, hashes, data_blocks, hash_start_block, root_hash, salt } = root;
        let (root_hash, salt) =
            (hex::encode(root_hash), if salt.is_empty() { "-".to_owned() } else { hex::encode(salt) });
        let options = match corrupt {
            OnCorruption::Error => "",
            OnCorruption::Restart => " 1 restart_on_corruption",
            OnCorruption::RestartAlsoIfUnreadable => " 2 restart_on_corruption restart_on_error",
        };
        Self {
            target: "verity",
            sectors: data_blocks.saturating_mul(SECTOR / UNIT),
            parameters: format!(
                "1 {data} {hashes} {SECTOR} {SECTOR} {data_blocks} {hash_start_block} sha256 {root_hash} {salt}{options}"
            ),
            read_only: true,
        }
    }

    pub(super) const fn target(&self) -> &'static str {
        self.target
    }

    pub(super) const fn sectors(&self) -> u64 {
        self.sectors
    }

    pub(super) fn parameters(&self) -> &str {
        &self.parameters
    }

    pub(super) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    #[cfg(test)]
    pub(super) fn for_test(target: &'static str, sectors: u64, parameters: &str, read_only: bool) -> Self {
        Self { target, sectors, parameters: parameters.to_owned(), read_only }
    }
}

/// A root file system under a dm-verity hash tree: SHA-256, format 1, blocks of 4096 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerityRoot {
    /// Where the file system lies.
    pub data: DeviceNumber,
    /// Where the hash tree lies; the same device when it stands behind the data.
    pub hashes: DeviceNumber,
    /// Blocks of the file system.
    pub data_blocks: u64,
    /// The hash tree's first block on its device; 1 behind a superblock that `veritysetup` wrote.
    pub hash_start_block: u64,
    /// The root hash: what makes the file system trusted. From the measured command line.
    pub root_hash: [u8; 32],
    /// The tree's salt, of up to 256 bytes; empty for none.
    pub salt: Vec<u8>,
}

/// What the kernel does when a block does not match its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCorruption {
    /// Reading it is an error: for those who look at the root and say what is wrong.
    Error,
    /// The machine restarts at once: an OS that lives on with some of its files gone is nobody's plan, and whoever writes
    /// the disk could choose which.
    Restart,
    /// The same for a block that the disk refuses to read ("`restart_on_error`: Restart the system when an I/O error is
    /// detected", the kernel's `admin-guide/device-mapper/verity.rst`), which is as good a way to take a file away.
    RestartAlsoIfUnreadable,
}

impl OnCorruption {
    /// The strictest that a `verity` target of this version may know: `restart_on_error` came with Linux 6.12, whose target
    /// says 1.10.0. Older kernels say so too, so the table has to be tried.
    pub(crate) fn strictest(version: Option<[u32; 3]>) -> Self {
        if version >= Some([1, 10, 0]) { Self::RestartAlsoIfUnreadable } else { Self::Restart }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{authenticated, unlocked};

    #[test]
    fn the_crypt_table_is_the_one_cryptsetup_makes() {
        // 4 MiB and a bit: the last, partial sector is left out.
        let disk = unlocked((4 << 20) + 512);
        let table = Table::crypt(&disk, &KeyDescription::for_disk(disk.uuid()), DeviceNumber { major: 254, minor: 16 });
        assert_eq!(table.target, "crypt");
        assert_eq!(table.sectors, 3 * 2048);
        assert_eq!(
            table.parameters,
            "aes-xts-plain64 :64:logon:latchkey:f81d4fae-7dec-11d0-a765-00a0c91e6bf6 0 254:16 2048 1 sector_size:4096"
        );
    }

    #[test]
    fn the_authenticated_tables_are_the_ones_cryptsetup_makes() {
        let geometry = Geometry { data_sectors: 6144, journal_sections: 3 };
        let disk = authenticated(geometry);
        let (disk_device, below) = (DeviceNumber { major: 254, minor: 16 }, DeviceNumber { major: 253, minor: 0 });
        let table = Table::crypt(&disk, &KeyDescription::for_disk(disk.uuid()), below);
        assert_eq!((table.target, table.sectors), ("crypt", 6144));
        assert_eq!(
            table.parameters,
            "capi:authenc(hmac(sha256),xts(aes))-random :96:logon:latchkey:f81d4fae-7dec-11d0-a765-00a0c91e6bf6 0 253:0 0 \
             2 integrity:48:aead sector_size:4096"
        );
        let table = Table::integrity(disk_device, disk.data_offset(), geometry);
        assert_eq!((table.target, table.sectors), ("integrity", 6144));
        assert_eq!(table.parameters, "254:16 2048 48 J 3 block_size:4096 interleave_sectors:32768 fix_padding");
        let table = Table::integrity_format(disk_device, disk.data_offset(), 512);
        assert_eq!(table.sectors, 8);
        assert!(
            table
                .parameters
                .ends_with(" 48 J 4 block_size:4096 interleave_sectors:32768 fix_padding journal_sectors:512")
        );
    }

    #[test]
    fn a_kernel_that_can_not_know_an_option_is_not_asked_for_it() {
        for (version, strictest) in [
            (None, OnCorruption::Restart),
            // Linux 6.1.
            (Some([1, 9, 0]), OnCorruption::Restart),
            // Linux 6.12.
            (Some([1, 10, 0]), OnCorruption::RestartAlsoIfUnreadable),
            (Some([2, 0, 0]), OnCorruption::RestartAlsoIfUnreadable),
        ] {
            assert_eq!(OnCorruption::strictest(version), strictest, "{version:?}");
        }
    }

    #[test]
    fn the_verity_table_is_the_one_veritysetup_makes() {
        let root = VerityRoot {
            data: DeviceNumber { major: 254, minor: 2 },
            hashes: DeviceNumber { major: 254, minor: 3 },
            data_blocks: 10,
            hash_start_block: 1,
            root_hash: [0xab; 32],
            salt: vec![1, 2],
        };
        let table = Table::verity(&root, OnCorruption::Restart);
        assert_eq!((table.target, table.sectors, table.read_only), ("verity", 80, true));
        let hash = "ab".repeat(32);
        assert_eq!(
            table.parameters,
            format!("1 254:2 254:3 4096 4096 10 1 sha256 {hash} 0102 1 restart_on_corruption")
        );
        let table = Table::verity(&root, OnCorruption::RestartAlsoIfUnreadable);
        assert!(table.parameters.ends_with(&format!("{hash} 0102 2 restart_on_corruption restart_on_error")));
        let unsalted = Table::verity(&VerityRoot { salt: Vec::new(), ..root }, OnCorruption::Error);
        assert!(unsalted.parameters.ends_with(&format!("{hash} -")));
    }
}

//! The text of mapping tables: one target over the whole mapping.

use crate::block::DeviceNumber;
use crate::keyring::KeyDescription;
use crate::luks2::{SECTOR, SegmentMode, UnlockedDisk};

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
    /// The options are those of cryptsetup for LUKS2: `iv_large_sectors` is absent, so the IV counts 512-byte units.
    /// Discards are not passed down: they would tell the host which sectors are in use.
    pub fn crypt(disk: &UnlockedDisk, key: &KeyDescription, device: DeviceNumber) -> Self {
        let SegmentMode::Confidential = disk.segment_mode();
        let size = disk.volume_key().expose().len();
        let offset = disk.data_offset() / UNIT;
        Self {
            target: "crypt",
            sectors: disk.data_length() / UNIT,
            parameters: format!("aes-xts-plain64 :{size}:logon:{key} 0 {device} {offset} 1 sector_size:{SECTOR}"),
            read_only: false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unlocked;

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
}

//! GUIDs that event logs and variables have names for.

use std::fmt;

use latchkey_boot_formats::Guid;
use latchkey_boot_formats::firmware_guid::{GLOBAL_VARIABLE, IMAGE_SECURITY};
use latchkey_boot_formats::partition_type::{ESP, LINUX_DATA};

const SHIM: Guid = Guid::from_u128(0x605d_ab50_e046_4300_abb6_3dd8_10dd_8b23);
const SMBIOS: Guid = Guid::from_u128(0xeb9d_2d31_2d88_11d3_9a16_0090_273f_c14d);
const SMBIOS3: Guid = Guid::from_u128(0xf2fd_1544_9794_4a2c_992e_e5bb_cf20_e394);
const ACPI: Guid = Guid::from_u128(0x8868_e871_e4f1_11d3_bc22_0080_c73c_8881);

/// A GUID as it is printed: by its name, if it has one.
pub(super) struct Named(pub(super) Guid);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            GLOBAL_VARIABLE => "EFI",
            IMAGE_SECURITY => "EFI image security",
            SHIM => "shim",
            ESP => "EFI system partition",
            LINUX_DATA => "Linux file system",
            SMBIOS => "SMBIOS",
            SMBIOS3 => "SMBIOS 3",
            ACPI => "ACPI",
            other => return other.fmt(f),
        })
    }
}

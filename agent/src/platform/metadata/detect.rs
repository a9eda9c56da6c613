//! `latchkey.metadata=auto`: whose machine this is, by what its SMBIOS says of itself. The network is not asked.

use std::path::Path;

use super::cloud::Cloud;
use super::{MetadataError, read_bounded};

/// A field of SMBIOS, with the line break that the kernel adds.
const MAX_FIELD: usize = 256;

/// Where metadata are, by the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Cloud(Cloud),
    Qemu,
    /// A machine that nobody says anything about.
    Nothing,
}

/// Field, value, and what a machine with it is. The first that fits counts: clouds are QEMU, too.
const KNOWN: &[(&str, &str, Found)] = &[
    ("sys_vendor", "Amazon EC2", Found::Cloud(Cloud::Aws)),
    ("product_name", "Google Compute Engine", Found::Cloud(Cloud::Gcp)),
    // The asset tag of every virtual machine of Azure's; other machines of Hyper-V have the vendor alone.
    ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", Found::Cloud(Cloud::Azure)),
    ("sys_vendor", "Hetzner", Found::Cloud(Cloud::Hetzner)),
    ("sys_vendor", "OpenStack Foundation", Found::Cloud(Cloud::OpenStack)),
    ("product_name", "OpenStack Nova", Found::Cloud(Cloud::OpenStack)),
    ("product_name", "OpenStack Compute", Found::Cloud(Cloud::OpenStack)),
    ("sys_vendor", "QEMU", Found::Qemu),
];

pub(super) fn detect(sysfs: &Path) -> Result<Found, MetadataError> {
    for (field, value, found) in KNOWN {
        let path = sysfs.join("class/dmi/id").join(field);
        let text = match read_bounded(&path, MAX_FIELD) {
            // As long as no known one is.
            Err(MetadataError::TooLarge { .. }) => continue,
            text => text?.unwrap_or_default(),
        };
        if text.trim_ascii() == value.as_bytes() {
            return Ok(*found);
        }
    }
    Ok(Found::Nothing)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(fields: &[(&str, &str)]) -> Found {
        let sysfs = tempfile::tempdir().unwrap();
        let directory = sysfs.path().join("class/dmi/id");
        fs::create_dir_all(&directory).unwrap();
        for (field, value) in fields {
            fs::write(directory.join(field), format!("{value}\n")).unwrap();
        }
        detect(sysfs.path()).unwrap()
    }

    #[test]
    fn a_machine_is_known_by_its_whole_name_and_clouds_before_qemu() {
        assert_eq!(machine(&[("sys_vendor", "Amazon EC2"), ("product_name", "m6a.large")]), Found::Cloud(Cloud::Aws));
        assert_eq!(
            machine(&[("sys_vendor", "QEMU"), ("product_name", "OpenStack Nova")]),
            Found::Cloud(Cloud::OpenStack)
        );
        assert_eq!(machine(&[("sys_vendor", "QEMU"), ("product_name", "Standard PC")]), Found::Qemu);
        let hyper_v = ("sys_vendor", "Microsoft Corporation");
        assert_eq!(
            machine(&[hyper_v, ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")]),
            Found::Cloud(Cloud::Azure)
        );
        for other in [&[hyper_v][..], &[("sys_vendor", "Amazon EC2 of mine")], &[]] {
            assert_eq!(machine(other), Found::Nothing);
        }
    }

    #[test]
    fn an_endless_field_is_nobodys() {
        let sysfs = tempfile::tempdir().unwrap();
        let directory = sysfs.path().join("class/dmi/id");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("sys_vendor"), "a".repeat(MAX_FIELD + 1)).unwrap();
        assert_eq!(detect(sysfs.path()).unwrap(), Found::Nothing);
    }
}

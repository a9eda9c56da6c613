//! `latchkey.metadata=auto`: whose machine this is, by what its SMBIOS says of itself. The network is not asked.

use std::path::Path;

use super::cloud::Cloud;
use super::seed::Seed;
use super::{MetadataError, read_bounded};

/// A field of SMBIOS, with the line break that the kernel adds.
const MAX_FIELD: usize = 256;

/// Where metadata are, by the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Cloud(Cloud),
    /// On a volume.
    Volume(Seed),
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
    // Nova below another hypervisor than QEMU says it here, and so do clouds that put their own names into the other fields
    // (cloud-init's `tools/ds-identify`).
    ("chassis_asset_tag", "OpenStack Nova", Found::Cloud(Cloud::OpenStack)),
    ("chassis_asset_tag", "OpenStack Compute", Found::Cloud(Cloud::OpenStack)),
    ("chassis_asset_tag", "OpenTelekomCloud", Found::Cloud(Cloud::OpenStack)),
    ("chassis_asset_tag", "SAP CCloud VM", Found::Cloud(Cloud::OpenStack)),
    ("chassis_asset_tag", "HUAWEICLOUD", Found::Cloud(Cloud::OpenStack)),
    ("chassis_asset_tag", "Samsung Cloud Platform", Found::Cloud(Cloud::OpenStack)),
    ("sys_vendor", "QEMU", Found::Qemu),
];

/// What cloud-init's `NoCloud` is asked for by, in the serial number of a system: nobody has that there by chance.
const NOCLOUD: &[u8] = b"ds=nocloud";
/// With one of these it is asked to fetch its seed from somewhere else than a volume.
const ELSEWHERE: [&[u8]; 2] = [b"s=", b"seedfrom="];

/// Whether a serial number asks for `NoCloud`'s volume.
fn asks_for_nocloud(serial: &[u8]) -> bool {
    let mut words = serial.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    words.next() == Some(NOCLOUD) && !words.any(|word| ELSEWHERE.iter().any(|elsewhere| word.starts_with(elsewhere)))
}

pub(super) fn detect(sysfs: &Path) -> Result<Found, MetadataError> {
    let says = |field: &str| match read_bounded(&sysfs.join("class/dmi/id").join(field), MAX_FIELD) {
        // As long as no known one is.
        Err(MetadataError::TooLarge { .. }) => Ok(Vec::new()),
        text => text.map(|text| text.unwrap_or_default().trim_ascii().to_vec()),
    };
    // Whoever says this chose it for this one machine: it comes before what all machines of a cloud say.
    if asks_for_nocloud(&says("product_serial")?) {
        return Ok(Found::Volume(Seed::NoCloud));
    }
    for (field, value, found) in KNOWN {
        if says(field)? == value.as_bytes() {
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
        // Such a cloud is told by its tag alone, also where it says that it is QEMU.
        for tag in ["OpenStack Nova", "OpenTelekomCloud", "SAP CCloud VM", "HUAWEICLOUD", "Samsung Cloud Platform"] {
            for vendor in ["VMware, Inc.", "QEMU"] {
                let found = machine(&[("sys_vendor", vendor), ("chassis_asset_tag", tag)]);
                assert_eq!(found, Found::Cloud(Cloud::OpenStack), "{tag}");
            }
        }
        for other in [&[hyper_v][..], &[("sys_vendor", "Amazon EC2 of mine")], &[]] {
            assert_eq!(machine(other), Found::Nothing);
        }
    }

    #[test]
    fn a_serial_number_that_asks_for_nocloud_comes_first() {
        let cloud = ("sys_vendor", "OpenStack Foundation");
        for serial in ["ds=nocloud", "ds=nocloud;h=edge-7", "ds=nocloud;h=edge-7;i=s=1"] {
            assert_eq!(machine(&[cloud, ("product_serial", serial)]), Found::Volume(Seed::NoCloud), "{serial}");
        }
        for other in [
            "ds=nocloud-net;s=http://10.0.2.2/",
            "ds=nocloud;s=http://10.0.2.2/",
            "ds=nocloud;h=edge-7;seedfrom=http://10.0.2.2/",
            "ds=nocloudy",
            "DS=NOCLOUD",
            "x ds=nocloud",
            "ec2a5f",
        ] {
            assert_eq!(machine(&[cloud, ("product_serial", other)]), Found::Cloud(Cloud::OpenStack), "{other}");
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

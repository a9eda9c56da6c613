//! What clouds take: a form of the disk, drivers for their devices, a console, and where metadata are.

use std::collections::BTreeSet;

use latchkey_node_config::MetadataSource;
use serde::{Deserialize, Serialize};

use crate::form::Form;

/// Somewhere an image is brought to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cloud {
    /// Amazon EC2, by a snapshot.
    Aws,
    /// Google Compute Engine.
    Gcp,
    /// Azure.
    Azure,
    /// `OpenStack`'s image service.
    Openstack,
    /// Hetzner, by its rescue system.
    Hetzner,
    /// QEMU and libvirt.
    Qemu,
}

impl Cloud {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Aws, Self::Gcp, Self::Azure, Self::Openstack, Self::Hetzner, Self::Qemu];

    /// Its word in configurations and arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Gcp => "gcp",
            Self::Azure => "azure",
            Self::Openstack => "openstack",
            Self::Hetzner => "hetzner",
            Self::Qemu => "qemu",
        }
    }

    /// The form of the disk that it takes.
    pub fn form(self) -> Form {
        match self {
            Self::Aws | Self::Hetzner => Form::Raw,
            Self::Gcp => Form::TarGz,
            Self::Azure => Form::Vhd,
            Self::Openstack | Self::Qemu => Form::Qcow2,
        }
    }

    /// Drivers of its disks and networks, beside virtio and NVMe, for a node that takes its metadata from this source (of another
    /// system than a node: any): those that a kernel lacks are left out.
    pub(crate) fn modules(self, metadata: Option<MetadataSource>) -> impl Iterator<Item = &'static str> {
        use MetadataSource::{Auto, ConfigDrive, Nocloud};
        let volume = matches!(metadata, None | Some(Auto | Nocloud | ConfigDrive));
        let drives = if volume { self.drives() } else { &[] };
        self.devices().iter().chain(drives).copied()
    }

    /// Drivers of the CD-ROM that it may have a volume with metadata on.
    fn drives(self) -> &'static [&'static str] {
        match self {
            // Nova's config drive is one on IDE, SATA or SCSI.
            Self::Openstack => &["?sr_mod", "?ata_piix", "?ahci"],
            Self::Aws | Self::Gcp | Self::Azure | Self::Hetzner | Self::Qemu => &[],
        }
    }

    fn devices(self) -> &'static [&'static str] {
        match self {
            Self::Aws => &["?ena"],
            Self::Gcp => &["?gve", "?virtio_scsi", "?sd_mod"],
            // What is behind Hyper-V's virtual PCI is found by its bus, not by a symbol.
            Self::Azure => &["?hv_vmbus", "?pci_hyperv", "?hv_storvsc", "?sd_mod", "?hv_netvsc", "?mana", "?hv_utils"],
            Self::Openstack | Self::Hetzner => &["?virtio_scsi", "?sd_mod"],
            Self::Qemu => &[],
        }
    }
}

/// Words of the command line that an image for these clouds has, unless the operator said others: consoles, so that the cloud's
/// serial log and screen have what a node says, and where metadata are, which the machine itself knows.
pub(crate) fn words(clouds: &BTreeSet<Cloud>, cmdline: &str) -> Vec<String> {
    let says = |start: &str| cmdline.split_ascii_whitespace().any(|word| word.starts_with(start));
    let mut words = Vec::new();
    if clouds.is_empty() {
        return words;
    }
    if !says("console=") {
        words.push("console=tty0 console=ttyS0,115200".to_owned());
    }
    if !says("latchkey.metadata=") {
        words.push("latchkey.metadata=auto".to_owned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_of_cd_roms_are_for_nodes_that_may_have_their_metadata_there() {
        let has = |cloud: Cloud, metadata| cloud.modules(metadata).any(|name| name == "?sr_mod");
        for source in [MetadataSource::Auto, MetadataSource::Nocloud, MetadataSource::ConfigDrive] {
            assert!(has(Cloud::Openstack, Some(source)), "{source:?}");
        }
        assert!(has(Cloud::Openstack, None));
        for source in [MetadataSource::Openstack, MetadataSource::None] {
            assert!(!has(Cloud::Openstack, Some(source)), "{source:?}");
        }
        assert!(Cloud::Openstack.modules(Some(MetadataSource::Openstack)).any(|name| name == "?virtio_scsi"));
        assert!(!has(Cloud::Hetzner, Some(MetadataSource::Auto)));
    }

    #[test]
    fn words_are_added_where_the_operator_said_nothing() {
        let clouds = BTreeSet::from([Cloud::Aws]);
        assert_eq!(words(&clouds, "quiet"), ["console=tty0 console=ttyS0,115200", "latchkey.metadata=auto"]);
        assert_eq!(words(&clouds, "console=ttyS1 latchkey.metadata=aws"), [""; 0]);
        assert_eq!(words(&BTreeSet::new(), "quiet"), [""; 0]);
    }
}

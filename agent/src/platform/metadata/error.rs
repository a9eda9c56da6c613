//! Why instance metadata are not acceptable.

use std::io;

use latchkey_reason::reason_codes;

use super::cloud::CloudError;
use crate::platform::devices::DeviceError;
use crate::platform::volume::VolumeError;

/// The instance metadata is not acceptable.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The source is there but cannot be read.
    #[error("instance metadata cannot be read from {path} ({source})")]
    Unreadable {
        /// The file.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is more of it than allowed.
    #[error("instance metadata is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// It is not JSON of our schema.
    #[error("instance metadata is not the JSON of latchkey's version 1 ({0})")]
    Schema(String),
    /// A field has a value it must not have.
    #[error("the instance metadata's {field} is not {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The machine's SMBIOS table is damaged.
    #[error("the SMBIOS table of this machine is damaged")]
    Smbios,
    /// The volume that they are on is not to be had.
    #[error("instance metadata: {0}")]
    Device(#[from] DeviceError),
    /// The volume that they are on cannot be read.
    #[error("instance metadata cannot be read from the volume on {device} ({source})")]
    Volume {
        /// Its device.
        device: String,
        /// Why.
        source: VolumeError,
    },
    /// The volume lacks a file.
    #[error("the volume for instance metadata on {device} has no {file}")]
    NoFile {
        /// Its device.
        device: String,
        /// Which.
        file: String,
    },
    /// The cloud's metadata server gave none.
    #[error("metadata of {cloud}: {source}")]
    Cloud {
        /// Which.
        cloud: &'static str,
        /// Why.
        source: CloudError,
    },
}

reason_codes! {
    /// The instance metadata is not acceptable.
    pub enum MetadataCode {
        /// The source is there but cannot be read.
        Unreadable = "metadata-unreadable":
            "check how the machine is started";
        /// There is more of it than allowed.
        TooLarge = "metadata-too-large":
            "shorten the metadata";
        /// It is not of the schema.
        Invalid = "metadata-invalid":
            "correct the metadata";
        /// The machine's SMBIOS table is damaged.
        Smbios = "smbios-damaged":
            "use fw_cfg or latchkey.metadata=none";
        /// No volume with the label appeared in time.
        VolumeMissing = "metadata-volume-missing":
            "attach a FAT or ISO 9660 volume with the label cidata (latchkey.metadata=nocloud) or config-2 (config-drive), or put the driver of its drive into the initramfs";
        /// Several volumes have the label.
        VolumeAmbiguous = "metadata-volume-ambiguous":
            "detach all volumes with this label but one";
        /// The volume is damaged, or larger than one for metadata.
        VolumeDamaged = "metadata-volume-damaged":
            "make the volume again, small, as FAT or as ISO 9660 with Joliet or Rock Ridge names";
        /// The volume lacks a file.
        VolumeIncomplete = "metadata-volume-incomplete":
            "put the file onto the volume under its full name; an ISO 9660 volume needs Joliet or Rock Ridge names for it";
        /// The cloud's metadata server gave none.
        Server = "metadata-server-failed":
            "check that the instance may ask its metadata server (on AWS version 2), and that latchkey.metadata names the cloud it runs in";
    }
}

impl MetadataError {
    /// The stable reason code.
    pub fn code(&self) -> MetadataCode {
        match self {
            // The last three are of the kernel's list of devices and its announcements.
            Self::Unreadable { .. }
            | Self::Device(DeviceError::Inventory { .. } | DeviceError::Events { .. } | DeviceError::Table { .. }) => {
                MetadataCode::Unreadable
            }
            Self::TooLarge { .. } | Self::Volume { source: VolumeError::TooLarge { .. }, .. } => MetadataCode::TooLarge,
            Self::Schema(_) | Self::Field { .. } => MetadataCode::Invalid,
            Self::Smbios => MetadataCode::Smbios,
            Self::Device(DeviceError::Missing { .. }) => MetadataCode::VolumeMissing,
            Self::Device(DeviceError::Ambiguous { .. }) => MetadataCode::VolumeAmbiguous,
            Self::Volume { source: VolumeError::Io(error), .. } if error.kind() != io::ErrorKind::UnexpectedEof => {
                MetadataCode::Unreadable
            }
            Self::Volume { .. } => MetadataCode::VolumeDamaged,
            Self::NoFile { .. } => MetadataCode::VolumeIncomplete,
            Self::Cloud { .. } => MetadataCode::Server,
        }
    }
}

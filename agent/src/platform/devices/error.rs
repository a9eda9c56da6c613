//! Why a device is not to be had.

use std::io;

use latchkey_boot_formats::gpt::GptError;
use latchkey_reason::reason_codes;

/// A disk was not found, or too many were.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// `/sys/class/block` cannot be read.
    #[error("the kernel's list of block devices cannot be read ({source})")]
    Inventory {
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel's announcements cannot be had.
    #[error("the kernel does not announce devices ({source})")]
    Events {
        /// What the kernel said.
        source: io::Error,
    },
    /// Nothing matched until the time was over.
    #[error("no disk for {wanted} appeared (there are: {present})")]
    Missing {
        /// What was looked for.
        wanted: String,
        /// What there is instead.
        present: String,
    },
    /// More than one matched.
    #[error("several disks match {wanted} ({candidates})")]
    Ambiguous {
        /// What was looked for.
        wanted: String,
        /// What matched.
        candidates: String,
        /// Whether it is the state disk.
        state: bool,
    },
    /// Nothing matched, and a partition table is damaged in both copies.
    #[error("the partition table of {disk} is damaged in both copies ({error})")]
    Table {
        /// The disk.
        disk: String,
        /// What is wrong with it.
        error: GptError,
    },
}

reason_codes! {
    /// A disk was not found, or too many were.
    pub enum DeviceCode {
        /// The kernel's list of block devices cannot be read.
        Inventory = "device-inventory-failed":
            "boot a kernel with /sys";
        /// The kernel does not announce devices.
        Events = "device-events-failed":
            "boot a kernel with uevents over netlink";
        /// No disk of that description appeared in time.
        Missing = "device-missing":
            "attach the disk, name another one on the kernel command line, or put its driver into the initramfs";
        /// Several disks may be the state disk.
        StateAmbiguous = "state-disk-ambiguous":
            "detach all but one, or name one on the kernel command line";
        /// Several disks match.
        Ambiguous = "device-ambiguous":
            "detach all but one, or name one on the kernel command line";
        /// A partition table is damaged in both copies.
        Table = "partition-table-damaged":
            "write the table again, or detach the disk";
    }
}

impl DeviceError {
    /// The stable reason code.
    pub fn code(&self) -> DeviceCode {
        match self {
            Self::Inventory { .. } => DeviceCode::Inventory,
            Self::Events { .. } => DeviceCode::Events,
            Self::Missing { .. } => DeviceCode::Missing,
            Self::Ambiguous { state: true, .. } => DeviceCode::StateAmbiguous,
            Self::Ambiguous { state: false, .. } => DeviceCode::Ambiguous,
            Self::Table { .. } => DeviceCode::Table,
        }
    }
}

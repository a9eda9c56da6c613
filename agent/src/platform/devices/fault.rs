//! Why a device is not to be had.

use std::fmt;
use std::io;

use latchkey_boot_formats::gpt::GptError;

/// A disk was not found, or too many were.
#[derive(Debug)]
pub enum DeviceFault {
    /// `/sys/class/block` can not be read.
    Inventory {
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel's announcements can not be had.
    Events {
        /// What the kernel said.
        source: io::Error,
    },
    /// Nothing matched until the time was over.
    Missing {
        /// What was looked for.
        wanted: String,
        /// What there is instead.
        present: String,
    },
    /// More than one matched.
    Ambiguous {
        /// What was looked for.
        wanted: String,
        /// What matched.
        candidates: String,
        /// Whether it is the state disk.
        state: bool,
    },
    /// Nothing matched, and a partition table is damaged in both copies.
    Table {
        /// The disk.
        disk: String,
        /// What is wrong with it.
        fault: GptError,
    },
}

impl DeviceFault {
    /// The stable reason code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Inventory { .. } => "device-inventory-failed",
            Self::Events { .. } => "device-events-failed",
            Self::Missing { .. } => "device-missing",
            Self::Ambiguous { state: true, .. } => "state-disk-ambiguous",
            Self::Ambiguous { state: false, .. } => "device-ambiguous",
            Self::Table { .. } => "partition-table-damaged",
        }
    }
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inventory { source } => {
                write!(f, "the kernel's list of block devices can not be read ({source}): mount /sys before")
            }
            Self::Events { source } => {
                write!(f, "the kernel does not announce devices ({source}): boot one with uevents over netlink")
            }
            Self::Missing { wanted, present } => write!(
                f,
                "no disk for {wanted} appeared (there are: {present}): attach it, name another one on the kernel \
                 command line, or put its driver into the initramfs"
            ),
            Self::Ambiguous { wanted, candidates, .. } => write!(
                f,
                "several disks match {wanted} ({candidates}): detach all but one, or name one on the kernel command line"
            ),
            Self::Table { disk, fault } => {
                write!(
                    f,
                    "the partition table of {disk} is damaged in both copies ({fault}): write it again or detach the disk"
                )
            }
        }
    }
}

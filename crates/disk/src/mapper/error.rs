//! Why a disk could not be mapped.

use latchkey_reason::reason_codes;
use std::io;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Looking at the disk below.
    Device,
    /// Creating the mapping.
    Create,
    /// Bringing the key into, or out of, the keyring.
    Key,
    /// Loading the table.
    Load,
    /// Having dm-integrity lay itself out on the disk.
    Layout,
    /// Taking the table into use.
    Resume,
    /// Making or removing the device node.
    Node,
    /// Writing the first sectors.
    Prime,
    /// Removing the mapping.
    Remove,
}

/// Why the disk could not be mapped.
#[derive(Debug, thiserror::Error)]
#[error("the state disk is not mapped: {source}")]
pub struct MapError {
    /// What was being done.
    pub step: Step,
    /// What the kernel said.
    pub source: io::Error,
}

reason_codes! {
    /// The step at which a disk could not be mapped.
    pub enum MapCode {
        /// Looking at the disk below.
        Device = "map-device": "give the node a block device, not a file";
        /// Creating the mapping.
        Create = "map-create": "check whether the mapping is in use already";
        /// Bringing the key into, or out of, the keyring.
        Key = "map-key": "use a kernel with CONFIG_KEYS";
        /// Loading the table.
        Load = "map-load":
            "check that the modules dm-crypt, xts and aes (authenticated: dm-integrity, authenc, hmac, sha256) are in the initramfs, and that the disk is not in use";
        /// Having dm-integrity lay itself out on the disk.
        Layout = "map-layout":
            "check that the module dm-integrity is in the initramfs, that the disk is not in use, and that it has 8 MiB or more";
        /// Taking the table into use.
        Resume = "map-resume": "see the kernel log";
        /// Making or removing the device node.
        Node = "map-node": "see the kernel log";
        /// Writing the first sectors.
        Prime = "map-prime": "see the kernel log";
        /// Removing the mapping.
        Remove = "map-remove": "check whether the mapping is in use already";
    }
}

impl MapError {
    pub(super) const fn new(step: Step, source: io::Error) -> Self {
        Self { step, source }
    }

    /// The stable reason code.
    pub const fn code(&self) -> MapCode {
        match self.step {
            Step::Device => MapCode::Device,
            Step::Create => MapCode::Create,
            Step::Key => MapCode::Key,
            Step::Load => MapCode::Load,
            Step::Layout => MapCode::Layout,
            Step::Resume => MapCode::Resume,
            Step::Node => MapCode::Node,
            Step::Prime => MapCode::Prime,
            Step::Remove => MapCode::Remove,
        }
    }
}

pub(super) const fn at(step: Step) -> impl FnOnce(io::Error) -> MapError {
    move |source| MapError { step, source }
}

//! Why a disk could not be mapped.

use core::fmt;
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
#[derive(Debug)]
pub struct MapError {
    /// What was being done.
    pub step: Step,
    /// What the kernel said.
    pub source: io::Error,
}

impl MapError {
    pub(super) const fn new(step: Step, source: io::Error) -> Self {
        Self { step, source }
    }

    /// The stable, kebab-case code.
    pub const fn code(&self) -> &'static str {
        match self.step {
            Step::Device => "map-device",
            Step::Create => "map-create",
            Step::Key => "map-key",
            Step::Load => "map-load",
            Step::Layout => "map-layout",
            Step::Resume => "map-resume",
            Step::Node => "map-node",
            Step::Prime => "map-prime",
            Step::Remove => "map-remove",
        }
    }
}

pub(super) const fn at(step: Step) -> impl FnOnce(io::Error) -> MapError {
    move |source| MapError { step, source }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fix = match self.step {
            Step::Device => "give the node a block device, not a file",
            Step::Create | Step::Remove => "check whether the mapping is in use already",
            Step::Key => "the kernel needs CONFIG_KEYS",
            Step::Load => {
                "check that the modules dm-crypt, xts and aes (authenticated: dm-integrity, authenc, hmac, sha256) are in the initramfs, and that the disk is not in use"
            }
            Step::Layout => {
                "check that the module dm-integrity is in the initramfs, that the disk is not in use, and that it has 8 MiB or more"
            }
            Step::Resume | Step::Node | Step::Prime => "see the kernel log",
        };
        write!(f, "State disk not mapped ({}): {}; {fix}", self.code(), self.source)
    }
}

impl std::error::Error for MapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

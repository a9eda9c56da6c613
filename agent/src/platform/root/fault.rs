//! Why the root can not be opened.

use std::fmt;
use std::io;
use std::path::PathBuf;

use latchkey_disk::DiskError;

/// The root can not be opened.
#[derive(Debug)]
pub enum RootFault {
    /// The top block of the hash tree does not have the measured root hash.
    Tree {
        /// The hash it has.
        found: [u8; 32],
    },
    /// A block of the root, or of its hash tree, does not match.
    Corrupt,
    /// A partition can not be read.
    Unreadable {
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no device mapper.
    NoMapper {
        /// What the kernel said.
        source: io::Error,
    },
    /// The device mapper does not take the table.
    NotMapped {
        /// Which step, and what the kernel said.
        source: DiskError,
    },
    /// The program that takes over can not be read.
    Program {
        /// Its path in the root.
        init: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// What the configuration wants writable can not be made so.
    Writable {
        /// What was being done.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl RootFault {
    /// The stable reason code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Tree { .. } => "root-verity-wrong-tree",
            Self::Corrupt => "root-verity-corrupt",
            Self::Unreadable { .. } => "root-verity-unreadable",
            Self::NoMapper { .. } => "root-verity-unavailable",
            Self::NotMapped { .. } => "root-verity-not-mapped",
            Self::Program { .. } => "root-program-unreadable",
            Self::Writable { .. } => "root-not-writable",
        }
    }
}

impl fmt::Display for RootFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree { found } => write!(
                f,
                "the top of the root's hash tree has the hash {} and not the measured one: the disk was changed, or \
                 belongs to another image; write the image again",
                hex::encode(found)
            ),
            Self::Corrupt => write!(
                f,
                "a block of the root or of its hash tree does not match the measured root hash, the kernel's line \
                 device-mapper: verity names it: the disk was changed or is failing; write the image again"
            ),
            Self::Unreadable { source } => {
                write!(f, "the root's partitions can not be read ({source}): check the disk, or write the image again")
            }
            Self::NoMapper { source } => write!(
                f,
                "the device mapper for the root is not there ({source}): put the module dm-verity into the initramfs"
            ),
            Self::NotMapped { source } => write!(
                f,
                "the kernel does not map the root ({}): its partitions are smaller than was measured, or the module \
                 dm-verity is not in the initramfs",
                cause(source)
            ),
            Self::Program { init, source } => {
                write!(f, "{} can not be read in the root ({source}): check latchkey.init", init.display())
            }
            Self::Writable { what, source } => write!(
                f,
                "{what} failed ({source}): check latchkey.writable, that the root has these directories, and that the \
                 initramfs has the module overlay"
            ),
        }
    }
}

/// What the kernel said; the disk's own sentence is about state disks.
fn cause(error: &DiskError) -> String {
    match error {
        DiskError::Map(error) => format!("{}: {}", error.code(), error.source),
        other => other.to_string(),
    }
}

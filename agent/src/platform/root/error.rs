//! Why the root cannot be opened.

use std::io;
use std::path::PathBuf;

use latchkey_disk::DiskError;
use latchkey_reason::reason_codes;

/// The root cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The top block of the hash tree does not have the measured root hash.
    #[error("the top of the root's hash tree has the hash {} and not the measured one: the disk was changed, or belongs to another image", hex::encode(.found))]
    Tree {
        /// The hash it has.
        found: [u8; 32],
    },
    /// A block of the root, or of its hash tree, does not match.
    #[error(
        "a block of the root or of its hash tree does not match the measured root hash, the kernel's line device-mapper: verity names it: the disk was changed or is failing"
    )]
    Corrupt,
    /// A partition cannot be read.
    #[error("the root's partitions cannot be read ({source})")]
    Unreadable {
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no device mapper.
    #[error("the device mapper for the root is not there ({source})")]
    NoMapper {
        /// What the kernel said.
        source: io::Error,
    },
    /// The device mapper does not take the table.
    #[error("the kernel does not map the root ({})", cause(.source))]
    NotMapped {
        /// Which step, and what the kernel said.
        source: DiskError,
    },
    /// The program that takes over cannot be read.
    #[error("{} cannot be read in the root ({source})", .init.display())]
    Program {
        /// Its path in the root.
        init: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// What the configuration wants writable cannot be made so.
    #[error("{what} failed ({source})")]
    Writable {
        /// What was being done.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

reason_codes! {
    /// The root cannot be opened.
    pub enum RootCode {
        /// The top block of the hash tree does not have the measured root hash.
        Tree = "root-verity-wrong-tree":
            "write the image again";
        /// A block of the root, or of its hash tree, does not match.
        Corrupt = "root-verity-corrupt":
            "write the image again";
        /// A partition cannot be read.
        Unreadable = "root-verity-unreadable":
            "check the disk, or write the image again";
        /// There is no device mapper.
        NoMapper = "root-verity-unavailable":
            "put the module dm-verity into the initramfs";
        /// The device mapper does not take the table.
        NotMapped = "root-verity-not-mapped":
            "check that the module dm-verity is in the initramfs and the partitions are as large as was measured, or write the image again";
        /// The program that takes over cannot be read.
        Program = "root-program-unreadable":
            "check latchkey.init";
        /// What the configuration wants writable cannot be made so.
        Writable = "root-not-writable":
            "check latchkey.writable, that the root has these directories, and that the initramfs has the module overlay";
    }
}

impl RootError {
    /// The stable reason code.
    pub fn code(&self) -> RootCode {
        match self {
            Self::Tree { .. } => RootCode::Tree,
            Self::Corrupt => RootCode::Corrupt,
            Self::Unreadable { .. } => RootCode::Unreadable,
            Self::NoMapper { .. } => RootCode::NoMapper,
            Self::NotMapped { .. } => RootCode::NotMapped,
            Self::Program { .. } => RootCode::Program,
            Self::Writable { .. } => RootCode::Writable,
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

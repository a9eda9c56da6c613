//! The root of the operating system: a file system that the measured root hash vouches for, block by block.
//!
//! The root hash, the salt and the length come from the measured configuration; the partition table only says where to
//! look, and whatever lies there is data of the right hash or an error of the kernel's.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use latchkey_disk::{Control, DeviceNumber, DiskError, Mapping, MappingName, VerityRoot};

use super::config::RootVerity;
use super::devices::{self, BlockDevice, DeviceFault, Guid, Wanted};

/// The mapping's name below `/dev/mapper`.
const MAPPING: &str = "root";
/// `veritysetup` writes a superblock into the first block, and the tree behind it. The superblock is not read.
const TREE_BEGIN: u64 = 1;

/// Where the root lies, if the partition tables say the truth.
#[derive(Debug, Clone)]
pub struct Located {
    /// The partition of the file system.
    pub data: BlockDevice,
    /// The partition of its hash tree.
    pub hashes: BlockDevice,
}

impl Located {
    /// Finds both partitions by their own GUIDs, which are the two halves of the root hash (Discoverable Partitions
    /// Specification: "the first 128bit of the root hash" for the root, "the last 128bit" for the hash tree), waiting
    /// for them until the time is over.
    pub async fn find(root: &RootVerity, timeout: Duration) -> Result<Self, DeviceFault> {
        let (data, hashes) = ids(&root.root_hash);
        let find = |id, what| async move { devices::find(&Wanted::Partition(id, what), timeout).await };
        Ok(Self { data: find(data, "the root").await?, hashes: find(hashes, "the root's hash tree").await? })
    }

    /// Both partitions.
    pub fn devices(&self) -> [BlockDevice; 2] {
        [self.data.clone(), self.hashes.clone()]
    }
}

fn ids(root_hash: &[u8; 32]) -> (Guid, Guid) {
    let half = |offset: usize| Guid::from_text_order(std::array::from_fn(|index| root_hash[offset + index]));
    (half(0), half(16))
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, hash tree {}", self.data, self.hashes)
    }
}

/// Maps the root as `/dev/mapper/root`.
pub fn map(located: &Located, root: &RootVerity) -> Result<Mapping, VerityFault> {
    let number = |device: &BlockDevice| {
        let metadata = std::fs::metadata(device.path());
        metadata.map(|metadata| DeviceNumber::from_dev(metadata.rdev())).map_err(|source| VerityFault::Io { source })
    };
    let target = VerityRoot {
        data: number(&located.data)?,
        hashes: number(&located.hashes)?,
        data_blocks: root.blocks.into(),
        hash_start_block: TREE_BEGIN,
        root_hash: root.root_hash,
        salt: root.salt.clone(),
    };
    let control = Control::open().map_err(|source| VerityFault::Io { source })?;
    let name: MappingName =
        MAPPING.parse().map_err(|_| VerityFault::Io { source: io::ErrorKind::InvalidInput.into() })?;
    Mapping::open_root(&control, &target, name).map_err(|source| VerityFault::Map { source })
}

/// The root can not be opened.
#[derive(Debug)]
pub enum VerityFault {
    /// A partition or the device mapper can not be opened.
    Io {
        /// What the kernel said.
        source: io::Error,
    },
    /// The device mapper does not take the table.
    Map {
        /// Which step, and what the kernel said.
        source: DiskError,
    },
}

impl VerityFault {
    /// The stable reason code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "root-verity-unavailable",
            Self::Map { .. } => "root-verity-not-mapped",
        }
    }
}

impl fmt::Display for VerityFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { source } => write!(
                f,
                "the device mapper for the root is not there ({source}): put the module dm-verity into the initramfs"
            ),
            Self::Map { source } => write!(f, "the root is not mapped: {source}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partitions_guids_are_the_halves_of_the_root_hash() {
        let hash: [u8; 32] = std::array::from_fn(|index| u8::try_from(index).unwrap());
        let (data, hashes) = ids(&hash);
        assert_eq!(data.to_string(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(hashes.to_string(), "10111213-1415-1617-1819-1a1b1c1d1e1f");
    }
}

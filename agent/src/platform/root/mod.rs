//! The root of the operating system: a file system that the measured root hash vouches for, block by block.
//!
//! The root hash, the salt and the length come from the measured configuration; the partition table only says where to
//! look. Whatever lies there is data of the right hash, or reading it is an error. In code order:
//!
//! 1. [`Located::find`] waits for the two partitions;
//! 2. [`OpenRoot::open`] reads the hash tree's top block, maps the file system with dm-verity, mounts it read-only, makes
//!    writable what the configuration says, and reads the beginning of the program that takes over. A block that does not
//!    match is an I/O error in this step, so that the boot can be refused with a reason;
//! 3. [`OpenRoot::seal`], right before the operating system takes over: from then on a block that does not match restarts
//!    the machine, and the kernel's log names it. An I/O error would let the operating system live on without files of the
//!    attacker's choice; a panic would do as well, but wait for `panic=` and may hang. The same for a block that the *disk*
//!    refuses to read, where the kernel has an option for it (6.12); before, it stays an I/O error, and the boot says so.

mod error;
mod writable;

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

use latchkey_boot_formats::{Guid, sha256};
use latchkey_disk::{Control, DeviceNumber, Mapping, MappingName, OnCorruption, VerityRoot};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::PlatformError;
use super::devices::{self, BlockDevice, DeviceError, Wanted};
use super::mounts::{self, NEW_ROOT};
use super::pid1::Pid1;
use latchkey_node_config::{Config, RootVerity, Writable};

pub use error::{RootCode, RootError};

/// The mapping's name below `/dev/mapper`.
const MAPPING: &str = "root";
const BLOCK: usize = 4096;
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
    pub async fn find(root: &RootVerity, timeout: Duration) -> Result<Self, DeviceError> {
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

/// The root, mapped and mounted at [`NEW_ROOT`], with what is writable over it.
#[derive(Debug)]
pub struct OpenRoot {
    control: Control,
    target: VerityRoot,
    mapping: Mapping,
}

impl OpenRoot {
    /// Opens the root of this configuration.
    pub fn open(pid1: Pid1, located: &Located, config: &Config) -> Result<Self, PlatformError> {
        let root = Self::map(located, config.root()?)?;
        let place = if config.writable == Writable::Overlay { writable::LOWER } else { NEW_ROOT };
        mounts::root(pid1, root.mapping.path(), place, config.root_fs)
            .map_err(|error| root.explain(error.source()).map_or(error.into(), PlatformError::from))?;
        writable::make(pid1, &config.writable).map_err(|refused| {
            root.explain(&refused.source).unwrap_or(RootError::Writable { what: refused.what, source: refused.source })
        })?;
        read_program(&config.init).map_err(|error| {
            root.explain(&error).unwrap_or(RootError::Program { init: config.init.clone(), source: error })
        })?;
        root.must_be_clean()?;
        Ok(root)
    }

    fn map(located: &Located, root: &RootVerity) -> Result<Self, RootError> {
        let number = |device: &BlockDevice| {
            let metadata = std::fs::metadata(device.path());
            metadata
                .map(|metadata| DeviceNumber::from_dev(metadata.rdev()))
                .map_err(|source| RootError::Unreadable { source })
        };
        let target = VerityRoot {
            data: number(&located.data)?,
            hashes: number(&located.hashes)?,
            data_blocks: root.blocks.into(),
            hash_start_block: TREE_BEGIN,
            root_hash: root.root_hash,
            salt: root.salt.clone(),
        };
        let hashes = File::open(located.hashes.path()).map_err(|source| RootError::Unreadable { source })?;
        check_top(&hashes, root)?;
        let control = Control::open().map_err(|source| RootError::NoMapper { source })?;
        let name: MappingName =
            MAPPING.parse().map_err(|_| RootError::NoMapper { source: io::ErrorKind::InvalidInput.into() })?;
        let mapping = Mapping::open_root(&control, &target, name).map_err(|source| RootError::NotMapped { source })?;
        Ok(Self { control, target, mapping })
    }

    /// What a failed read or mount means, if it was not the file system's own fault.
    fn explain(&self, error: &io::Error) -> Option<RootError> {
        match self.mapping.met_corruption(&self.control) {
            Ok(true) => Some(RootError::Corrupt),
            _ if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                Some(RootError::Unreadable { source: io::Error::from(rustix::io::Errno::IO) })
            }
            _ => None,
        }
    }

    fn must_be_clean(&self) -> Result<(), RootError> {
        match self.mapping.met_corruption(&self.control) {
            Ok(false) => Ok(()),
            Ok(true) => Err(RootError::Corrupt),
            Err(source) => Err(RootError::NoMapper { source }),
        }
    }

    /// From now on a block that does not match restarts the machine, and what the proof says of one that cannot be read.
    pub fn seal(self) -> Result<SealedRoot, RootError> {
        self.must_be_clean()?;
        let sealed = self.mapping.restart_on_corruption(&self.control, &self.target);
        Ok(SealedRoot(sealed.map_err(|source| RootError::NotMapped { source })?))
    }
}

impl fmt::Display for OpenRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks of root hash {}", self.target.data_blocks, hex::encode(self.target.root_hash))
    }
}

/// Proof that the root is mounted at [`NEW_ROOT`] and that nothing but what was measured comes out of it.
#[derive(Debug)]
pub struct SealedRoot(OnCorruption);

impl fmt::Display for SealedRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            OnCorruption::RestartAlsoIfUnreadable => {
                "a block of the root that does not match, or that its disk refuses to read, restarts the machine"
            }
            _ => {
                "a block of the root that does not match restarts the machine; one that its disk refuses to read is an I/O \
                 error (kernels before 6.12)"
            }
        })
    }
}

/// The tree's top block decides over all others, and tells a wrong root hash from a changed block.
fn check_top(hashes: &File, root: &RootVerity) -> Result<(), RootError> {
    let mut top = [0; BLOCK];
    hashes.read_exact_at(&mut top, TREE_BEGIN * BLOCK as u64).map_err(|source| RootError::Unreadable { source })?;
    // Format 1: "the salt is prepended" (the kernel's admin-guide/device-mapper/verity.rst).
    let found = sha256(&[&root.salt, &top]);
    if found == root.root_hash { Ok(()) } else { Err(RootError::Tree { found }) }
}

/// Reads the beginning of the program that takes over, as the kernel will: the way there and its first block are whole.
/// A link may lead to a file that exists only after the switch; then exec judges it.
fn read_program(init: &Path) -> io::Result<()> {
    let root = rustix::fs::open(NEW_ROOT, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match openat2(root.as_fd(), init, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        Ok(program) => File::from(program).take(BLOCK as u64).read_to_end(&mut Vec::new()).map(drop),
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
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

    /// A hash partition whose top block is full of this.
    fn partition(content: u8) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"verity\0\0", 0).unwrap();
        file.write_all_at(&[content; BLOCK], 4096).unwrap();
        file
    }

    #[test]
    fn a_tree_whose_top_is_not_the_measured_one_is_refused_before_it_is_mapped() {
        let mut root = RootVerity { root_hash: [0; 32], salt: vec![1, 2, 3], blocks: 9 };
        let Err(RootError::Tree { found }) = check_top(&partition(7), &root) else { panic!("no tree has the hash 0") };
        root.root_hash = found;
        assert!(check_top(&partition(7), &root).is_ok());
        assert_eq!(check_top(&partition(8), &root).unwrap_err().code().as_str(), "root-verity-wrong-tree");
        root.salt.pop();
        assert_eq!(check_top(&partition(7), &root).unwrap_err().code().as_str(), "root-verity-wrong-tree");
    }

    #[test]
    fn a_boot_says_what_an_unreadable_block_of_its_root_does() {
        let [old, new] =
            [OnCorruption::Restart, OnCorruption::RestartAlsoIfUnreadable].map(|on| SealedRoot(on).to_string());
        assert!(old.contains("is an I/O error") && !new.contains("I/O error"), "{old}; {new}");
    }

    #[test]
    fn a_hash_partition_that_ends_before_its_tree_is_unreadable() {
        let root = RootVerity { root_hash: [0; 32], salt: Vec::new(), blocks: 9 };
        assert_eq!(
            check_top(&tempfile::tempfile().unwrap(), &root).unwrap_err().code().as_str(),
            "root-verity-unreadable"
        );
    }
}

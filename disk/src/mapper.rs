//! Maps an unlocked disk: key into the keyring, mapping with its table, key out of the keyring, device node.

use crate::block::{DeviceNumber, Disk};
use crate::dm::{Control, MappingName, Table, VerityRoot};
use crate::error::DiskError;
use crate::keyring::{KeyDescription, LoadedKey};
use crate::luks2::{TokenKey, UnlockedDisk};
use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A live mapping.
#[derive(Debug)]
pub struct Mapping {
    name: MappingName,
    device: DeviceNumber,
    path: PathBuf,
}

impl Mapping {
    /// Maps `unlocked`, which lies on `disk`, as `/dev/mapper/<name>`, and keeps of it only the token's key.
    ///
    /// Takes the disk, because its exclusive hold must end first: the device mapper claims the device for itself and
    /// would find it busy.
    ///
    /// In order: the key goes into this thread's keyring; mapping and table are made, which makes dm-crypt copy the key;
    /// the key leaves the keyring again; the table goes live; the device node appears. When a step fails, the mapping is
    /// removed and the key is gone.
    ///
    /// # Errors
    /// [`DiskError::Map`] with the step that failed.
    pub fn open(
        control: &Control,
        disk: Disk,
        unlocked: UnlockedDisk,
        name: MappingName,
    ) -> Result<(Self, TokenKey), DiskError> {
        let under = disk.number().ok_or_else(|| MapError::new(Step::Device, io::ErrorKind::InvalidInput.into()))?;
        drop(disk);
        let uuid = uuid(&unlocked, &name);
        let mapping = Self::create(control, name, &uuid)?;
        mapping.keep_if(control, mapping.fill(control, under, &unlocked))?;
        Ok((mapping, unlocked.into_token_key()))
    }

    /// Maps a read-only root as `/dev/mapper/<name>`.
    ///
    /// # Errors
    /// [`DiskError::Map`] with the step that failed; the mapping is removed then.
    pub fn open_root(control: &Control, root: &VerityRoot, name: MappingName) -> Result<Self, DiskError> {
        // What veritysetup calls such a mapping.
        let uuid = format!("CRYPT-VERITY-{}-{}", hex::encode(&root.root_hash[..16]), name.as_str());
        let mapping = Self::create(control, name, &uuid)?;
        mapping.keep_if(control, mapping.go_live(control, &Table::verity(root)))?;
        Ok(mapping)
    }

    /// The mapping's name.
    pub const fn name(&self) -> &MappingName {
        &self.name
    }

    /// The mapping's device number.
    pub const fn device(&self) -> DeviceNumber {
        self.device
    }

    /// `/dev/mapper/<name>`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the mapping and its node.
    ///
    /// # Errors
    /// [`DiskError::Map`]; busy while it is open.
    pub fn close(self, control: &Control) -> Result<(), DiskError> {
        control.remove(&self.name).map_err(at(Step::Remove))?;
        Ok(std::fs::remove_file(&self.path).map_err(at(Step::Node))?)
    }

    fn fill(&self, control: &Control, under: DeviceNumber, unlocked: &UnlockedDisk) -> Result<(), MapError> {
        let description = KeyDescription::for_disk(unlocked.uuid());
        let key = LoadedKey::add(&description, unlocked.volume_key()).map_err(at(Step::Key))?;
        control.load(&self.name, &Table::crypt(unlocked, &description, under)).map_err(at(Step::Load))?;
        key.remove().map_err(at(Step::Key))?;
        self.resume(control)
    }

    fn create(control: &Control, name: MappingName, uuid: &str) -> Result<Self, MapError> {
        let device = control.create(&name, uuid).map_err(at(Step::Create))?;
        let path = Path::new(DIRECTORY).join(name.as_str());
        Ok(Self { name, device, path })
    }

    fn go_live(&self, control: &Control, table: &Table) -> Result<(), MapError> {
        control.load(&self.name, table).map_err(at(Step::Load))?;
        self.resume(control)
    }

    fn resume(&self, control: &Control) -> Result<(), MapError> {
        control.resume(&self.name).map_err(at(Step::Resume))?;
        link(&self.path, self.device).map_err(at(Step::Node))
    }

    /// Removes the mapping again when a step failed.
    fn keep_if(&self, control: &Control, outcome: Result<(), MapError>) -> Result<(), MapError> {
        if outcome.is_err() {
            // The first error is the one to tell; an empty mapping that stays behind holds no key.
            let _ = control.remove(&self.name);
        }
        outcome
    }
}

const DIRECTORY: &str = "/dev/mapper";

/// What cryptsetup calls such a mapping, so that its tools recognise ours.
fn uuid(unlocked: &UnlockedDisk, name: &MappingName) -> String {
    format!("CRYPT-LUKS2-{}-{}", hex::encode(unlocked.uuid().as_bytes()), name.as_str())
}

/// devtmpfs makes `/dev/dm-<minor>`; the name beside it is ours to make, as udev would. A link that a mapping of an
/// earlier run left behind is replaced.
fn link(path: &Path, device: DeviceNumber) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(format!("../dm-{}", device.minor), path)
}

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
    /// Taking the table into use.
    Resume,
    /// Making or removing the device node.
    Node,
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
    const fn new(step: Step, source: io::Error) -> Self {
        Self { step, source }
    }

    /// The stable, kebab-case code.
    pub const fn code(&self) -> &'static str {
        match self.step {
            Step::Device => "map-device",
            Step::Create => "map-create",
            Step::Key => "map-key",
            Step::Load => "map-load",
            Step::Resume => "map-resume",
            Step::Node => "map-node",
            Step::Remove => "map-remove",
        }
    }
}

const fn at(step: Step) -> impl FnOnce(io::Error) -> MapError {
    move |source| MapError { step, source }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fix = match self.step {
            Step::Device => "give the node a block device, not a file",
            Step::Create | Step::Remove => "check whether the mapping is in use already",
            Step::Key => "the kernel needs CONFIG_KEYS",
            Step::Load => {
                "check that the modules dm-crypt, xts and aes are in the initramfs, and that the disk is not in use"
            }
            Step::Resume | Step::Node => "see the kernel log",
        };
        write!(f, "State disk not mapped ({}): {}; {fix}", self.code(), self.source)
    }
}

impl std::error::Error for MapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unlocked;

    #[test]
    fn the_mapping_is_called_as_cryptsetup_would_call_it() {
        let disk = unlocked(4 << 20);
        let expected = "CRYPT-LUKS2-f81d4fae7dec11d0a76500a0c91e6bf6-state";
        assert_eq!(uuid(&disk, &"state".parse().unwrap()), expected);
    }

    #[test]
    fn the_node_of_an_earlier_run_is_replaced() {
        let folder = std::env::temp_dir().join(format!("latchkey-disk-node-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("state");
        for minor in [3, 4] {
            link(&path, DeviceNumber { major: 253, minor }).unwrap();
            assert_eq!(std::fs::read_link(&path).unwrap(), Path::new(&format!("../dm-{minor}")));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// Here, where there is no device mapper: the first thing that is missing is named, and nothing else is tried.
    #[test]
    fn a_file_cannot_be_mapped_and_the_error_says_so() {
        let error = MapError::new(Step::Device, io::ErrorKind::InvalidInput.into());
        assert!(error.to_string().contains("map-device") && error.to_string().contains("block device"));
    }
}

//! Maps an unlocked disk: key into the keyring, mapping with its table, key out of the keyring, device node.

mod error;
mod prime;

pub use error::{MapCode, MapError, Step};

use crate::block::{BlockDevice, DeviceNumber, Disk};
use crate::dm::{Control, MappingName, OnCorruption, Table, VerityRoot};
use crate::error::DiskError;
use crate::keyring::{KeyDescription, LoadedKey};
use crate::luks2::{Draft, NewDisk, SegmentMode, TokenKey, UnlockedDisk};
use crate::probe::Fresh;
use crate::random::Random;
use crate::superblock;
use error::at;
use std::io;
use std::path::{Path, PathBuf};

/// A live mapping.
#[derive(Debug)]
pub struct Mapping {
    name: MappingName,
    device: DeviceNumber,
    path: PathBuf,
    /// The `integrity` mapping below an authenticated disk.
    below: Option<MappingName>,
}

impl Mapping {
    /// Maps `unlocked`, which lies on `disk`, as `/dev/mapper/<name>`, and keeps of it only the token's key.
    ///
    /// Takes the disk, because its exclusive hold must end first: the device mapper claims the device for itself and
    /// would find it busy.
    ///
    /// In order: the integrity superblock, if there is one, is held against the token; its mapping is made; the key goes
    /// into this thread's keyring; mapping and table are made, which makes dm-crypt copy the key; the key leaves the
    /// keyring again; the table goes live; the device node appears. When a step fails, the mappings are removed and the
    /// key is gone.
    ///
    /// # Errors
    /// [`DiskError::Map`] with the step that failed; [`DiskError::Superblock`].
    pub fn open(
        control: &Control,
        disk: Disk,
        unlocked: UnlockedDisk,
        name: MappingName,
    ) -> Result<(Self, TokenKey), DiskError> {
        let under = number(&disk)?;
        if let Some(geometry) = unlocked.geometry() {
            superblock::read_expecting(&disk, unlocked.data_offset(), geometry)?;
        }
        drop(disk);
        let mapping = Self::stack(control, under, &unlocked, name)?;
        Ok((mapping, unlocked.into_token_key()))
    }

    /// Formats `disk`, in the mode that `new` says, and maps it.
    ///
    /// The authenticated mode is not wiped: that would write the whole disk. Its sectors are I/O errors until they are
    /// written, and `prime` writes the few that file systems touch first. All of this happens while sector 0 still says
    /// "fresh"; the headers come last. So a power cut anywhere leaves a fresh disk or a whole one.
    ///
    /// # Errors
    /// As for [`Self::open`] and [`Fresh::format`]. Nothing is mapped then, and unless the very last header was written
    /// the disk is fresh.
    pub fn format(
        control: &Control,
        mut disk: Disk,
        fresh: Fresh,
        new: NewDisk<'_>,
        name: MappingName,
        random: &mut impl Random,
    ) -> Result<(Self, TokenKey), DiskError> {
        let mode = new.mode;
        let mut draft = fresh.begin(&mut disk, new, random)?;
        if mode == SegmentMode::Confidential {
            let unlocked = draft.finish(&mut disk, random)?;
            return Self::open(control, disk, unlocked, name);
        }
        let (under, path) = (number(&disk)?, disk.path().to_owned());
        let journal = journal(disk.size().map_err(at(Step::Device))?);
        drop(disk);
        let table = Table::integrity_format(under, draft.unlocked().data_offset(), journal);
        lay_out(control, draft.unlocked(), &name, &table)?;
        // Opened only now, so that the kernel reads the superblock from the disk and not from a cache of the zeros.
        let mut disk = Disk::open_shared(&path).map_err(at(Step::Device))?;
        draft.measured(superblock::read(&disk, draft.unlocked().data_offset())?);
        let mapping = Self::stack(control, under, draft.unlocked(), name)?;
        match mapping.fill_draft(draft, &mut disk, random) {
            Ok(unlocked) => Ok((mapping, unlocked.into_token_key())),
            Err(error) => {
                // The first error is the one to tell.
                let _ = mapping.close(control);
                Err(error)
            }
        }
    }

    /// Maps a read-only root as `/dev/mapper/<name>`. Reading a block that does not match is an error.
    ///
    /// # Errors
    /// [`DiskError::Map`] with the step that failed; the mapping is removed then.
    pub fn open_root(control: &Control, root: &VerityRoot, name: MappingName) -> Result<Self, DiskError> {
        // What veritysetup calls such a mapping.
        let uuid = format!("CRYPT-VERITY-{}-{}", hex::encode(&root.root_hash[..16]), name.as_str());
        let mapping = Self::create(control, name, &uuid)?;
        let table = Table::verity(root, OnCorruption::Error);
        mapping.keep_if(control, mapping.go_live(control, &table).and_then(|()| mapping.link()))?;
        Ok(mapping)
    }

    /// From now on a block of this root that does not match restarts the machine, and with a kernel that can do it, one
    /// that the disk refuses to read, too: says which. Who has the mapping open notices nothing.
    ///
    /// # Errors
    /// [`DiskError::Map`]; the mapping stays as it was then.
    pub fn restart_on_corruption(&self, control: &Control, root: &VerityRoot) -> Result<OnCorruption, DiskError> {
        // A kernel that does not tell is not asked for more than all kernels can do.
        let targets = control.target_versions().unwrap_or_default();
        let version = targets.iter().find(|target| target.name == "verity").map(|target| target.version);
        let strictest = OnCorruption::strictest(version);
        if control.load(&self.name, &Table::verity(root, strictest)).is_ok() {
            control.resume(&self.name).map_err(at(Step::Resume))?;
            return Ok(strictest);
        }
        self.go_live(control, &Table::verity(root, OnCorruption::Restart))?;
        Ok(OnCorruption::Restart)
    }

    /// Whether a block of this root has been read that did not match: the kernel's status of a `verity` target is `V`
    /// ("the verification succeeded") or `C` ("corruption was detected").
    ///
    /// # Errors
    /// What the kernel says.
    pub fn met_corruption(&self, control: &Control) -> io::Result<bool> {
        Ok(!control.status(&self.name)?.text.starts_with('V'))
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

    /// Removes the mapping, what is below it, and its node.
    ///
    /// # Errors
    /// [`DiskError::Map`]; busy while it is open.
    pub fn close(self, control: &Control) -> Result<(), DiskError> {
        control.remove(&self.name).map_err(at(Step::Remove))?;
        if let Some(below) = &self.below {
            control.remove(below).map_err(at(Step::Remove))?;
        }
        Ok(std::fs::remove_file(&self.path).map_err(at(Step::Node))?)
    }

    /// One mapping, or two on top of each other.
    fn stack(
        control: &Control,
        under: DeviceNumber,
        unlocked: &UnlockedDisk,
        name: MappingName,
    ) -> Result<Self, MapError> {
        let Some(geometry) = unlocked.geometry() else {
            return Self::crypt(control, under, unlocked, name);
        };
        let below = Self::create(control, name_below(&name)?, &uuid_below(unlocked, &name))?;
        let table = Table::integrity(under, unlocked.data_offset(), geometry);
        below.keep_if(control, below.go_live(control, &table))?;
        let crypt = Self::crypt(control, below.device, unlocked, name);
        if crypt.is_err() {
            // The first error is the one to tell.
            let _ = control.remove(&below.name);
        }
        Ok(Self { below: Some(below.name), ..crypt? })
    }

    fn crypt(
        control: &Control,
        under: DeviceNumber,
        unlocked: &UnlockedDisk,
        name: MappingName,
    ) -> Result<Self, MapError> {
        let uuid = uuid(unlocked, &name);
        let mapping = Self::create(control, name, &uuid)?;
        mapping.keep_if(control, mapping.fill(control, under, unlocked))?;
        Ok(mapping)
    }

    fn fill(&self, control: &Control, under: DeviceNumber, unlocked: &UnlockedDisk) -> Result<(), MapError> {
        let description = KeyDescription::for_disk(unlocked.uuid());
        let key = LoadedKey::add(&description, unlocked.volume_key()).map_err(at(Step::Key))?;
        control.load(&self.name, &Table::crypt(unlocked, &description, under)).map_err(at(Step::Load))?;
        key.remove().map_err(at(Step::Key))?;
        control.resume(&self.name).map_err(at(Step::Resume))?;
        self.link()
    }

    /// Primes the mapping of a draft, and then makes the draft a disk.
    fn fill_draft(&self, draft: Draft, disk: &mut Disk, random: &mut impl Random) -> Result<UnlockedDisk, DiskError> {
        prime::prime(&self.path, draft.unlocked().data_length()).map_err(at(Step::Prime))?;
        draft.finish(disk, random)
    }

    fn create(control: &Control, name: MappingName, uuid: &str) -> Result<Self, MapError> {
        let device = control.create(&name, uuid).map_err(at(Step::Create))?;
        let path = Path::new(DIRECTORY).join(name.as_str());
        Ok(Self { name, device, path, below: None })
    }

    fn go_live(&self, control: &Control, table: &Table) -> Result<(), MapError> {
        control.load(&self.name, table).map_err(at(Step::Load))?;
        control.resume(&self.name).map_err(at(Step::Resume))
    }

    fn link(&self) -> Result<(), MapError> {
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

/// The kernel's default is 1/128 of the device and at most 64 MiB, all of which is written once and read on each boot: half
/// of that, and at most 16 MiB, is as good for bursts. It is made of sections of about 1.2 MiB, and has at least one.
const MAX_JOURNAL: u64 = 16 << 20;

/// Units of the journal of a device of `size` bytes.
fn journal(size: u64) -> u64 {
    (size >> 8).min(MAX_JOURNAL) / superblock::UNIT
}

fn number(disk: &Disk) -> Result<DeviceNumber, MapError> {
    disk.number().ok_or_else(|| MapError::new(Step::Device, io::ErrorKind::InvalidInput.into()))
}

/// Loading the table is all it takes: the kernel writes superblock and journal then. The mapping is never used.
fn lay_out(control: &Control, disk: &UnlockedDisk, name: &MappingName, table: &Table) -> Result<(), MapError> {
    let below = name_below(name)?;
    control.create(&below, &uuid_below(disk, name)).map_err(at(Step::Create))?;
    let loaded = control.load(&below, table).map_err(at(Step::Layout));
    let removed = control.remove(&below).map_err(at(Step::Remove));
    loaded.and(removed)
}

/// What cryptsetup calls such a mapping, so that its tools recognise ours.
fn uuid(unlocked: &UnlockedDisk, name: &MappingName) -> String {
    format!("CRYPT-LUKS2-{}-{}", hex::encode(unlocked.uuid().as_bytes()), name.as_str())
}

/// And the one below.
fn uuid_below(unlocked: &UnlockedDisk, name: &MappingName) -> String {
    format!("CRYPT-INTEGRITY-{}-{}_dif", hex::encode(unlocked.uuid().as_bytes()), name.as_str())
}

fn name_below(name: &MappingName) -> Result<MappingName, MapError> {
    let below = format!("{}_dif", name.as_str()).parse();
    below.map_err(|fault| MapError::new(Step::Create, io::Error::new(io::ErrorKind::InvalidInput, fault)))
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
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        for minor in [3, 4] {
            link(&path, DeviceNumber { major: 253, minor }).unwrap();
            assert_eq!(std::fs::read_link(&path).unwrap(), Path::new(&format!("../dm-{minor}")));
        }
    }
}

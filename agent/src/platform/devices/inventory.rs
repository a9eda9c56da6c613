//! The block devices the kernel knows, from `/sys/class/block`.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use latchkey_boot_formats::gpt;

use super::DeviceError;
use crate::platform::volume::Label;

/// Files of sysfs have at most a page.
const MAX_ATTRIBUTE: u64 = 4096;
/// More than any machine has.
const MAX_DEVICES: usize = 4096;

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its name below `/dev`.
    pub name: String,
    /// A whole disk or a part of one.
    pub kind: Kind,
    /// Its size in bytes.
    pub bytes: u64,
    /// The size of its logical sectors in bytes.
    pub sector: u32,
    /// Whether it cannot be written.
    pub read_only: bool,
    /// Whether its medium can be taken out.
    pub removable: bool,
    /// The serial number it states, of the disk for a partition; for logs only.
    pub serial: Option<String>,
}

/// What kind of block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A whole disk.
    Disk,
    /// A part of one.
    Partition {
        /// The name of the disk.
        disk: String,
        /// Its number in the partition table.
        number: u32,
        /// Its label in the partition table.
        label: Option<String>,
        /// Its first byte on the disk.
        begin: u64,
    },
}

impl BlockDevice {
    /// Its device file.
    pub fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// The disk it is or lies on.
    pub fn disk(&self) -> &str {
        match &self.kind {
            Kind::Disk => &self.name,
            Kind::Partition { disk, .. } => disk,
        }
    }
}

impl fmt::Display for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/dev/{} ({} MiB", self.name, self.bytes >> 20)?;
        if let Kind::Partition { label: Some(label), .. } = &self.kind {
            write!(f, ", label {label:?}")?;
        }
        if let Some(serial) = &self.serial {
            write!(f, ", serial {serial:?}")?;
        }
        f.write_str(if self.read_only { ", read-only)" } else { ")" })
    }
}

/// All block devices of hardware, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The devices; those of the kernel's own making and optical drives are left out.
    pub devices: Vec<BlockDevice>,
    /// Optical drives: nothing but volumes is looked for on them.
    pub optical: Vec<BlockDevice>,
    root: PathBuf,
}

impl Inventory {
    /// Looks at `/sys` and `/dev` below this root, which is `/` outside of tests.
    pub fn scan(root: &Path) -> Result<Self, DeviceError> {
        let class = root.join("sys/class/block");
        let list = || -> io::Result<Vec<BlockDevice>> {
            let entries: io::Result<Vec<_>> = fs::read_dir(class)?.take(MAX_DEVICES).collect();
            Ok(entries?.iter().filter_map(|entry| describe(&entry.path())).collect())
        };
        let mut devices = list().map_err(|source| DeviceError::Inventory { source })?;
        devices.sort_by(|a, b| a.name.cmp(&b.name));
        let (optical, devices) = devices.into_iter().partition(|device| device.name.starts_with("sr"));
        Ok(Self { devices, optical, root: root.to_owned() })
    }

    /// What has a volume with this label on it: partitions, disks without any, media in optical drives.
    pub fn volumes(&self, label: Label) -> Vec<&BlockDevice> {
        let devices = self.devices.iter().filter(|device| !self.has_partitions(device)).chain(&self.optical);
        // A drive without a medium cannot be opened.
        devices.filter(|device| self.open(device).is_ok_and(|file| label.is_of(&file))).collect()
    }

    /// The partitions whose table entries are wanted, and the first damaged table met on the way.
    pub fn partitions(&self, wanted: impl Fn(&gpt::Partition) -> bool) -> (Vec<&BlockDevice>, Option<DeviceError>) {
        let (mut found, mut damage) = (Vec::new(), None);
        for disk in self.devices.iter().filter(|device| device.kind == Kind::Disk && self.has_partitions(device)) {
            match self.table(disk) {
                Ok(table) => found.extend(self.matching(disk, &table, &wanted)),
                Err(gpt::GptError::Absent) => {}
                Err(error) => damage = damage.or(Some(DeviceError::Table { disk: disk.name.clone(), error })),
            }
        }
        (found, damage)
    }

    /// Whether the kernel sees partitions on this disk.
    pub fn has_partitions(&self, disk: &BlockDevice) -> bool {
        self.devices.iter().any(|device| matches!(&device.kind, Kind::Partition { disk: of, .. } if *of == disk.name))
    }

    fn table(&self, disk: &BlockDevice) -> Result<gpt::Table, gpt::GptError> {
        let file = self.open(disk).map_err(gpt::GptError::Io)?;
        gpt::read(&file, disk.bytes, disk.sector)
    }

    fn open(&self, device: &BlockDevice) -> io::Result<fs::File> {
        fs::File::open(self.root.join("dev").join(&device.name))
    }

    fn matching<'a>(
        &'a self,
        on: &BlockDevice,
        table: &gpt::Table,
        wanted: impl Fn(&gpt::Partition) -> bool,
    ) -> impl Iterator<Item = &'a BlockDevice> {
        let (name, sector) = (on.name.clone(), u64::from(on.sector));
        let entries: Vec<_> =
            table.partitions.iter().filter(|entry| wanted(entry)).map(|e| (e.number, e.first)).collect();
        // Number and place must agree with what the kernel made of the table: it may have read another copy.
        self.devices.iter().filter(move |device| match &device.kind {
            Kind::Partition { disk, number, begin, .. } => {
                *disk == name
                    && entries.iter().any(|(entry, first)| entry == number && first.checked_mul(sector) == Some(*begin))
            }
            Kind::Disk => false,
        })
    }
}

/// A device of hardware, or nothing if it is none, has no size, or is vanishing at this moment.
fn describe(entry: &Path) -> Option<BlockDevice> {
    // A symbolic link into the tree of devices; for a partition the parent there is the disk.
    let place = fs::canonicalize(entry).ok()?;
    let name = entry.file_name()?.to_str()?.to_owned();
    let lies_in = |directory: &str| place.components().any(|part| part.as_os_str() == directory);
    // With several paths to one NVMe disk the kernel makes a disk of its own over them, and hides the paths.
    let made_up = lies_in("virtual") && !lies_in("nvme-subsystem");
    let hidden = number(&place.join("hidden")) == Some(1);
    if made_up || hidden || name.starts_with("fd") {
        return None;
    }
    let kind = kind(&place)?;
    let disk = if kind == Kind::Disk { place.as_path() } else { place.parent()? };
    // Sysfs counts in sectors of 512 bytes whatever the device's own are (Documentation/ABI/stable/sysfs-block).
    let bytes = number(&place.join("size"))?.checked_mul(512).filter(|bytes| *bytes > 0)?;
    Some(BlockDevice {
        name,
        kind,
        bytes,
        sector: number(&disk.join("queue/logical_block_size")).and_then(|size| size.try_into().ok()).unwrap_or(512),
        read_only: number(&place.join("ro")) != Some(0),
        removable: number(&disk.join("removable")) == Some(1),
        serial: ["serial", "device/serial"].iter().find_map(|file| attribute(&disk.join(file))),
    })
}

fn kind(place: &Path) -> Option<Kind> {
    let Some(number) = number(&place.join("partition")) else { return Some(Kind::Disk) };
    let uevent = attribute(&place.join("uevent")).unwrap_or_default();
    Some(Kind::Partition {
        disk: place.parent()?.file_name()?.to_str()?.to_owned(),
        number: number.try_into().ok()?,
        label: uevent.lines().find_map(|line| line.strip_prefix("PARTNAME=")).map(str::to_owned),
        begin: self::number(&place.join("start"))?.checked_mul(512)?,
    })
}

fn number(path: &Path) -> Option<u64> {
    attribute(path)?.parse().ok()
}

fn attribute(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_ATTRIBUTE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|text| !text.is_empty())
}

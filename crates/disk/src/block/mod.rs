//! Block devices: what the header code needs of one, and the real ones of Linux.

mod ioctl;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What the header code needs of a device. Offsets and lengths are bytes; callers keep them to multiples of 512.
pub trait BlockDevice {
    /// The device's size in bytes.
    ///
    /// # Errors
    /// What the kernel says.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// What the kernel says; a short device is [`io::ErrorKind::UnexpectedEof`].
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes `bytes` at `offset`. Durable only after [`Self::flush`]; until then any subset of its sectors may be.
    ///
    /// # Errors
    /// What the kernel says.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns when everything written before is durable.
    ///
    /// # Errors
    /// What the kernel says. After an error nothing is known about what was written.
    fn flush(&mut self) -> io::Result<()>;
}

/// A block device of the kernel, or a regular file in tests and tools.
#[derive(Debug)]
pub struct Disk {
    file: File,
    path: PathBuf,
    size: u64,
    number: Option<DeviceNumber>,
}

impl Disk {
    /// Opens `path` for reading and writing, and for nobody else: `O_EXCL` on a block device fails while a file system
    /// or a mapping holds it.
    ///
    /// # Errors
    /// What the kernel says; [`io::ErrorKind::ResourceBusy`] for a device in use.
    pub fn open_exclusive(path: &Path) -> io::Result<Self> {
        Self::open(path, libc::O_EXCL | libc::O_CLOEXEC)
    }

    /// Opens a device that a mapping of ours holds, to replace its node state.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open_shared(path: &Path) -> io::Result<Self> {
        Self::open(path, libc::O_CLOEXEC)
    }

    fn open(path: &Path, flags: libc::c_int) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        let path = path.to_owned();
        let metadata = file.metadata()?;
        let kind = metadata.file_type();
        if kind.is_block_device() {
            let number = DeviceNumber::from_dev(metadata.rdev());
            Ok(Self { size: ioctl::size(&file)?, number: Some(number), file, path })
        } else if kind.is_file() {
            Ok(Self { size: metadata.len(), number: None, file, path })
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a block device nor a regular file"))
        }
    }

    /// The device's number; a regular file has none, and cannot be mapped.
    pub const fn number(&self) -> Option<DeviceNumber> {
        self.number
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The smallest unit the device reads and writes (`BLKSSZGET`), in bytes; 512 for a regular file.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn logical_block_size(&self) -> io::Result<u32> {
        if self.number.is_some() { ioctl::logical_block_size(&self.file) } else { Ok(512) }
    }
}

impl BlockDevice for Disk {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// A device's major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the C library's `dev_t`.
    pub const fn from_dev(dev: u64) -> Self {
        Self { major: libc::major(dev), minor: libc::minor(dev) }
    }
}

impl core::fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

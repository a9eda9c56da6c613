//! The file of a log.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{LENGTH, record};
use crate::lock::beside;

/// What a log needs of a file; tests put failures between.
pub(crate) trait Disk: Send {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    fn set_len(&self, length: u64) -> io::Result<()>;
    fn sync_data(&self) -> io::Result<()>;
    fn sync_all(&self) -> io::Result<()>;
}

impl Disk for File {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, at)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        Self::set_len(self, length)
    }
    fn sync_data(&self) -> io::Result<()> {
        Self::sync_data(self)
    }
    fn sync_all(&self) -> io::Result<()> {
        Self::sync_all(self)
    }
}

/// Where a log is: `PATH.log`.
#[derive(Debug, Clone)]
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn of(database: &Path) -> Self {
        Self(beside(database, ".log"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// All bytes; none where there is no file.
    pub(crate) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let length = match self.0.metadata() {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if length > LENGTH + (record::LONGEST_BODY + record::HEAD) as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{length} bytes, more than a log has")));
        }
        std::fs::read(&self.0).map(Some)
    }

    /// The file, made where there is none.
    pub(crate) fn open(&self) -> io::Result<File> {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&self.0);
        let file = options?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    }

    /// Takes the file away, whose groups the database has. It does no harm if it stays.
    pub(crate) fn remove(&self) {
        drop(std::fs::remove_file(&self.0));
    }
}

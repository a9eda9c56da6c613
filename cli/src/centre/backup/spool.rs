//! Where the copies of a running backup are until they are in its file.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use latchkey_centre_site::Layout;
use rustix::fs::{FlockOperation, flock};

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files;

/// A directory in the centre's own, for its owner alone, that is removed with this. One backup of a centre runs at a time.
pub(super) struct Spool {
    path: PathBuf,
    _lock: File,
}

impl Spool {
    pub(super) fn make(layout: &Layout) -> Result<Self, CommandError> {
        let held = layout.root().join("backup.lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&held);
        let lock = lock.map_err(|error| files::unwritable(&held, &error))?;
        hold(&lock, "another command backs this centre up")?;
        let path = layout.root().join("backup.unfinished");
        remove(&path)?;
        files::make_directory(&path)?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // The next backup does it otherwise.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// Removes a directory that a run left which did not end.
pub(super) fn remove(path: &Path) -> Result<(), CommandError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(files::unwritable(path, &error)),
        _ => Ok(()),
    }
}

/// Takes a file, or a directory, until it is closed; an error says who has it otherwise.
pub(super) fn hold(file: &File, who: &str) -> Result<(), CommandError> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| CommandError::local(CommandCode::DirectoryBusy, who))
}

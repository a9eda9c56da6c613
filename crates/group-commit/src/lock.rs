//! Who has a file: one process, for as long as it likes, failures of the disk included.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::OpenError;

/// Held from opening to closing. redb's own lock ends whenever its file is opened anew after a failure; in between another
/// process could write what this one would never see.
#[derive(Debug)]
pub(crate) struct Lock {
    _held: File,
}

impl Lock {
    /// Takes `PATH.lock`, which stays when the lock ends: removing it would let two processes lock two files of one name.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let beside = beside(path, ".lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&beside)
            .map_err(OpenError::io("open", &beside))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _held: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::InUse(path.into())),
            Err(error) => Err(OpenError::io("lock", &beside)(io::Error::from(error))),
        }
    }
}

/// The path with something behind its name.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    name.into()
}

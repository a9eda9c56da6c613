//! Files that are replaced as a whole.

use crate::error::{ContentError, StoreError};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Begins the names of files that are being written. One that is found later is of a write that a crash ended.
pub(crate) const TEMPORARY: &str = ".new-";

/// What to do about a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Keep,
}

/// Reads at most `limit` bytes of a regular file. Anything else is refused before it is read: a pipe or a terminal would hold
/// the reader for as long as somebody likes.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, StoreError> {
    // NONBLOCK: opening a pipe must not wait for a writer. It changes nothing for regular files.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(StoreError::io("read", path))?;
    if !file.metadata().map_err(StoreError::io("read", path))?.is_file() {
        return Err(StoreError::malformed(path)(ContentError::NotRegular));
    }
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(StoreError::io("read", path))?;
    if bytes.len() > limit {
        return Err(StoreError::malformed(path)(ContentError::TooLarge(limit)));
    }
    Ok(bytes)
}

/// Writes `directory/name`, durable when this returns. Readers see the old file or the new one.
pub(crate) fn write(directory: &Path, name: &str, bytes: &[u8], existing: Existing) -> Result<(), StoreError> {
    let path = directory.join(name);
    let temporary = write_temporary(directory, name, bytes)?;
    let placed = match existing {
        Existing::Replace => fs::rename(&temporary, &path),
        // A hard link never replaces, and unlike a check before renaming it leaves no moment in between.
        Existing::Keep => fs::hard_link(&temporary, &path),
    };
    if existing == Existing::Keep || placed.is_err() {
        drop(fs::remove_file(&temporary));
    }
    match placed {
        Ok(()) => sync_directory(directory),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(StoreError::Exists { path }),
        Err(error) => Err(StoreError::io("write", &path)(error)),
    }
}

/// Writes a temporary file of a record's size, durably, and removes it.
pub(crate) fn try_writing(directory: &Path) -> Result<(), StoreError> {
    let path = write_temporary(directory, "try", &[b' '; 4096])?;
    fs::remove_file(&path).map_err(StoreError::io("remove", &path))
}

/// Removes what crashes left behind. Only while no other writer is at work.
pub(crate) fn remove_temporaries(directory: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(directory).map_err(StoreError::io("list", directory))?;
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
            fs::remove_file(entry.path()).map_err(StoreError::io("remove", &entry.path()))?;
        }
    }
    Ok(())
}

fn write_temporary(directory: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, StoreError> {
    let path = directory.join(format!("{TEMPORARY}{}-{name}", std::process::id()));
    // Left over from a process of the same number, or put there by somebody else: never followed, never written through.
    drop(fs::remove_file(&path));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o644);
    let written = options.open(&path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map(|()| path.clone()).map_err(|error| {
        drop(fs::remove_file(&path));
        StoreError::io("write", &path)(error)
    })
}

pub(crate) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(StoreError::io("make durable", directory))
}

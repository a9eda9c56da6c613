//! Files that are replaced as a whole.

use crate::error::{FolderError, Malformed};
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

/// Reads at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, FolderError> {
    let file = File::open(path).map_err(FolderError::io("read", path))?;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(FolderError::io("read", path))?;
    if bytes.len() > limit {
        return Err(FolderError::malformed(path)(Malformed::TooLarge(limit)));
    }
    Ok(bytes)
}

/// Writes `folder/name`, durable when this returns. Readers see the old file or the new one.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8], existing: Existing) -> Result<(), FolderError> {
    let path = folder.join(name);
    let temporary = write_temporary(folder, name, bytes)?;
    let placed = match existing {
        Existing::Replace => fs::rename(&temporary, &path),
        // A hard link never replaces, and unlike a check before renaming it leaves no moment in between.
        Existing::Keep => fs::hard_link(&temporary, &path),
    };
    if existing == Existing::Keep || placed.is_err() {
        drop(fs::remove_file(&temporary));
    }
    match placed {
        Ok(()) => sync_directory(folder),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(FolderError::Exists { path }),
        Err(error) => Err(FolderError::io("write", &path)(error)),
    }
}

/// Removes what crashes left behind. Only while no other writer is at work.
pub(crate) fn remove_temporaries(folder: &Path) -> Result<(), FolderError> {
    let entries = fs::read_dir(folder).map_err(FolderError::io("list", folder))?;
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
            fs::remove_file(entry.path()).map_err(FolderError::io("remove", &entry.path()))?;
        }
    }
    Ok(())
}

fn write_temporary(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, FolderError> {
    let path = folder.join(format!("{TEMPORARY}{}-{name}", std::process::id()));
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
        FolderError::io("write", &path)(error)
    })
}

pub(crate) fn sync_directory(folder: &Path) -> Result<(), FolderError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(FolderError::io("make durable", folder))
}

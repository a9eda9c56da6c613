//! Files that are replaced as a whole: `latchkey-durable-file` in the words of this crate.

use crate::error::{ContentError, StoreError};
use latchkey_durable_file::{Directory, Links, ReadError, is_unfinished, put};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

pub(crate) use latchkey_durable_file::Existing;

/// Begins the names of files that programs of before were writing when a crash came.
pub(crate) const TEMPORARY: &str = ".new-";

/// Reads at most `limit` bytes of a regular file. Anything else is refused before it is read: a pipe or a terminal would hold
/// the reader for as long as somebody likes.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, StoreError> {
    let read = || {
        let (directory, name) = Directory::of(path)?;
        // An operator may keep documents elsewhere.
        directory.read(name, limit, Links::Followed)
    };
    read().map(|mut bytes| std::mem::take(&mut *bytes)).map_err(|error| match error {
        ReadError::NotRegular => StoreError::malformed(path)(ContentError::NotRegular),
        ReadError::TooLong(limit) => StoreError::malformed(path)(ContentError::TooLarge(limit)),
        ReadError::Io(error) => StoreError::io("read", path)(error),
    })
}

/// Writes `directory/name`, durable when this returns. Readers see the old file or the new one.
pub(crate) fn write(directory: &Path, name: &str, bytes: &[u8], existing: Existing) -> Result<(), StoreError> {
    let path = directory.join(name);
    put(&path, 0o644, bytes, existing).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => StoreError::Exists { path },
        _ => StoreError::io("write", &path)(error),
    })
}

/// Makes a directory. One that is there stays as it is; a link to one is refused.
pub(crate) fn make(directory: &Path) -> Result<(), StoreError> {
    let made = Directory::of(directory).and_then(|(parent, name)| parent.make(name, 0o777));
    made.map(drop).map_err(StoreError::io("make", directory))
}

/// Writes a file of a record's size, durably, and gives it up.
pub(crate) fn try_writing(directory: &Path) -> Result<(), StoreError> {
    let try_it = || {
        let directory = Directory::open(directory)?;
        let turn = directory.turn("try", 0o644)?;
        turn.file().write_all(&[b' '; 4096])?;
        turn.file().sync_all()
    };
    try_it().map_err(StoreError::io("write in", directory))
}

/// Whether a name is of a file that is being written, or was when a crash came.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    is_unfinished(name) || name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
}

/// Removes what crashes left behind. Only while no other writer is at work.
pub(crate) fn remove_temporaries(directory: &Path) -> Result<(), StoreError> {
    let remove = || {
        let directory = Directory::open(directory)?;
        let left = directory.names()?.into_iter().filter(|name| is_temporary(name));
        left.map(|name| directory.remove(name)).try_for_each(|removed| removed.map(drop))
    };
    remove().map_err(StoreError::io("tidy up", directory))
}

/// Removes a file, durably. Whether there was one.
pub(crate) fn remove(path: &Path) -> Result<bool, StoreError> {
    latchkey_durable_file::remove(path).map_err(StoreError::io("remove", path))
}

/// Makes the names in a directory as durable as the files are.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    Directory::open(directory).and_then(|directory| directory.sync()).map_err(StoreError::io("make durable", directory))
}

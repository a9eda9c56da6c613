//! A copy of the file at one moment, while it is written.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use latchkey_durable_file::place;
use redb::backends::FileBackend;
use redb::{Database, ReadTransaction, ReadableTable};

use crate::CopyError;
use crate::file::definition;
use crate::lock::beside;

/// What the file held at one moment. Writes go on meanwhile; what they replace stays in the file as long as this is there.
pub struct Moment {
    seen: ReadTransaction,
    tables: &'static [&'static str],
}

impl Moment {
    pub(crate) const fn of(seen: ReadTransaction, tables: &'static [&'static str]) -> Self {
        Self { seen, tables }
    }

    /// Writes it to a file (mode 0600), durably. An existing file is replaced at the end, as a whole. Blocks.
    pub fn write_to(&self, path: impl AsRef<Path>) -> Result<(), CopyError> {
        copy(&self.seen, self.tables, path.as_ref())
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moment").field("tables", &self.tables).finish_non_exhaustive()
    }
}

/// Where a service leaves a copy of its file for a backup: beside it, with `.backup` behind its name.
pub fn copy_place(path: &Path) -> PathBuf {
    beside(path, ".backup")
}

/// The paths that copies are being written to.
static COPYING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// One copy at a time to one path: another one would take away what this one writes, and leave its own half under this one's name.
struct Writing<'a>(&'a Path);

impl<'a> Writing<'a> {
    fn to(path: &'a Path) -> Result<Self, CopyError> {
        if Self::all().insert(path.to_owned()) { Ok(Self(path)) } else { Err(CopyError::Busy) }
    }

    fn all() -> MutexGuard<'static, BTreeSet<PathBuf>> {
        COPYING.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        Self::all().remove(self.0);
    }
}

fn copy(from: &ReadTransaction, tables: &'static [&'static str], path: &Path) -> Result<(), CopyError> {
    let _one = Writing::to(path)?;
    let unfinished = beside(path, ".unfinished");
    // What a copy left that did not end. redb reads what it writes, and a `Turn` of `latchkey-durable-file` is for writing alone.
    if let Err(error) = fs::remove_file(&unfinished)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(CopyError::io("remove", &unfinished)(error));
    }
    let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&unfinished);
    let file = options.map_err(CopyError::io("make", &unfinished))?;
    let copied = fill(from, tables, file)
        .map_err(|error| CopyError::Storage(error.to_string()))
        .and_then(|()| place(&unfinished, path).map_err(CopyError::io("write", path)));
    if copied.is_err() {
        drop(fs::remove_file(&unfinished)); // what went wrong before is what the caller wants to know
    }
    copied
}

fn fill(from: &ReadTransaction, tables: &'static [&'static str], file: File) -> Result<(), redb::Error> {
    let database = Database::builder()
        .set_cache_size(4 << 20)
        .create_with_backend(FileBackend::new(file).map_err(redb::Error::from)?)?;
    let transaction = database.begin_write()?;
    for name in tables {
        let (read, mut written) = (from.open_table(definition(name))?, transaction.open_table(definition(name))?);
        for entry in read.iter()? {
            let (key, value) = entry?;
            written.insert(key.value(), value.value())?;
        }
    }
    transaction.commit()?;
    database.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_path_has_one_copy_at_a_time_and_other_paths_theirs_meanwhile() {
        let (path, other) = (Path::new("one place"), Path::new("another place"));
        let first = Writing::to(path).unwrap();
        let meanwhile = Writing::to(other).unwrap();
        assert!(matches!(Writing::to(path), Err(CopyError::Busy)));
        drop(meanwhile);
        assert!(matches!(Writing::to(path), Err(CopyError::Busy)), "the other one's end frees its own path");
        drop(first);
        Writing::to(path).unwrap();
    }
}

//! The file: written by whoever has it, one durable group of changes at a time.
//!
//! A group is appended to the log beside the database, which is one write and one fsync. When the log is full, a copy is taken or
//! the file is closed, the database gets all that the log has, in one transaction; the log then begins anew. At a start the
//! database gets what a process that was killed left in the log. So whatever is in the database was acknowledged, and
//! whatever was acknowledged is in the database or in the log.

mod database;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use latchkey_durable_file::sync_directory_of;
use redb::{Database, ReadableDatabase};

pub(crate) use database::definition;
use database::{Make, State};

use crate::lock::Lock;
use crate::log::{self, Disk, Log, Place, Scan};
use crate::{Change, Moment, OpenError, WriteError};

/// Who reads a file's entries when it is opened: table, key, value; an error refuses the file.
pub(crate) type Reader<'a> = &'a mut dyn FnMut(&'static str, &[u8], &[u8]) -> Result<(), String>;

/// How the two files are opened; tests put failures between.
pub(crate) struct Means {
    make: Make,
    disk: Box<dyn Fn(File) -> Box<dyn Disk> + Send>,
}

/// A durable file of keys and values, open for one process.
pub struct DurableFile {
    path: PathBuf,
    tables: &'static [&'static str],
    make: Make,
    /// None after a failure, until it was opened anew.
    database: Option<Arc<Database>>,
    place: Place,
    log: Log,
    _lock: Lock,
}

impl DurableFile {
    /// Opens the file, or makes it (mode 0600, within a directory that is there), and hands all its entries over.
    ///
    /// Every table that the caller will ever write is named in `tables`; others in the file are left alone. `PATH.lock` is
    /// made beside it, and `PATH.log`, which is part of the file until it is closed.
    pub fn open(
        path: impl AsRef<Path>,
        tables: &'static [&'static str],
        each: impl FnMut(&'static str, &[u8], &[u8]) -> Result<(), String>,
    ) -> Result<Self, OpenError> {
        let means = Means { make: Box::new(database::make), disk: Box::new(|file| Box::new(file)) };
        Self::open_with(path.as_ref(), tables, means, each)
    }

    pub(crate) fn open_with(
        path: &Path,
        tables: &'static [&'static str],
        means: Means,
        mut each: impl FnMut(&'static str, &[u8], &[u8]) -> Result<(), String>,
    ) -> Result<Self, OpenError> {
        let lock = Lock::take(path)?;
        let Means { make, disk } = means;
        let database = database::open(path, &make)?;
        let place = Place::of(path);
        let log = take_over(path, &database, tables, &place, &disk)?;
        database::read(&database, path, tables, &mut each)?;
        let (path, database) = (path.to_path_buf(), Some(Arc::new(database)));
        Ok(Self { path, tables, make, database, place, log, _lock: lock })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn tables(&self) -> &'static [&'static str] {
        self.tables
    }

    /// Writes all changes, or none, durably: they are on the disk when this returns. Of two changes of one key the later wins.
    ///
    /// Blocks for as long as the disk needs.
    pub fn commit(&mut self, changes: &[Change]) -> Result<(), WriteError> {
        changes.iter().try_for_each(|change| change.check(self.tables))?;
        if changes.is_empty() {
            return Ok(());
        }
        if self.log.is_full_for(changes) {
            self.settle(true)?;
        }
        self.log.append(changes)
    }

    /// What was acknowledged up to now, to be copied.
    pub fn moment(&mut self) -> Result<Moment, WriteError> {
        let database = self.settle(true)?;
        let seen = database.begin_read().map_err(|error| failed(&error))?;
        Ok(Moment::of(seen, self.tables))
    }

    /// Brings what the log has into the database; `open` says whether the log is written further.
    fn settle(&mut self, open: bool) -> Result<Arc<Database>, WriteError> {
        let database = self.working()?;
        if self.log.is_empty() && open {
            return Ok(database);
        }
        let bytes = self.log.read().map_err(|error| failed(&error))?;
        let changes = self.log.changes(&bytes).map_err(|damage| failed(&damage))?;
        let state = State { groups: self.log.last(), log: Some((self.log.key(), open)) };
        match database::write(&database, self.tables, changes.into_iter(), state) {
            Ok(()) => {
                self.log.restart();
                Ok(database)
            }
            Err(error) => {
                self.database = None;
                Err(failed(&error))
            }
        }
    }

    /// The database, opened anew after a failure.
    fn working(&mut self) -> Result<Arc<Database>, WriteError> {
        if let Some(database) = &self.database {
            return Ok(Arc::clone(database));
        }
        let database = database::open(&self.path, &self.make).map_err(|error| failed(&error))?;
        Ok(Arc::clone(self.database.insert(Arc::new(database))))
    }
}

impl Drop for DurableFile {
    /// Leaves everything in the database, so that it is one file. Where that fails the log stays, for the next start.
    fn drop(&mut self) {
        if self.settle(false).is_ok() {
            self.place.remove();
        }
    }
}

impl fmt::Debug for DurableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableFile")
            .field("path", &self.path)
            .field("groups", &self.log.last())
            .finish_non_exhaustive()
    }
}

/// Brings what a log has from before into the database, and makes a log where there is none.
fn take_over(
    path: &Path,
    database: &Database,
    tables: &[&'static str],
    place: &Place,
    disk: &dyn Fn(File) -> Box<dyn Disk>,
) -> Result<Log, OpenError> {
    let State { groups, log: known } = database::state(database).map_err(OpenError::damaged(path))?;
    let bytes = place.read().map_err(OpenError::io("read", place.path()))?;
    let found = bytes.as_deref().and_then(|bytes| Some((bytes, log::key_of(bytes)?)));
    let refused = |why: &dyn fmt::Display| OpenError::DamagedLog { path: place.path().into(), reason: why.to_string() };
    let scan = match (known, found) {
        // Its own.
        (Some((key, _)), Some((bytes, found))) if key == found => Some(Scan::of(bytes, key, groups)),
        // One that has nothing: it was being made when the process ended.
        (Some((_, false)) | None, Some((bytes, key))) if !log::has_records(bytes, key) => None,
        (_, Some(_)) => return Err(OpenError::ForeignLog { path: path.into(), log: place.path().into() }),
        (Some((_, true)), None) if bytes.is_some() => return Err(refused(&"its first bytes are damaged")),
        (Some((_, true)), None) => return Err(refused(&"it is not there")),
        (Some((_, false)) | None, None) => None,
    };
    let scan = scan.transpose().map_err(|damage| refused(&damage))?;
    let made = place.open().map(disk).and_then(|disk| match (&scan, known) {
        (Some(scan), Some((key, _))) => Ok(Log::at_beginning(disk, key, scan.last())),
        _ => Log::create(disk, groups),
    });
    let log = made.map_err(OpenError::io("make", place.path()))?;
    // Its name must be as durable as what is said about it.
    sync_directory_of(path).map_err(OpenError::io("sync the directory of", path))?;
    let state = State { groups: log.last(), log: Some((log.key(), true)) };
    let changes = scan.iter().flat_map(Scan::changes);
    database::write(database, tables, changes, state).map_err(OpenError::written(path))?;
    Ok(log)
}

fn failed(error: &dyn fmt::Display) -> WriteError {
    WriteError::Storage(error.to_string().into())
}

#[cfg(test)]
mod tests;

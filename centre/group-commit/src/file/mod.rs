//! The file: written by whoever has it, one durable group of changes at a time.

use std::fmt;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};

use crate::lock::Lock;
use crate::{Change, Moment, OpenError, WriteError};

/// Who reads a file's entries when it is opened: table, key, value; an error refuses the file.
pub(crate) type Reader<'a> = &'a mut dyn FnMut(&'static str, &[u8], &[u8]) -> Result<(), String>;

/// Makes redb's database of an open file; tests put failures between.
type OpenDatabase = Box<dyn Fn(File) -> Result<Database, DatabaseError> + Send>;

/// redb's cache. Entries are read once, when the file is opened; what is left is the inner pages of trees.
const CACHE: usize = 4 << 20;
/// Counts the groups that were written, to tell after a failure whether the last one stands in the file.
const GROUPS: TableDefinition<'static, (), u64> = TableDefinition::new("latchkey-group-commit");

/// A durable file of keys and values, open for one process.
pub struct DurableFile {
    path: PathBuf,
    tables: &'static [&'static str],
    open_database: OpenDatabase,
    /// None after a failure, until the file was opened anew.
    database: Option<Arc<Database>>,
    /// How many groups were acknowledged in the life of the file.
    groups: u64,
    /// After a failure: what undoes the group that failed, should it stand in the file nevertheless.
    undo: Vec<Change>,
    _lock: Lock,
}

impl DurableFile {
    /// Opens the file, or makes it (mode 0600, within a directory that is there), and hands all its entries over.
    ///
    /// Every table that the caller will ever write is named in `tables`; others in the file are left alone. `PATH.lock` is
    /// made beside it.
    pub fn open(
        path: impl AsRef<Path>,
        tables: &'static [&'static str],
        each: impl FnMut(&'static str, &[u8], &[u8]) -> Result<(), String>,
    ) -> Result<Self, OpenError> {
        let open = |file| Database::builder().set_cache_size(CACHE).create_with_backend(FileBackend::new(file)?);
        Self::open_with(path.as_ref(), tables, Box::new(open), each)
    }

    pub(crate) fn open_with(
        path: &Path,
        tables: &'static [&'static str],
        open_database: OpenDatabase,
        mut each: impl FnMut(&'static str, &[u8], &[u8]) -> Result<(), String>,
    ) -> Result<Self, OpenError> {
        let lock = Lock::take(path)?;
        let path = path.to_path_buf();
        let mut file = Self { path, tables, open_database, database: None, groups: 0, undo: Vec::new(), _lock: lock };
        let database = Arc::new(file.database_of_path()?);
        file.groups = file.prepare(&database).map_err(|error| file.damaged(&error))?;
        file.read(&database, &mut each)?;
        file.database = Some(database);
        Ok(file)
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
        let database = self.working()?;
        let mut undo = Vec::new();
        match write(&database, changes, self.groups + 1, &mut undo) {
            Ok(()) => {
                self.groups += 1;
                Ok(())
            }
            Err(error) => {
                self.database = None;
                undo.reverse(); // of several changes of one key, the first one knows what stood there
                self.undo = undo;
                Err(failed(&error))
            }
        }
    }

    /// What was acknowledged up to now, to be copied.
    pub fn moment(&mut self) -> Result<Moment, WriteError> {
        let seen = self.working()?.begin_read().map_err(|error| failed(&error.into()))?;
        Ok(Moment::of(seen, self.tables))
    }

    /// The database as it was last acknowledged, opened anew after a failure.
    fn working(&mut self) -> Result<Arc<Database>, WriteError> {
        if let Some(database) = &self.database {
            return Ok(Arc::clone(database));
        }
        let database =
            Arc::new(self.database_of_path().map_err(|error| WriteError::Storage(error.to_string().into()))?);
        self.take_back(&database).map_err(|error| failed(&error))?;
        Ok(Arc::clone(self.database.insert(database)))
    }

    /// Takes back the group that failed, if it stands in the file: a disk may keep what it gave an error for.
    fn take_back(&mut self, database: &Database) -> Result<(), redb::Error> {
        let found = counted(database)?;
        if found > self.groups {
            write(database, &self.undo, found + 1, &mut Vec::new())?;
            self.groups = found + 1;
        }
        self.undo.clear();
        Ok(())
    }

    fn database_of_path(&self) -> Result<Database, OpenError> {
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&self.path);
        let file = options.map_err(OpenError::io("open", &self.path))?;
        // One that was made by others, such as a restored one, may be too open.
        file.set_permissions(Permissions::from_mode(0o600)).map_err(OpenError::io("protect", &self.path))?;
        (self.open_database)(file).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(self.path.clone()),
            DatabaseError::Storage(redb::StorageError::Io(source)) if source.kind() != io::ErrorKind::InvalidData => {
                OpenError::io("open", &self.path)(source)
            }
            other => self.damaged(&other.into()),
        })
    }

    /// Makes tables that are not there yet, and counts.
    fn prepare(&self, database: &Database) -> Result<u64, redb::Error> {
        let transaction = database.begin_write()?;
        for table in self.tables {
            transaction.open_table(definition(table))?;
        }
        transaction.open_table(GROUPS)?;
        transaction.commit()?;
        counted(database)
    }

    fn read(&self, database: &Database, each: Reader<'_>) -> Result<(), OpenError> {
        let damaged = |error: redb::Error| self.damaged(&error);
        let transaction = database.begin_read().map_err(|error| damaged(error.into()))?;
        for &name in self.tables {
            let table = transaction.open_table(definition(name)).map_err(|error| damaged(error.into()))?;
            for entry in table.iter().map_err(|error| damaged(error.into()))? {
                let (key, value) = entry.map_err(|error| damaged(error.into()))?;
                each(name, key.value(), value.value()).map_err(|reason| OpenError::Entry {
                    path: self.path.clone(),
                    table: name,
                    reason,
                })?;
            }
        }
        Ok(())
    }

    fn damaged(&self, error: &redb::Error) -> OpenError {
        OpenError::Damaged { path: self.path.clone(), reason: error.to_string() }
    }
}

impl fmt::Debug for DurableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableFile").field("path", &self.path).field("groups", &self.groups).finish_non_exhaustive()
    }
}

pub(crate) const fn definition(name: &'static str) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

/// One durable transaction. `undo` becomes what stood at each key before, in the order of the changes.
fn write(database: &Database, changes: &[Change], group: u64, undo: &mut Vec<Change>) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    // A table is opened once for all its changes that stand together.
    for run in changes.chunk_by(|one, next| one.table == next.table) {
        let mut table = transaction.open_table(definition(run[0].table))?;
        for Change { table: name, key, value } in run {
            let before = match value {
                Some(value) => table.insert(key.as_slice(), value.as_slice())?,
                None => table.remove(key.as_slice())?,
            };
            undo.push(Change { table: name, key: key.clone(), value: before.map(|before| before.value().to_vec()) });
        }
    }
    transaction.open_table(GROUPS)?.insert((), group)?;
    transaction.commit()?;
    Ok(())
}

fn counted(database: &Database) -> Result<u64, redb::Error> {
    Ok(database.begin_read()?.open_table(GROUPS)?.get(())?.map_or(0, |count| count.value()))
}

fn failed(error: &redb::Error) -> WriteError {
    WriteError::Storage(error.to_string().into())
}

#[cfg(test)]
mod tests;

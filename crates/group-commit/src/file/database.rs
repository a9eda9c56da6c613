//! The database: redb's file, which gets the log's groups from time to time.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use latchkey_durable_file::place;
use redb::backends::FileBackend;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use rustix::fs::{Advice, fadvise};

use super::Reader;
use crate::OpenError;
use crate::lock::beside;
use crate::log::{Key, Logged};

/// redb's cache. Entries are read once, when the file is opened; what is left is the inner pages of trees.
const CACHE: usize = 2 << 20;
/// How many groups it has, in the life of the file.
const GROUPS: TableDefinition<'static, (), u64> = TableDefinition::new("latchkey-group-commit");
/// The key of the log beside it, and whether that may have groups that this lacks. Copies have none.
const LOG: TableDefinition<'static, (), (u128, bool)> = TableDefinition::new("latchkey-group-commit-log");

/// Makes redb's database of an open file; tests put failures between.
pub(super) type Make = Box<dyn Fn(File) -> Result<Database, DatabaseError> + Send>;

pub(super) fn make(file: File) -> Result<Database, DatabaseError> {
    Database::builder().set_cache_size(CACHE).create_with_backend(FileBackend::new(file)?)
}

/// What a database knows of itself.
#[derive(Clone, Copy)]
pub(super) struct State {
    pub(super) groups: u64,
    /// The log's key, and whether the log may have more.
    pub(super) log: Option<(Key, bool)>,
}

/// Opens it, or makes an empty one (mode 0600).
pub(super) fn open(path: &Path, make: &Make) -> Result<Database, OpenError> {
    if !path.try_exists().map_err(OpenError::io("look for", path))? {
        make_new(path, make)?;
    }
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(OpenError::io("open", path))?;
    // One that was made by others, such as a restored one, may be too open.
    file.set_permissions(Permissions::from_mode(0o600)).map_err(OpenError::io("protect", path))?;
    // After a failed fsync the page cache may have what the disk has not, as if it were written. What the disk has is read.
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| OpenError::io("read", path)(error.into()))?;
    make(file).map_err(refused(path))
}

/// Makes an empty one. It gets its name when it is complete: until then redb would refuse it, and a process may be killed, or the disk
/// be full, at any moment.
fn make_new(path: &Path, make: &Make) -> Result<(), OpenError> {
    let unfinished = beside(path, ".unfinished");
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&unfinished);
    let file = options.map_err(OpenError::io("make", &unfinished))?;
    drop(make(file).map_err(refused(path))?);
    place(&unfinished, path).map_err(OpenError::io("make", path))
}

fn refused(path: &Path) -> impl Fn(DatabaseError) -> OpenError {
    move |error| match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(path.into()),
        DatabaseError::Storage(redb::StorageError::Io(source)) if source.kind() != io::ErrorKind::InvalidData => {
            OpenError::io("open", path)(source)
        }
        other => OpenError::damaged(path)(other),
    }
}

/// Reads what a database knows of itself: of an empty one, nothing.
pub(super) fn state(database: &Database) -> Result<State, redb::Error> {
    let read = database.begin_read()?;
    let groups = match read.open_table(GROUPS) {
        Ok(table) => table.get(())?.map_or(0, |groups| groups.value()),
        Err(TableError::TableDoesNotExist(_)) => 0,
        Err(error) => return Err(error.into()),
    };
    let log = match read.open_table(LOG) {
        Ok(table) => table.get(())?.map(|log| log.value()),
        Err(TableError::TableDoesNotExist(_)) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(State { groups, log: log.map(|(key, open)| (Key(key), open)) })
}

/// One durable transaction: the changes in their order, and what the database knows of itself from now on.
pub(super) fn write<'a>(
    database: &Database,
    tables: &[&'static str],
    changes: impl Iterator<Item = Logged<'a>>,
    state: State,
) -> Result<(), redb::Error> {
    // Of several changes of one key the last one is left, and they are written in the order of the file.
    let last: BTreeMap<_, _> = changes.map(|Logged { table, key, value }| ((table, key), value)).collect();
    let last: Vec<_> = last.into_iter().collect();
    let transaction = database.begin_write()?;
    for table in tables {
        transaction.open_table(definition(table))?;
    }
    for run in last.chunk_by(|((one, _), _), ((next, _), _)| one == next) {
        let Some(((name, _), _)) = run.first() else { continue };
        let mut table = transaction.open_table(definition(name))?;
        for ((_, key), value) in run {
            match value {
                Some(value) => drop(table.insert(key, value)?),
                None => drop(table.remove(key)?),
            }
        }
    }
    transaction.open_table(GROUPS)?.insert((), state.groups)?;
    {
        let mut log = transaction.open_table(LOG)?;
        match state.log {
            Some((key, open)) => drop(log.insert((), (key.0, open))?),
            None => drop(log.remove(())?),
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Hands all entries over.
pub(super) fn read(
    database: &Database,
    path: &Path,
    tables: &'static [&'static str],
    each: Reader<'_>,
) -> Result<(), OpenError> {
    let damaged = |error: redb::Error| OpenError::damaged(path)(error);
    let transaction = database.begin_read().map_err(|error| damaged(error.into()))?;
    for &name in tables {
        let table = transaction.open_table(definition(name)).map_err(|error| damaged(error.into()))?;
        for entry in table.iter().map_err(|error| damaged(error.into()))? {
            let (key, value) = entry.map_err(|error| damaged(error.into()))?;
            let refused = |reason| OpenError::Entry { path: path.into(), table: name, reason };
            each(name, key.value(), value.value()).map_err(refused)?;
        }
    }
    Ok(())
}

pub(crate) const fn definition(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

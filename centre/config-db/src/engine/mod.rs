//! What keeps the database: rows, durably, one group of writes at a time.

mod embedded;
mod postgres;

use std::path::Path;

use latchkey_group_commit::Change;

pub use embedded::Embedded;
pub use postgres::Postgres;

/// A row that another process wrote: table, key, value; none where it was removed.
pub type ForeignRow = (String, Vec<u8>, Option<Vec<u8>>);
/// Takes rows when a database is loaded: table, key, value. An error names what is wrong with a row, and ends the loading.
pub type EachRow<'a> = &'a mut dyn FnMut(&str, &[u8], &[u8]) -> Result<(), String>;
/// Writes a copy of one moment to a path.
pub type Copying = Box<dyn FnOnce(&Path) -> Result<(), EngineError> + Send>;

/// Why an engine could not do something: a text for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// Keeps rows. All calls come from one thread, and may block.
///
/// A group of writes is [`Engine::begin`], then [`Engine::commit`] with all its rows, or with none. From the one to the other
/// no other process writes.
pub trait Engine: Send + 'static {
    /// Reads all rows, once, before anything else.
    fn load(&mut self, each: EachRow<'_>) -> Result<(), EngineError>;

    /// Begins a group: gives what other processes wrote since the last call, in their order.
    fn begin(&mut self) -> Result<Vec<ForeignRow>, EngineError>;

    /// Keeps rows, all or none, durably, and ends the group. After an error none of them is there, or the next
    /// [`Engine::begin`] gives them as foreign ones.
    fn commit(&mut self, rows: &[Change]) -> Result<(), EngineError>;

    /// Takes a moment that can be copied while writes go on.
    fn moment(&mut self) -> Result<Copying, EngineError>;

    /// The file that holds everything, if it is one.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Is told how to say that another process wrote something.
    fn on_foreign(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        drop(wake);
    }
}

impl Engine for Box<dyn Engine> {
    fn load(&mut self, each: EachRow<'_>) -> Result<(), EngineError> {
        (**self).load(each)
    }

    fn begin(&mut self) -> Result<Vec<ForeignRow>, EngineError> {
        (**self).begin()
    }

    fn commit(&mut self, rows: &[Change]) -> Result<(), EngineError> {
        (**self).commit(rows)
    }

    fn moment(&mut self) -> Result<Copying, EngineError> {
        (**self).moment()
    }

    fn file(&self) -> Option<&Path> {
        (**self).file()
    }

    fn on_foreign(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        (**self).on_foreign(wake);
    }
}

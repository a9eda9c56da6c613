//! What is written.

use crate::WriteError;

/// The most bytes of a key.
pub const LONGEST_KEY: usize = 1 << 10;
/// The most bytes of a value.
pub const LONGEST_VALUE: usize = 16 << 20;

/// What shall stand at a key from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// One of the tables that the file was opened with.
    pub table: &'static str,
    /// At most [`LONGEST_KEY`] bytes.
    pub key: Vec<u8>,
    /// At most [`LONGEST_VALUE`] bytes; none takes the key away.
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// A key's new value.
    pub fn put(table: &'static str, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { table, key: key.into(), value: Some(value.into()) }
    }

    /// The end of a key.
    pub fn remove(table: &'static str, key: impl Into<Vec<u8>>) -> Self {
        Self { table, key: key.into(), value: None }
    }

    /// Refuses what could never be written, so that it spoils no other write of its group.
    pub(crate) fn check(&self, tables: &[&'static str]) -> Result<(), WriteError> {
        if !tables.contains(&self.table) {
            return Err(WriteError::UnknownTable(self.table));
        }
        if self.key.len() > LONGEST_KEY {
            return Err(WriteError::KeyTooLong(self.key.len()));
        }
        match &self.value {
            Some(value) if value.len() > LONGEST_VALUE => Err(WriteError::ValueTooLong(value.len())),
            _ => Ok(()),
        }
    }
}

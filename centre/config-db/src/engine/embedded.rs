//! The database in one file, of one process.

use std::path::{Path, PathBuf};

use latchkey_group_commit::{Change, DurableFile};

use super::{Copying, EachRow, Engine, EngineError, ForeignRow};
use crate::model::TABLES;

/// Keeps the database in a file.
#[derive(Debug)]
pub struct Embedded {
    path: PathBuf,
    file: Option<DurableFile>,
}

impl Embedded {
    /// A database in this file; it is made when there is none. Its directory must be there.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), file: None }
    }

    fn open(&mut self) -> Result<&mut DurableFile, EngineError> {
        self.file.as_mut().ok_or_else(|| EngineError("the database was not loaded".into()))
    }
}

impl Engine for Embedded {
    fn load(&mut self, each: EachRow<'_>) -> Result<(), EngineError> {
        let file = DurableFile::open(&self.path, TABLES, |table, key, value| each(table, key, value));
        self.file = Some(file.map_err(|error| EngineError(error.to_string()))?);
        Ok(())
    }

    fn begin(&mut self) -> Result<Vec<ForeignRow>, EngineError> {
        Ok(Vec::new())
    }

    fn commit(&mut self, rows: &[Change]) -> Result<(), EngineError> {
        self.open()?.commit(rows).map_err(|error| EngineError(error.to_string()))
    }

    fn moment(&mut self) -> Result<Copying, EngineError> {
        let moment = self.open()?.moment().map_err(|error| EngineError(error.to_string()))?;
        Ok(Box::new(move |path| moment.write_to(path).map_err(|error| EngineError(error.to_string()))))
    }
    fn file(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

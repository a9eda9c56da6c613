//! What can go wrong around tests, as opposed to in them.

use std::io;
use std::path::{Path, PathBuf};

/// Why no tests ran, or not all of them.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// Cargo has said on standard error why.
    #[error("cargo built no tests: {0}")]
    Build(std::process::ExitStatus),
    /// Cargo said something else than what is read here.
    #[error("cargo's answer cannot be read: {0}")]
    Cargo(String),
    /// Programs that tests use.
    #[error(transparent)]
    Programs(#[from] latchkey_test_programs::BuildError),
    /// A test executable does not say which tests it has.
    #[error("{path}: says no list of its tests: {said}")]
    List {
        /// The executable.
        path: PathBuf,
        /// What it said instead.
        said: String,
    },
    /// A file or a program.
    #[error("{path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line of the table of times.
    #[error("{path}:{line}: not a name and two numbers of seconds")]
    Table {
        /// The table.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
}

/// For `map_err`.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> RunnerError {
    let path = path.to_path_buf();
    move |source| RunnerError::File { path, source }
}

//! Why a program is not there.

use std::io;
use std::path::Path;

/// Why a program is not there. Tests unwrap it, and people read it.
#[derive(thiserror::Error)]
pub enum BuildError {
    /// A file, or a program that could not be started.
    #[error("{what}: {source}")]
    Io {
        /// What was done to which file.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// Cargo, or a script that calls it.
    #[error("{command} failed:\n{output}")]
    Failed {
        /// The command line.
        command: String,
        /// What it said.
        output: String,
    },
    /// Cargo succeeded, and the program is not among what it built.
    #[error("cargo built no {0}")]
    NotBuilt(String),
}

impl std::fmt::Debug for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// For `map_err`.
pub(crate) fn failed_to(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let what = format!("{action} {}", path.display());
    move |source| BuildError::Io { what, source }
}

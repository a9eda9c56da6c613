//! Where a program is.

use std::env;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::StockError;

/// A program that somebody else makes, and that is run as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Kubectl,
    Helm,
    /// The operator's own, which restarts machines.
    Restart,
}

impl Program {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl",
            Self::Helm => "helm",
            Self::Restart => "the program of --restart",
        }
    }

    /// Its file: the one that was named, or else the first in PATH.
    pub(super) fn find(self, named: Option<&Path>) -> Result<PathBuf, StockError> {
        if let Some(named) = named {
            // Absolute: a name without a slash would be looked for in PATH.
            let path = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
            return if usable(&path) { Ok(path) } else { Err(StockError::NotExecutable { path }) };
        }
        in_path(self.name(), &[]).ok_or(StockError::Missing { program: self })
    }
}

/// The first program of this name in PATH, or else in `further`.
pub(crate) fn in_path(name: &str, further: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Never the directory that one happens to be in.
    let places = env::split_paths(&path).filter(|place| place.is_absolute());
    let places = places.chain(further.iter().map(PathBuf::from));
    places.map(|place| place.join(name)).find(|file| usable(file))
}

fn usable(path: &Path) -> bool {
    let metadata = fs::metadata(path).ok();
    metadata.is_some_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

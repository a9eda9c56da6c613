//! Files of a directory of collateral, each written as a whole.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use latchkey_durable_file::{Directory, Existing};

use super::error::FetchError;
use crate::{MAX_FILE, read_file};

const MODE: u32 = 0o644;

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is new, or another than before.
    Written,
    /// It lay there already.
    Unchanged,
    /// It was not written: the directory has a newer list.
    NewerThere,
}

/// Writes a file, readable by all, unless the same lies there: readers see the old one or the new one, after a power cut too.
pub(super) fn put(directory: &Path, name: &str, content: &[u8]) -> Result<State, FetchError> {
    let path = directory.join(name);
    if read_file(&path, MAX_FILE).is_ok_and(|(_, there)| there == content) {
        return Ok(State::Unchanged);
    }
    let write = || -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let directory = Directory::open(directory)?;
        // What is begun has a dot before its name: such is no file of the collateral.
        let turn = directory.turn(name, MODE)?;
        // Whatever the umask takes away.
        turn.file().set_permissions(Permissions::from_mode(MODE))?;
        turn.put(content, Existing::Replace)
    };
    write().map_err(|source| FetchError::Io { path: path.clone(), source })?;
    Ok(State::Written)
}

//! Files of a directory of collateral, each written as a whole.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::error::FetchError;
use crate::{MAX_FILE, read_file};

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
    // What begins with a dot is no file of the collateral.
    let new = directory.join(format!(".{name}.new"));
    let write = || -> io::Result<()> {
        fs::create_dir_all(directory)?;
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Left by a crash: nothing that was finished has this name.
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(content)?;
        // Whatever the umask takes away.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|source| {
        // Of no use; that it stays would change nothing.
        drop(fs::remove_file(&new));
        FetchError::Io { path: path.clone(), source }
    })?;
    Ok(State::Written)
}

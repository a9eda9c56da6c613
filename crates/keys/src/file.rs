//! Files with secrets: read only when nobody else could have read or written them.

use crate::error::SecretFileError;
use crate::{KeyError, MasterSecret, SecretVec, acl};
use latchkey_durable_file::{Directory, Existing, Links, ReadError, read_plain};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zeroize::Zeroizing;

/// More than 64 versions in the widest layout an editor makes.
pub(crate) const MAX_FILE_SIZE: usize = 16 * 1024;
/// For the owner alone.
const PRIVATE: u32 = 0o600;

impl MasterSecret {
    /// Reads the file at `path`. It must be a regular file (not a symbolic link to one), owned by the effective user or
    /// root, without any access for group and others; an access list may let in the effective user, as systemd's
    /// credentials do. All this is checked on the opened descriptor, so the file cannot
    /// be exchanged between check and use.
    ///
    /// # Errors
    /// [`KeyError::File`] with the path, what is wrong and how to mend it; never with the file's content.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        read(path, MAX_FILE_SIZE).and_then(|json| Self::parse(&json)).map_err(|fault| fault.at(path))
    }

    /// Reads the text of such a file that came another way, such as standard input: who could read it on its way is for the
    /// caller to know.
    ///
    /// # Errors
    /// [`KeyError::File`] with what is wrong, and `from` as its path.
    pub fn from_text(text: &SecretVec, from: &Path) -> Result<Self, KeyError> {
        Self::parse(text.expose()).map_err(|fault| fault.at(from))
    }

    /// Writes a new file, mode 0600, durable when this returns. An existing file is left alone.
    ///
    /// # Errors
    /// [`KeyError::File`]; no file is left behind then.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        write_private_file(path, self.to_json().as_bytes())
    }

    /// Gives the set in the file at `path` one version more, which is current from then on. Two rotations at once make two versions,
    /// and readers see the old file or a new one, also after a power cut.
    ///
    /// # Errors
    /// [`KeyError`]; the old file is unchanged then, unless only the last step, making the new one durable, failed.
    pub fn rotate(path: &Path) -> Result<Self, KeyError> {
        let at = |action| move |error: io::Error| SecretFileError::io(action, &error).at(path);
        let (directory, name) = Directory::of(path).map_err(at("open the directory of"))?;
        // Before it is read: another's version would be lost, and the disks that were made with it.
        let turn = directory.turn(name, PRIVATE).map_err(at("begin a new file beside"))?;
        let before = read_in(&directory, name, MAX_FILE_SIZE).and_then(|json| Self::parse(&json));
        let rotated = before.map_err(|fault| fault.at(path))?.rotated()?;
        turn.put(rotated.to_json().as_bytes(), Existing::Replace).map_err(at("replace"))?;
        Ok(rotated)
    }
}

/// Reads any other file that holds a secret, such as a TLS key, under the conditions of [`MasterSecret::load`]. `limit` is
/// the largest size accepted, in bytes.
///
/// # Errors
/// [`KeyError::File`] with the path, what is wrong and how to mend it.
pub fn read_private_file(path: &Path, limit: usize) -> Result<SecretVec, KeyError> {
    read(path, limit).map(SecretVec::from).map_err(|fault| fault.at(path))
}

/// Writes a new file of mode 0600 with a secret, durable when this returns. An existing file is left alone.
///
/// # Errors
/// [`KeyError::File`] with the path, what is wrong and how to mend it; no file is left behind then.
pub fn write_private_file(path: &Path, content: &[u8]) -> Result<(), KeyError> {
    latchkey_durable_file::put(path, PRIVATE, content, Existing::Keep).map_err(|error| {
        let fault = match error.kind() {
            ErrorKind::AlreadyExists => SecretFileError::Exists,
            _ => SecretFileError::io("write", &error),
        };
        fault.at(path)
    })
}

fn read(path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, SecretFileError> {
    let (directory, name) = Directory::of(path).map_err(|error| SecretFileError::io("open", &error))?;
    read_in(&directory, name, limit)
}

fn read_in(directory: &Directory, name: &OsStr, limit: usize) -> Result<Zeroizing<Vec<u8>>, SecretFileError> {
    let file = directory.open_file(name, Links::Refused).map_err(|error| match error.raw_os_error() {
        Some(errno) if errno == rustix::io::Errno::LOOP.raw_os_error() => SecretFileError::Symlink,
        _ => SecretFileError::io("open", &error),
    })?;
    check(&file)?;
    read_plain(&file, limit).map_err(|error| match error {
        ReadError::NotRegular => SecretFileError::NotRegular,
        ReadError::TooLong(_) => SecretFileError::TooLarge,
        ReadError::Io(error) => SecretFileError::io("read", &error),
    })
}

fn check(file: &File) -> Result<(), SecretFileError> {
    let metadata = file.metadata().map_err(|error| SecretFileError::io("stat", &error))?;
    if !metadata.is_file() {
        return Err(SecretFileError::NotRegular);
    }
    let (uid, user) = (metadata.uid(), geteuid().as_raw());
    if uid != 0 && uid != user {
        return Err(SecretFileError::Owner { uid });
    }
    let mode = metadata.mode() & 0o7777;
    let others = mode & 0o007 != 0;
    let group = mode & 0o070 != 0 && !acl::admits_only(file, user);
    if others || group { Err(SecretFileError::Permissions { mode }) } else { Ok(()) }
}

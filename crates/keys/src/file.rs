//! Files with secrets: read only when nobody else could have read or written them.

use crate::error::SecretFileError;
use crate::{KeyError, MasterSecret, SecretVec, acl};
use rustix::fs::OFlags;
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// More than 64 versions in the widest layout an editor makes.
pub(crate) const MAX_FILE_SIZE: usize = 16 * 1024;

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
        write_new(path, self.to_json().as_bytes()).map_err(|fault| fault.at(path))
    }

    /// Replaces the file at `path` by this set, atomically: readers see the old file or the new one, also after a
    /// power cut. For rotation: `load`, [`rotated`](Self::rotated), `replace`.
    ///
    /// # Errors
    /// [`KeyError::File`]; the old file is unchanged then, unless only the last step, making the new name durable, failed.
    pub fn replace(&self, path: &Path) -> Result<(), KeyError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = Path::new(&name);
        write_new(new, self.to_json().as_bytes()).map_err(|fault| fault.at(new))?;
        fs::rename(new, path)
            .map_err(|error| {
                drop(fs::remove_file(new));
                SecretFileError::io("rename", &error)
            })
            .and_then(|()| sync_directory_of(path))
            .map_err(|fault| fault.at(path))
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

fn read(path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, SecretFileError> {
    // NONBLOCK: opening a pipe must not wait for a writer, it shall be refused.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file =
        OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|error| match error.raw_os_error() {
            Some(errno) if errno == rustix::io::Errno::LOOP.raw_os_error() => SecretFileError::Symlink,
            _ => SecretFileError::io("open", &error),
        })?;
    check(&file)?;
    read_bounded(file, limit)
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

/// Reads into one allocation of final size: a vector that grows would leave copies behind.
fn read_bounded(mut file: File, limit: usize) -> Result<Zeroizing<Vec<u8>>, SecretFileError> {
    let mut buffer = Zeroizing::new(vec![0; limit.saturating_add(1)]);
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => {
                buffer.truncate(filled);
                return Ok(buffer);
            }
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SecretFileError::io("read", &error)),
        }
    }
    Err(SecretFileError::TooLarge)
}

fn write_new(path: &Path, text: &[u8]) -> Result<(), SecretFileError> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            SecretFileError::Exists
        } else {
            SecretFileError::io("create", &error)
        }
    })?;
    file.write_all(text)
        .and_then(|()| file.sync_all())
        .map_err(|error| SecretFileError::io("write", &error))
        .and_then(|()| sync_directory_of(path))
        .inspect_err(|_| drop(fs::remove_file(path)))
}

fn sync_directory_of(path: &Path) -> Result<(), SecretFileError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| SecretFileError::io("sync the directory", &error))
}

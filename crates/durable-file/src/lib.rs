//! Files that are replaced as a whole: readers see the old one or the new one, after a power cut too.
//!
//! Everything is reached from a directory's descriptor by a name, and a name that is a link is not followed. Who writes takes a
//! [`Turn`] first: the new file is made beside the old one, as `.NAME.new`, and is the lock at the same time. So who reads the old file
//! with the turn reads what no other writer changes, and what a crash left is known by nobody having it.

mod read;
mod turn;

#[cfg(test)]
mod crash_tests;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

pub use read::{Links, ReadError, read_bounded, read_plain};
pub use turn::{Existing, PATIENCE, Turn, lock_within};

/// A step of a write was taken: where tests end one as a crash would.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
const fn step(_: &'static str) -> io::Result<()> {
    Ok(())
}
#[cfg(test)]
use crash_tests::step;

/// A directory that is open: whatever becomes of its path, its files stay the same.
#[derive(Debug)]
pub struct Directory(OwnedFd);

impl Directory {
    /// The directory at `path`, which may be a link to one.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        // With PATH it need not be readable.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, path, flags, Mode::empty())?))
    }

    /// The directory of the file at `path`, and the file's name in it.
    ///
    /// # Errors
    /// It cannot be opened, or the path ends in no name.
    pub fn of(path: &Path) -> io::Result<(Self, &OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Ok((Self::open(parent.unwrap_or(Path::new(".")))?, name))
    }

    /// A directory in this one, and no link to one.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn inner(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, plain(name.as_ref())?, flags, Mode::empty())?))
    }

    /// Makes a directory in this one, of what the umask leaves of `mode`. One that is there stays as it is.
    ///
    /// # Errors
    /// It cannot be made, or something else has its name.
    pub fn make(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Self> {
        match mkdirat(&self.0, plain(name.as_ref())?, Mode::from_raw_mode(mode)) {
            Err(error) if error != Errno::EXIST => Err(error.into()),
            _ => self.inner(name),
        }
    }

    /// The same as [`Turn::put`], for who need not read before.
    ///
    /// # Errors
    /// As there, and those of [`Self::turn`].
    pub fn put(&self, name: impl AsRef<OsStr>, mode: u32, bytes: &[u8], existing: Existing) -> io::Result<()> {
        self.turn(name, mode)?.put(bytes, existing)
    }

    /// Removes a file, durably, also where an earlier call was cut. Whether there was one.
    ///
    /// # Errors
    /// It cannot be removed, or that cannot be made durable.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        match unlinkat(&self.0, plain(name.as_ref())?, AtFlags::empty()) {
            Ok(()) => step("remove").and_then(|()| self.sync()).map(|()| true),
            // Whoever removed it may have been cut before that was durable.
            Err(Errno::NOENT) => self.sync().map(|()| false),
            Err(error) => Err(error.into()),
        }
    }

    /// The names in it.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        use std::os::unix::ffi::OsStrExt as _;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = rustix::fs::Dir::new(openat(&self.0, ".", flags, Mode::empty())?)?;
        let mut names = Vec::new();
        for entry in listed {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Makes the names in it as durable as the files are.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        fsync(openat(&self.0, ".", flags, Mode::empty())?)?;
        step("sync the directory")
    }
}

/// Writes the file at `path`; see [`Turn::put`].
///
/// # Errors
/// As there, and those of [`Directory::of`] and [`Directory::turn`].
pub fn put(path: &Path, mode: u32, bytes: &[u8], existing: Existing) -> io::Result<()> {
    let (directory, name) = Directory::of(path)?;
    directory.put(name, mode, bytes, existing)
}

/// Gives a finished file, which others made, its name: in any directory of the same file system, in the place of what has that name
/// already. What is in it is durable before the name is, and both are when this returns.
///
/// # Errors
/// There is no such file, it is a link, or it cannot be moved.
pub fn place(from: &Path, to: &Path) -> io::Result<()> {
    let ((old, from), (new, to)) = (Directory::of(from)?, Directory::of(to)?);
    old.open_file(from, Links::Refused)?.sync_all()?;
    step("sync")?;
    renameat(&old.0, from, &new.0, plain(to)?)?;
    step("place")?;
    new.sync()
}

/// Removes the file at `path`, durably. Whether there was one.
///
/// # Errors
/// It cannot be removed, or there is no such directory.
pub fn remove(path: &Path) -> io::Result<bool> {
    let (directory, name) = Directory::of(path)?;
    directory.remove(name)
}

/// Makes the name of the file at `path` as durable as the file is.
///
/// # Errors
/// The disk's.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    Directory::of(path)?.0.sync()
}

/// A name in a directory, never a path that leads elsewhere.
fn plain(name: &OsStr) -> io::Result<&OsStr> {
    let alone = Path::new(name).file_name() == Some(name);
    if alone { Ok(name) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Whether a name is of a file that is being written, or was when a crash came: it counts for nobody who lists a directory.
pub fn is_unfinished(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(turn::ENDING.as_bytes())
}

/// Opens without waiting: a pipe has no writer, a terminal takes over nobody.
fn open_without_waiting(directory: &OwnedFd, name: &OsStr, links: Links) -> io::Result<File> {
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, links == Links::Refused);
    Ok(File::from(openat(directory, plain(name)?, flags, Mode::empty())?))
}

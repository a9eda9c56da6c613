//! Writing: one at a time for each file.

use crate::{Directory, Links, open_without_waiting, plain, step};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, fstat, linkat, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

pub(crate) const ENDING: &str = ".new";
/// How long another writer of the same file is waited for: it may be the user whose directory it is, who need not come to his end.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How often a lock is tried.
const TRY_AGAIN: Duration = Duration::from_millis(2);

/// What to do about a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The new file takes its place.
    Replace,
    /// It stays, and the new one is given up.
    Keep,
}

/// The right to write one file. Others wait while it is there; a crash ends it. Whoever takes it twice in one thread gets it once.
#[derive(Debug)]
pub struct Turn<'a> {
    directory: &'a Directory,
    name: OsString,
    beside: OsString,
    file: File,
    /// The same, locked and not to be written; `None` once it is `file`.
    lock: Option<File>,
    placed: bool,
}

impl Directory {
    /// Waits until nobody else writes this file, for [`PATIENCE`] at most, and begins a new one with what the umask leaves of `mode`.
    ///
    /// # Errors
    /// It cannot be made; `TimedOut` if somebody else has it for as long.
    pub fn turn(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Turn<'_>> {
        self.turn_within(name, mode, PATIENCE)
    }

    /// The same, for who waits longer or less.
    ///
    /// # Errors
    /// As [`Self::turn`].
    pub fn turn_within(&self, name: impl AsRef<OsStr>, mode: u32, patience: Duration) -> io::Result<Turn<'_>> {
        let until = Instant::now() + patience;
        let name = plain(name.as_ref())?.to_owned();
        let beside = [OsStr::new("."), &name, OsStr::new(ENDING)].join(OsStr::new(""));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for tries in 0_u64.. {
            // Others may come first each time.
            if tries > 0 && Instant::now() >= until {
                break;
            }
            let file = match openat(&self.0, &beside, flags, Mode::from_raw_mode(mode)) {
                Ok(file) => File::from(file),
                Err(Errno::EXIST) => {
                    self.wait_for(&beside, until)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            step("make")?;
            // Another may find it before it is locked, and take it for what a crash left.
            let locked = match open_without_waiting(&self.0, &beside, Links::Refused) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            lock(&locked, until)?;
            if self.is(&beside, &file)? {
                return Ok(Turn { directory: self, name, beside, file, lock: Some(locked), placed: false });
            }
        }
        Err(too_late())
    }

    /// Waits for whoever has the unfinished file. If that one has died, the file is removed.
    fn wait_for(&self, beside: &OsStr, until: Instant) -> io::Result<()> {
        let owner = match self.found_there(beside)? {
            None => return Ok(()),
            Some((_, false)) => return self.clear(beside, until),
            Some((owner, true)) => owner,
        };
        let file = match open_without_waiting(&self.0, beside, Links::Refused) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(left_by(beside, owner)),
            opened => opened?,
        };
        lock(&file, until)?;
        if self.is(beside, &file)? {
            // While it is locked: its writer may only have come too late to lock it, and would be sure of it by then.
            found(unlinkat(&self.0, beside, AtFlags::empty()))?;
        }
        drop(file);
        Ok(())
    }

    /// Whose this is, and whether it is a writer's file: of this user, the directory's owner or root.
    fn found_there(&self, beside: &OsStr) -> io::Result<Option<(u32, bool)>> {
        let Some(about) = found(statat(&self.0, beside, AtFlags::SYMLINK_NOFOLLOW))? else { return Ok(None) };
        let is_a_writer = [geteuid().as_raw(), fstat(&self.0)?.st_uid, 0].contains(&about.st_uid);
        let is_regular = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
        Ok(Some((about.st_uid, is_a_writer && is_regular)))
    }

    /// Removes what was put there: nobody is waited for, and it is not opened. Another who does the same may have made his file since:
    /// so it is looked at, and removed, by one at a time.
    fn clear(&self, beside: &OsStr, until: Instant) -> io::Result<()> {
        let directory = openat(&self.0, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let directory = File::from(directory);
        lock(&directory, until)?;
        match self.found_there(beside)? {
            Some((_, false)) => found(unlinkat(&self.0, beside, AtFlags::empty())).map(drop),
            Some((_, true)) | None => Ok(()),
        }
    }

    /// Whether the name is still that of this file.
    fn is(&self, name: &OsStr, file: &File) -> io::Result<bool> {
        let Some(named) = found(statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW))? else { return Ok(false) };
        let ours = fstat(file)?;
        Ok((named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino))
    }
}

impl Turn<'_> {
    /// The new file, for who writes it piece by piece.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Writes the new file and places it.
    ///
    /// # Errors
    /// As [`Self::place`].
    pub fn put(self, bytes: &[u8], existing: Existing) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        step("write")?;
        self.place(existing)
    }

    /// Gives the new file its name, durable when this returns.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a file that is to be kept. The old file is unchanged then, unless only the last step, making the
    /// new name durable, failed.
    pub fn place(mut self, existing: Existing) -> io::Result<()> {
        self.file.sync_all()?;
        step("sync")?;
        // Closed before it is renamed: a watch of closings (inotify) takes one under the final name for a file that was changed in place.
        if let Some(lock) = self.lock.take() {
            self.file = lock;
        }
        let (at, beside, name) = (&self.directory.0, &self.beside, &self.name);
        if !self.directory.is(beside, &self.file)? {
            return Err(io::Error::other("somebody else removed the unfinished file beside it"));
        }
        let renamed = match existing {
            Existing::Replace => renameat(at, beside, at, name),
            Existing::Keep => renameat_with(at, beside, at, name, RenameFlags::NOREPLACE),
        };
        self.placed = match renamed {
            // A file system that cannot: a link never replaces either. The other name is removed when the turn ends.
            Err(Errno::INVAL | Errno::NOSYS) if existing == Existing::Keep => {
                linkat(at, beside, at, name, AtFlags::empty())?;
                false
            }
            renamed => renamed.map(|()| true)?,
        };
        step("place")?;
        self.directory.sync()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        #[cfg(test)]
        if crate::crash_tests::crashed() {
            return;
        }
        if !self.placed && self.directory.is(&self.beside, &self.file).unwrap_or_default() {
            // While it is locked; should it stay, the next turn takes it for what a crash left.
            let _ = unlinkat(&self.directory.0, &self.beside, AtFlags::empty());
        }
    }
}

/// Whether its writer is still at work this user cannot see.
fn left_by(beside: &OsStr, owner: u32) -> io::Error {
    let what = format!(
        "the unfinished file {} beside it belongs to the user {owner}, and cannot be taken over by another one: if no command \
         works there, remove it",
        beside.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

/// Locks a file as soon as nobody else has it locked.
///
/// # Errors
/// `TimedOut` if somebody has for as long as `patience`.
pub fn lock_within(file: &File, patience: Duration) -> io::Result<()> {
    lock(file, Instant::now() + patience)
}

#[expect(clippy::disallowed_methods, reason = "flock(2) knows no deadline")]
fn lock(file: &File, until: Instant) -> io::Result<()> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() >= until => return Err(too_late()),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(TRY_AGAIN),
            locked => return Ok(locked?),
        }
    }
}

fn too_late() -> io::Error {
    let why = "another program has it and does not come to its end: see whether one is stopped";
    io::Error::new(io::ErrorKind::TimedOut, why)
}

fn found<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

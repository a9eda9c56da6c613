//! A file on its way: under another name, locked, and hashed as it comes. It is no `Turn` of `latchkey-durable-file`: that removes what a
//! crash left, and this goes on with it.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use latchkey_durable_file::place;
use ring::digest::{Context, SHA256};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::Progress;
use super::error::{FetchError, at};
use crate::component::Download;
use crate::hash::Sha256;

/// As much as is read at once.
const CHUNK: usize = 128 * 1024;

/// A file on its way.
pub(super) struct Part<'a> {
    wanted: &'a Download,
    path: PathBuf,
    file: File,
    hashed: Context,
    len: u64,
    /// Whether some of it came over another connection.
    resumed: bool,
}

/// What ended reading before the end.
pub(super) enum Stop {
    /// The source did not give more.
    Source(io::Error),
    /// Something that another try will not mend.
    Final(FetchError),
}

impl<'a> Part<'a> {
    /// Opens what an earlier run has left, or begins anew.
    pub(super) fn open(directory: &Path, wanted: &'a Download) -> Result<Self, FetchError> {
        let path = directory.join(format!(".{}.part", wanted.file));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644).custom_flags(guarded());
        let file = options.open(&path).map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FetchError::Busy(path)),
            Err(TryLockError::Error(source)) => return Err(FetchError::Io { path, source }),
        }
        let found = file.metadata().map_err(at(&path))?;
        if !found.is_file() {
            return Err(FetchError::NoFile(path));
        }
        // Whoever held the lock has given the file its name, and this one is no part any more.
        let same = fs::symlink_metadata(&path).is_ok_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino()));
        if !same {
            return Err(FetchError::Busy(path));
        }
        let mut part = Self { wanted, path, file, hashed: Context::new(&SHA256), len: 0, resumed: false };
        if found.len() > wanted.max_bytes {
            part.restart()?;
        } else {
            match hash(&mut part.file, &mut part.hashed) {
                Ok(len) => (part.len, part.resumed) = (len, len > 0),
                Err(error) if is_lost(&error) => part.restart()?,
                Err(error) => return Err(at(&part.path)(error)),
            }
        }
        Ok(part)
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    pub(super) const fn max(&self) -> u64 {
        self.wanted.max_bytes
    }

    /// What is there came over another connection than what comes now.
    pub(super) const fn continues(&mut self) {
        self.resumed = self.len > 0;
    }

    pub(super) const fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Forgets what is there.
    pub(super) fn restart(&mut self) -> Result<(), FetchError> {
        self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0))).map_err(at(&self.path))?;
        (self.hashed, self.len, self.resumed) = (Context::new(&SHA256), 0, false);
        Ok(())
    }

    fn sha256(&self) -> Sha256 {
        Sha256::finish(self.hashed.clone())
    }

    pub(super) fn is_right(&self) -> bool {
        self.sha256() == self.wanted.sha256
    }

    /// Takes everything that a source gives.
    pub(super) fn take(
        &mut self,
        mut source: impl Read,
        of: Option<u64>,
        place: &str,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), Stop> {
        let mut chunk = vec![0; CHUNK];
        loop {
            progress(Progress { file: &self.wanted.file, got: self.len, of });
            let count = match source.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Stop::Source(error)),
            };
            let bytes = chunk.get(..count).unwrap_or_default();
            self.len += count as u64;
            if self.len > self.max() {
                self.discard();
                return Err(Stop::Final(FetchError::TooLarge { place: place.to_owned(), max: self.max() }));
            }
            self.hashed.update(bytes);
            self.file.write_all(bytes).map_err(|source| Stop::Final(at(&self.path)(source)))?;
        }
    }

    /// The same, of a source that is not tried twice.
    pub(super) fn read(
        &mut self,
        source: impl Read,
        of: Option<u64>,
        place: &str,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), FetchError> {
        self.take(source, of, place, progress).map_err(|stop| match stop {
            Stop::Source(error) => at(place)(error),
            Stop::Final(error) => error,
        })
    }

    /// Whether it is what the table names; if it is not, it is removed.
    pub(super) fn judge(&mut self, place: &str) -> Result<(), FetchError> {
        if self.is_right() {
            return Ok(());
        }
        let (expected, got) = (self.wanted.sha256, self.sha256());
        self.discard();
        Err(FetchError::Differs { place: place.to_owned(), expected, got })
    }

    /// Gives it its name.
    pub(super) fn publish(self, target: &Path) -> Result<(), FetchError> {
        let failed = at(&self.path);
        let publish = || {
            self.file.set_permissions(Permissions::from_mode(0o644))?;
            place(&self.path, target)
        };
        publish().map_err(failed)
    }

    /// After a failure: what there is stays for the next run.
    pub(super) fn leave(&self) {
        if self.len == 0 {
            self.discard();
        }
    }

    /// Nothing of it is of use. That it cannot be removed changes nothing: it is hashed again before it is.
    fn discard(&self) {
        drop(fs::remove_file(&self.path));
    }
}

/// Opens a plain file, following links, and says its size; none if it is not there.
pub(super) fn open(path: &Path) -> Result<Option<(File, u64)>, FetchError> {
    // A pipe would wait for somebody who writes into it.
    let file = match OpenOptions::new().read(true).custom_flags(flags(OFlags::NONBLOCK)).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(FetchError::Io { path: path.into(), source }),
    };
    let found = file.metadata().map_err(at(path))?;
    if found.is_file() { Ok(Some((file, found.len()))) } else { Err(FetchError::NoFile(path.into())) }
}

/// Whether the file there is the one that is wanted.
pub fn is_right(path: &Path, wanted: &Download) -> Result<bool, FetchError> {
    let Some((file, size)) = open(path)? else { return Ok(false) };
    if size > wanted.max_bytes {
        return Ok(false);
    }
    let mut hashed = Context::new(&SHA256);
    match hash(&mut file.take(wanted.max_bytes + 1), &mut hashed) {
        Ok(_) => Ok(Sha256::finish(hashed) == wanted.sha256),
        Err(error) if is_lost(&error) => Ok(false),
        Err(error) => Err(at(path)(error)),
    }
}

/// Whether a disk says that it has lost what was read: of a bad sector, and of one that an authenticated disk finds changed. Such a
/// file is a wrong one, and is got again.
pub fn is_lost(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::IO, Errno::ILSEQ].iter().any(|lost| code == Some(lost.raw_os_error()))
}

/// Hashes what comes, and says how much that is.
fn hash(source: &mut impl Read, context: &mut Context) -> io::Result<u64> {
    let mut chunk = vec![0; CHUNK];
    let mut len = 0;
    loop {
        match source.read(&mut chunk) {
            Ok(0) => return Ok(len),
            Ok(count) => {
                context.update(chunk.get(..count).unwrap_or_default());
                len += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Never through a link, and never waiting for the other end of a pipe.
fn guarded() -> i32 {
    flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

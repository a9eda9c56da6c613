//! Reading what the user names, bounded; writing what nobody else may read, atomically.

use std::fs::{self, File};
use std::io::{self, Read, StdinLock};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use latchkey_durable_file::{Directory, Existing, Links, ReadError, read_bounded, read_plain};
use latchkey_keys::{MasterSecret, SecretVec};
use rustix::io::Errno;
use rustix::process::geteuid;
use zeroize::Zeroizing;

use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::mistaken::Kind;

/// Who may read a new file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Mode 0600.
    OwnerOnly,
    /// What the umask leaves of 0644.
    Anyone,
}

impl Readers {
    const fn mode(self) -> u32 {
        match self {
            Self::OwnerOnly => 0o600,
            Self::Anyone => 0o644,
        }
    }
}

/// What stands for standard input where a file is read.
const STANDARD_INPUT: &str = "-";
/// The largest file that is looked at for what it is: a manifest.
const MAX_MISTAKEN: usize = 1024 * 1024;
/// Whether it was read: there is no second reading of it.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether a path means standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path == Path::new(STANDARD_INPUT)
}

/// Refuses standard input where only a file will do.
pub(crate) fn must_be_a_file(path: &Path, why: &str) -> Result<(), CommandError> {
    if !is_standard_input(path) {
        return Ok(());
    }
    Err(CommandError::usage(format!("standard input will not do here: {why}")).fix("give the path of a file"))
}

/// Standard input, for whoever asks first.
fn standard_input() -> Result<StdinLock<'static>, CommandError> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        let failure = CommandError::usage("`-` stands twice, and standard input can be read once");
        return Err(failure.fix("give a file instead of one of them"));
    }
    Ok(io::stdin().lock())
}

/// Reads a file of at most `limit` bytes; `-` is standard input.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, CommandError> {
    let bytes = if is_standard_input(path) {
        read_from(standard_input()?, limit, 0)
    } else {
        File::open(path).and_then(|file| {
            let expected = file.metadata()?.len();
            read_from(file, limit, expected)
        })
    };
    bytes.map(|mut bytes| std::mem::take(&mut *bytes)).map_err(|error| unreadable(path, &error))
}

/// Reads a regular file of at most `limit` bytes in a directory that may be somebody else's: nobody is waited for, as for who would
/// write into a pipe.
pub(crate) fn read_regular(path: &Path, limit: usize, links: Links) -> Result<Vec<u8>, CommandError> {
    let read = || {
        let (directory, name) = Directory::of(path)?;
        directory.read(name, limit, links)
    };
    read().map(|mut bytes| std::mem::take(&mut *bytes)).map_err(|error| unreadable(path, &error.into()))
}

/// The same of a file by which something is done in this user's name, if it is there: neither a link nor a file that anybody but this
/// user and root can have written is taken.
pub(crate) fn read_own(path: &Path, limit: usize) -> Result<Option<Zeroizing<Vec<u8>>>, CommandError> {
    let failed = |error: io::Error| unreadable(path, &error);
    let opened = Directory::of(path).and_then(|(directory, name)| directory.open_file(name, Links::Refused));
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => return Err(untrusted(path, "it is a link")),
        Err(error) => return Err(failed(error)),
    };
    let about = file.metadata().map_err(failed)?;
    if about.uid() != 0 && about.uid() != geteuid().as_raw() {
        return Err(untrusted(path, &format!("it belongs to the user {}", about.uid())));
    }
    if about.mode() & 0o022 != 0 {
        return Err(untrusted(path, &format!("others may write it: its mode is {:04o}", about.mode() & 0o7777)));
    }
    read_plain(&file, limit).map(Some).map_err(|error| failed(error.into()))
}

/// What a cluster's directory says is not acted by: whoever wrote it could have this user run his programs.
pub(crate) fn untrusted(path: &Path, why: &str) -> CommandError {
    let what = format!("{} is not taken for where the cluster is kept", path.display());
    CommandError::new(Exit::Usage, CommandCode::StoreUntrusted, what).because(why)
}

/// Reads the master secret: from a file that only its owner can read, or from standard input if `path` is `-`.
pub(crate) fn read_master_secret(path: &Path) -> Result<MasterSecret, CommandError> {
    if !is_standard_input(path) {
        return load_master_secret(path);
    }
    Ok(MasterSecret::from_text(&read_secret(path, MasterSecret::MAX_FILE_SIZE)?, path)?)
}

/// Reads the master secret from a file that only its owner can read. What is another file is said to be that, before who may read it.
pub(crate) fn load_master_secret(path: &Path) -> Result<MasterSecret, CommandError> {
    MasterSecret::load(path).map_err(|error| {
        let file = if path.is_file() { read(path, MAX_MISTAKEN).unwrap_or_default() } else { Vec::new() };
        let file = Zeroizing::new(file);
        Kind::MasterSecret.expected(error.into(), &file, path)
    })
}

/// Reads a secret: from a file that only its owner can read, or from standard input if `path` is `-`. One line break at
/// its end is not part of it.
pub(crate) fn read_secret(path: &Path, limit: usize) -> Result<SecretVec, CommandError> {
    let too_long = || CommandError::usage(format!("{}: longer than {limit} bytes", path.display()));
    let secret = if is_standard_input(path) {
        // With room for the longest line break.
        let read = read_bounded(standard_input()?, limit + 2, u64::MAX).map_err(|error| match error {
            ReadError::TooLong(_) => too_long(),
            other => unreadable(path, &other.into()),
        });
        read?.into()
    } else {
        latchkey_keys::read_private_file(path, limit + 1)?
    };
    let text = secret.expose();
    let end = text.strip_suffix(b"\r\n").or_else(|| text.strip_suffix(b"\n")).unwrap_or(text);
    if end.len() > limit {
        return Err(too_long());
    }
    Ok(SecretVec::from_slice(end))
}

/// The first bytes of a file, at most so many.
pub(crate) fn read_beginning(path: &Path, most: usize) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    file.take(most as u64).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

/// `expected` is how many bytes there seem to be.
fn read_from(input: impl Read, limit: usize, expected: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    Ok(read_bounded(input, limit, expected)?)
}

fn unreadable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::new(Exit::Usage, CommandCode::FileUnreadable, format!("cannot read {}", path.display()))
        .because(error.to_string())
}

/// Writes a file that must not exist yet; durable when this returns.
pub(crate) fn write_new(path: &Path, content: &[u8], readers: Readers) -> Result<(), CommandError> {
    put(path, readers, content, Existing::Keep).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            CommandError::new(Exit::Usage, CommandCode::FileExists, format!("{} exists already", path.display()))
                .fix("choose another name, or move the file away: it is never overwritten")
        }
        _ => unwritable(path, &error),
    })
}

/// Replaces a file, or makes it: readers see the old content or the new one, after a power cut too.
pub(crate) fn replace(path: &Path, content: &[u8], readers: Readers) -> Result<(), CommandError> {
    put(path, readers, content, Existing::Replace).map_err(|error| unwritable(path, &error))
}

fn put(path: &Path, readers: Readers, content: &[u8], existing: Existing) -> io::Result<()> {
    latchkey_durable_file::put(path, readers.mode(), content, existing)
}

/// Makes a directory that only its owner can enter; one that exists is left as it is.
pub(crate) fn make_directory(path: &Path) -> Result<(), CommandError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| unwritable(path, &error))
}

pub(crate) use latchkey_durable_file::sync_directory_of;

pub(crate) fn unwritable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::local(CommandCode::FileUnwritable, format!("cannot write {}", path.display()))
        .because(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn who_holds_a_file_for_ever_holds_no_command() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        replace(&path, b"before", Readers::OwnerOnly).unwrap();
        let held = Directory::open(directory.path()).unwrap();
        let _turn = held.turn("file", 0o600).unwrap();
        let failure = replace(&path, b"after", Readers::OwnerOnly).unwrap_err();
        assert_eq!(failure.code, CommandCode::FileUnwritable.into());
        assert!(failure.because[0].contains("does not come to its end"), "{failure:?}");
        assert_eq!(read(&path, 16).unwrap(), b"before");
    }
}

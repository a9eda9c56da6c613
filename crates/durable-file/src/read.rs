//! Reading, within bounds.

use crate::{Directory, open_without_waiting};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use zeroize::Zeroizing;

/// What to do about a name that is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// It is an error.
    Refused,
    /// The file is read that it leads to.
    Followed,
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A directory, a pipe, a device.
    #[error("is no regular file")]
    NotRegular,
    /// It has more bytes than so many.
    #[error("is longer than {0} bytes")]
    TooLong(usize),
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            other => Self::other(other),
        }
    }
}

impl Directory {
    /// Opens a file without waiting for anybody, whatever it is.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_file(&self, name: impl AsRef<OsStr>, links: Links) -> io::Result<File> {
        open_without_waiting(&self.0, name.as_ref(), links)
    }

    /// Reads a regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self, name: impl AsRef<OsStr>, limit: usize, links: Links) -> Result<Zeroizing<Vec<u8>>, ReadError> {
        read_plain(&self.open_file(name, links)?, limit)
    }
}

/// Reads an open file, if it is a regular one of at most `limit` bytes.
///
/// # Errors
/// [`ReadError`].
pub fn read_plain(file: &File, limit: usize) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(ReadError::NotRegular);
    }
    read_bounded(file, limit, about.len())
}

/// Reads at most `limit` bytes into one allocation, which is wiped: a vector that grows would leave copies behind. `expected` is how
/// many there seem to be.
///
/// # Errors
/// [`ReadError`].
pub fn read_bounded(mut input: impl Read, limit: usize, expected: u64) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    // One byte more tells an input that is too long from one that just fits.
    let most = limit.saturating_add(1);
    let room = usize::try_from(expected).map_or(most, |expected| expected.saturating_add(1).min(most));
    let mut bytes = Zeroizing::new(vec![0; room]);
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            if filled == most {
                return Err(ReadError::TooLong(limit));
            }
            // It has grown since it was looked at, or its length is not known.
            let mut larger = Zeroizing::new(vec![0; most]);
            larger[..filled].copy_from_slice(&bytes);
            bytes = larger;
        }
        match input.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

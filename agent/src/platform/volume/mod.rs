//! Small volumes that somebody attached for this node to read: FAT or ISO 9660, found by their label.
//!
//! They are read here and not mounted: whoever makes one may be anybody, and the kernel's file systems are not made for bytes
//! that an attacker chose. Everything is bounded, nothing is written, and no module is needed.

mod iso9660;

use std::fmt;
use std::io;

use latchkey_boot_formats::fat::{self, Fat, FatError};
use latchkey_boot_formats::{ReadAt, Window};

use iso9660::Iso;

/// What volumes for a node are called. Upper and lower case are the same: tools that make FAT volumes change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// `cidata`: the seed of `NoCloud`, as cloud-init names it.
    Cidata,
    /// `config-2`: `OpenStack`'s config drive.
    Config2,
}

impl Label {
    /// As the tools that make such volumes write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cidata => "cidata",
            Self::Config2 => "config-2",
        }
    }

    /// Whether these bytes are a volume with this label. What cannot be read is none.
    pub fn is_of<R: ReadAt + ?Sized>(self, bytes: &R) -> bool {
        let label = |volume: &Window<'_, R>| iso9660::label(volume).or_else(|| fat::label(volume));
        let label = Window::whole(bytes).ok().and_then(|volume| label(&volume));
        label.is_some_and(|label| label.eq_ignore_ascii_case(self.name()))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a volume, or a file in it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The operating system's; [`io::ErrorKind::UnexpectedEof`] when the volume ends before what it promises.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file system contradicts itself, or is of a kind that is not read.
    #[error("{0}")]
    Damaged(&'static str),
    /// The file has more bytes than are read.
    #[error("{file} has {size} bytes, at most {limit} are read")]
    TooLarge {
        /// Its path in the volume.
        file: String,
        /// Bytes it has.
        size: u64,
        /// Bytes that are read.
        limit: u64,
    },
    /// The file system itself has more bytes in one place than are read.
    #[error("{what} has {size} bytes, at most {limit} are read: make a smaller volume")]
    Oversized {
        /// What: a table, a directory.
        what: &'static str,
        /// Bytes it has.
        size: u64,
        /// Bytes that are read.
        limit: u64,
    },
}

impl From<FatError> for VolumeError {
    fn from(error: FatError) -> Self {
        match error {
            FatError::Io(error) => Self::Io(error),
            FatError::Bad(what) => Self::Damaged(what),
            FatError::TableTooLarge { size, limit } => {
                Self::Oversized { what: "the file allocation table", size, limit }
            }
        }
    }
}

/// Reads a file of a volume: its path as names from the root on. `None` if it is not there; at most `limit` bytes.
///
/// # Errors
/// [`VolumeError`]: the file is larger, or the volume is damaged.
pub fn read_file<R: ReadAt + ?Sized>(bytes: &R, path: &[&str], limit: usize) -> Result<Option<Vec<u8>>, VolumeError> {
    let volume = Window::whole(bytes)?;
    match Iso::open(&volume)? {
        Some(iso) => file_of(&iso, &volume, path, limit),
        None => file_of(&Fat::open(&volume)?, &volume, path, limit),
    }
}

/// What both kinds of file systems can say.
trait Files {
    type Entry;
    /// The entries of a directory: the root without one.
    fn entries(&self, directory: Option<&Self::Entry>) -> Result<Vec<Self::Entry>, VolumeError>;
    fn is_called(entry: &Self::Entry, name: &str) -> bool;
    fn is_directory(entry: &Self::Entry) -> bool;
    fn size(entry: &Self::Entry) -> u32;
    /// Where a file's content lies.
    fn places(&self, entry: &Self::Entry) -> Result<Vec<std::ops::Range<u64>>, VolumeError>;
}

fn file_of<F: Files, R: ReadAt + ?Sized>(
    files: &F,
    volume: &Window<'_, R>,
    path: &[&str],
    limit: usize,
) -> Result<Option<Vec<u8>>, VolumeError> {
    let mut found = None;
    for name in path {
        if found.as_ref().is_some_and(|entry| !F::is_directory(entry)) {
            return Ok(None);
        }
        let mut named = files.entries(found.as_ref())?.into_iter().filter(|entry| F::is_called(entry, name));
        let Some(first) = named.next() else { return Ok(None) };
        // Readers differ in which they take.
        if named.next().is_some() {
            return Err(VolumeError::Damaged("a directory has one name twice"));
        }
        found = Some(first);
    }
    let Some(file) = found.filter(|entry| !F::is_directory(entry)) else { return Ok(None) };
    let size = u64::from(F::size(&file));
    if size > limit as u64 {
        return Err(VolumeError::TooLarge { file: path.join("/"), size, limit: limit as u64 });
    }
    let mut content = Vec::new();
    for place in files.places(&file)? {
        let length = usize::try_from(place.end.saturating_sub(place.start)).unwrap_or(usize::MAX);
        content.extend(volume.bytes(place.start, length)?);
    }
    Ok(Some(content))
}

impl<R: ReadAt + ?Sized> Files for Fat<'_, R> {
    type Entry = fat::Entry;

    fn entries(&self, directory: Option<&fat::Entry>) -> Result<Vec<fat::Entry>, VolumeError> {
        Ok(self.directory(directory)?)
    }

    fn is_called(entry: &fat::Entry, name: &str) -> bool {
        entry.name.eq_ignore_ascii_case(name)
    }

    fn is_directory(entry: &fat::Entry) -> bool {
        entry.is_directory
    }

    fn size(entry: &fat::Entry) -> u32 {
        entry.size
    }

    fn places(&self, entry: &fat::Entry) -> Result<Vec<std::ops::Range<u64>>, VolumeError> {
        Ok(self.file(entry)?)
    }
}

#[cfg(test)]
mod tests;

//! Looks through a tar archive before a file system is made of it.

use std::fmt;
use std::io::{self, Read};

use crate::tree::{Entry, EntryKind, MAX_ENTRIES, Reads, Tree};

/// Why no file system is made of an archive.
#[derive(Debug)]
pub enum ArchiveError {
    /// An entry lies in a directory that the archive does not name: whose that would be is nobody's decision.
    NoParent(String),
    /// An entry leads out of the root.
    Outside(String),
    /// More entries than any root has.
    TooMany,
    /// It is damaged, or could not be read.
    Io(io::Error),
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoParent(path) => {
                write!(
                    f,
                    "the archive has {path:?} but not the directory it is in: pack directories too, before what is in them"
                )
            }
            Self::Outside(path) => write!(f, "the archive has {path:?}, which leads out of it"),
            Self::TooMany => write!(f, "the archive has more than {MAX_ENTRIES} entries"),
            Self::Io(source) => write!(f, "the archive: {source}"),
        }
    }
}

impl std::error::Error for ArchiveError {}

impl From<io::Error> for ArchiveError {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}

/// What the archive holds; of several entries of one path the first counts, as for mksquashfs. Every entry must lie in a
/// directory of the archive.
pub(crate) fn tree(archive: impl Read, reads: &Reads) -> Result<Tree, ArchiveError> {
    let mut tree = Tree::default();
    tree.insert(Vec::new(), Entry { mode: 0o755, what: EntryKind::Directory });
    let mut archive = tar::Archive::new(archive);
    for (count, entry) in archive.entries()?.enumerate() {
        let entry = entry?;
        if count >= MAX_ENTRIES {
            return Err(ArchiveError::TooMany);
        }
        let raw = entry.path_bytes().into_owned();
        let path = plain(&raw).ok_or_else(|| ArchiveError::Outside(printable(&raw)))?;
        let parent = path.iter().rposition(|byte| *byte == b'/').and_then(|end| path.get(..end)).unwrap_or_default();
        if !matches!(tree.at(parent), Some(Entry { what: EntryKind::Directory, .. })) {
            return Err(ArchiveError::NoParent(printable(&raw)));
        }
        if tree.at(&path).is_none()
            && let Some(entry) = in_tree(&path, entry, reads)?
        {
            tree.insert(path, entry);
        }
    }
    Ok(tree)
}

/// An entry of the archive; none of a kind that is no file.
fn in_tree(path: &[u8], entry: tar::Entry<'_, impl Read>, reads: &Reads) -> Result<Option<Entry>, ArchiveError> {
    let header = entry.header();
    let mode = header.mode()? & 0o7777;
    let target = || entry.link_name_bytes().unwrap_or_default().into_owned();
    let numbers = || Ok::<_, io::Error>((header.device_major()?.unwrap_or(0), header.device_minor()?.unwrap_or(0)));
    let what = match header.entry_type() {
        tar::EntryType::Directory => EntryKind::Directory,
        tar::EntryType::Symlink => return Ok(Some(Entry { mode: 0o777, what: EntryKind::Link(target()) })),
        tar::EntryType::Link => EntryKind::Hardlink(plain(&target()).unwrap_or_default()),
        tar::EntryType::Fifo => EntryKind::Pipe,
        tar::EntryType::Char => numbers().map(|(major, minor)| EntryKind::Device(false, major, minor))?,
        tar::EntryType::Block => numbers().map(|(major, minor)| EntryKind::Device(true, major, minor))?,
        kind if kind.is_file() || kind.is_gnu_sparse() || kind.is_contiguous() => {
            let size = entry.size();
            EntryKind::File(size, reads.text(path, || Ok(entry))?)
        }
        _ => return Ok(None),
    };
    Ok(Some(Entry { mode, what }))
}

/// The path without `./` and slashes at its ends; none if it has `..`.
fn plain(path: &[u8]) -> Option<Vec<u8>> {
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    (!parts.contains(&&b".."[..])).then(|| parts.join(&b'/'))
}

fn printable(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os_release::{self, OsReleaseError};

    fn tree(archive: &[u8]) -> Result<Tree, ArchiveError> {
        super::tree(archive, &Reads::default())
    }

    fn archive(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            // Written past the builder's own checks: whoever attacks does not use it.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    const DIR: tar::EntryType = tar::EntryType::Directory;
    const FILE: tar::EntryType = tar::EntryType::Regular;

    #[test]
    fn os_release_is_that_of_usr_lib_wherever_it_stands() {
        let entries = [
            ("./", DIR, ""),
            ("./etc/", DIR, ""),
            ("./etc/os-release", FILE, "ID=etc\n"),
            ("usr", DIR, ""),
            ("usr/lib/", DIR, ""),
            ("/usr/lib/os-release", FILE, "ID=lib\n"),
        ];
        let os_release = |bytes: &[u8]| os_release::of_tree(&tree(bytes).unwrap());
        assert_eq!(os_release(&archive(&entries)).unwrap(), "ID=lib\n");
        assert_eq!(os_release(&archive(&entries[..3])).unwrap(), "ID=etc\n");
        assert!(matches!(os_release(&archive(&entries[..2])), Err(OsReleaseError::None)));
        let link = [("etc", DIR, ""), ("etc/os-release", tar::EntryType::Symlink, "")];
        assert!(matches!(os_release(&archive(&link)), Err(OsReleaseError::None)));
    }

    #[test]
    fn a_file_in_a_directory_of_nobody_and_a_path_that_leads_out_are_refused() {
        let orphan = archive(&[("opt/x", FILE, "")]);
        assert!(matches!(tree(&orphan[..]), Err(ArchiveError::NoParent(path)) if path == "opt/x"));
        let outside = archive(&[("a", DIR, ""), ("a/../../x", FILE, "")]);
        assert!(matches!(tree(&outside[..]), Err(ArchiveError::Outside(_))));
        assert!(matches!(tree(&[b'x'; 512][..]), Err(ArchiveError::Io(_))));
        let mut cut = archive(&[("x", FILE, &"y".repeat(2000))]);
        cut.truncate(1024);
        assert!(matches!(tree(&cut[..]), Err(ArchiveError::Io(_))));
    }

    #[test]
    fn the_first_of_several_entries_of_a_path_counts() {
        let twice = archive(&[("etc", DIR, ""), ("etc/shadow", FILE, "first"), ("etc/shadow", FILE, "second")]);
        assert_eq!(tree(&twice[..]).unwrap().text(b"etc/shadow"), Some(&b"first"[..]));
    }
}

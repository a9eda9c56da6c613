//! Looks through a tar archive before a file system is made of it.
//!
//! A root must be what `tar` would unpack, where a later member of the same name wins; mksquashfs takes the first. So the
//! earlier ones are left out of what mksquashfs reads, and what has no such order is refused by name.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::ops::Range;

use crate::tree::{Entry, EntryKind, MAX_ENTRIES, Reads, Tree};

/// Why no file system is made of an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An entry lies in a directory that the archive does not name: whose that would be is nobody's decision.
    #[error("the archive has {0:?}, and not before it the directory that it is in")]
    NoParent(String),
    /// An entry leads out of the root.
    #[error("the archive has {0:?}, which leads out of it")]
    Outside(String),
    /// A hard link to a file that the archive does not have before it.
    #[error("the archive has a hard link {link:?} to {target:?}, which is no file that comes before it in the archive")]
    Dangling {
        /// The link.
        link: String,
        /// The file that it names.
        target: String,
    },
    /// Several members of this name, which would not simply replace each other.
    #[error(
        "the archive has {0:?} several times, as other kinds of files, as directories with other owners or permissions, or with a hard link to the first"
    )]
    Several(String),
    /// More entries than any root has.
    #[error("the archive has more than {MAX_ENTRIES} entries")]
    TooMany,
    /// It is damaged, or could not be read.
    #[error("the archive: {0}")]
    Io(#[from] io::Error),
}

impl ArchiveError {
    /// What to do, where that is more than to correct what the message names.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoParent(_) => "pack directories too, before what is in them",
            Self::Several(_) => "unpack the archive, and pack it anew",
            _ => return None,
        })
    }
}

/// What an archive holds, and where in it earlier members lie that later ones of the same name replace.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) tree: Tree,
    /// In bytes of the archive, in order.
    pub(crate) replaced: Vec<Range<u64>>,
}

/// What there is at a path so far.
struct Member {
    place: Range<u64>,
    owner: (u64, u64),
}

/// Looks through the archive. Every entry must lie in a directory of the archive.
pub(crate) fn survey(archive: impl Read, reads: &Reads) -> Result<Survey, ArchiveError> {
    let mut tree = Tree::default();
    tree.insert(Vec::new(), Entry { mode: 0o755, what: EntryKind::Directory });
    let mut members: BTreeMap<Vec<u8>, Member> = BTreeMap::new();
    let mut linked: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut replaced = Vec::new();
    // Where the last member ended: names that are too long for a header lie before it.
    let mut end = 0;
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
        let start = std::mem::replace(&mut end, end_of(&entry)?);
        let member = Member { place: start..end, owner: (entry.header().uid()?, entry.header().gid()?) };
        let Some(entry) = in_tree(&path, entry, reads)? else { continue };
        if let EntryKind::Hardlink(target) = &entry.what {
            let to_file = tree.at(target).is_some_and(|target| target.what != EntryKind::Directory);
            if !to_file || *target == path {
                return Err(ArchiveError::Dangling { link: printable(&raw), target: printable(target) });
            }
            linked.insert(target.clone());
        }
        // The root itself is what every image's is, whatever the archive says.
        if path.is_empty() {
            continue;
        }
        if let Some((before, earlier)) = tree.at(&path).zip(members.get(&path)) {
            let directories = [before, &entry].map(|entry| entry.what == EntryKind::Directory);
            let alike = before.mode == entry.mode && earlier.owner == member.owner;
            match directories {
                // Nothing to do: where the files in it stand, the first does no harm.
                [true, true] if alike => continue,
                [false, false] if !linked.contains(&path) => replaced.push(earlier.place.clone()),
                _ => return Err(ArchiveError::Several(printable(&raw))),
            }
        }
        tree.insert(path.clone(), entry);
        members.insert(path, member);
    }
    replaced.sort_by_key(|range| range.start);
    Ok(Survey { tree, replaced })
}

/// Where the content of this member ends, with its padding.
fn end_of(entry: &tar::Entry<'_, impl Read>) -> Result<u64, ArchiveError> {
    // Of a file with holes, less is stored than it has.
    let sparse = entry.header().entry_type().is_gnu_sparse();
    let stored = if sparse { entry.header().entry_size()? } else { entry.size() };
    let padded = stored.checked_next_multiple_of(BLOCK);
    let end = padded.and_then(|stored| entry.raw_file_position().checked_add(stored));
    end.ok_or_else(|| ArchiveError::Io(io::ErrorKind::InvalidData.into()))
}

/// An archive without what was replaced in it.
pub(crate) struct Without<'a, R> {
    archive: R,
    replaced: std::slice::Iter<'a, Range<u64>>,
    next: Option<&'a Range<u64>>,
    position: u64,
}

impl<'a, R: Read> Without<'a, R> {
    /// Leaves these ranges out, which are in order.
    pub(crate) fn new(archive: R, replaced: &'a [Range<u64>]) -> Self {
        let mut replaced = replaced.iter();
        let next = replaced.next();
        Self { archive, replaced, next, position: 0 }
    }
}

impl<R: Read> Read for Without<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(range) = self.next.take_if(|range| range.start <= self.position) {
            let length = range.end.saturating_sub(self.position);
            if io::copy(&mut (&mut self.archive).take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.position += length;
            self.next = self.replaced.next();
        }
        let most = self.next.as_ref().map_or(u64::MAX, |range| range.start - self.position);
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.archive.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.position += read as u64;
        Ok(read)
    }
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
        tar::EntryType::Link => {
            let target = target();
            EntryKind::Hardlink(plain(&target).ok_or_else(|| ArchiveError::Outside(printable(&target)))?)
        }
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
    latchkey_reason::printable(&String::from_utf8_lossy(path)).collect()
}

/// POSIX pax, "ustar Interchange Format".
const BLOCK: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os_release::{self, OsReleaseError};

    fn tree(archive: &[u8]) -> Result<Tree, ArchiveError> {
        survey(archive, &Reads::default()).map(|survey| survey.tree)
    }

    fn archive(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            // Written past the builder's own checks: whoever attacks does not use it.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            header.set_uid(0);
            header.set_gid(0);
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

    /// The members that mksquashfs reads.
    fn handed_over(bytes: &[u8]) -> Vec<(String, String)> {
        let replaced = survey(bytes, &Reads::default()).unwrap().replaced;
        let mut archive = tar::Archive::new(Without::new(bytes, &replaced));
        let entry = |entry: io::Result<tar::Entry<'_, _>>| {
            let mut entry = entry.unwrap();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        };
        archive.entries().unwrap().map(entry).collect()
    }

    #[test]
    fn of_several_members_of_a_name_the_last_wins_as_in_tar() {
        let long = "x".repeat(600);
        let bytes = archive(&[
            ("etc", DIR, ""),
            ("etc/shadow", FILE, &long),
            ("etc/other", FILE, "other"),
            ("./etc//shadow", FILE, "second"),
            ("etc", DIR, ""),
            ("etc/shadow", FILE, "third"),
        ]);
        assert_eq!(tree(&bytes).unwrap().text(b"etc/shadow"), Some(&b"third"[..]));
        let owned = |path: &str, content: &str| (path.to_owned(), content.to_owned());
        let expected = [owned("etc", ""), owned("etc/other", "other"), owned("etc", ""), owned("etc/shadow", "third")];
        assert_eq!(handed_over(&bytes), expected);
        let names = "n".repeat(200);
        let mut builder = tar::Builder::new(Vec::new());
        for content in ["first", "last"] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_uid(0);
            header.set_gid(0);
            builder.append_data(&mut header, &names, content.as_bytes()).unwrap();
        }
        assert_eq!(handed_over(&builder.into_inner().unwrap()), [owned(&names, "last")]);
    }

    #[test]
    fn members_that_do_not_simply_replace_each_other_are_refused_by_name() {
        let several = |entries: &[(&str, tar::EntryType, &str)]| {
            let error = tree(&archive(entries)).unwrap_err();
            assert!(matches!(&error, ArchiveError::Several(path) if path == "a"), "{error}");
        };
        several(&[("a", DIR, ""), ("a", FILE, "")]);
        several(&[("a", FILE, ""), ("a", DIR, "")]);
        several(&[("a", DIR, ""), ("a", tar::EntryType::Symlink, "")]);
        // The link would have to keep what the file had before.
        let link = archive_with_link("b", "a", &[("a", FILE, "first")], &[("a", FILE, "second")]);
        assert!(matches!(tree(&link).unwrap_err(), ArchiveError::Several(path) if path == "a"));
        let mut other = archive(&[("a", DIR, ""), ("a", DIR, "")]);
        // Another owner.
        let mut header = tar::Header::from_byte_slice(&other[512..1024]).clone();
        header.set_uid(1000);
        header.set_cksum();
        other[512..1024].copy_from_slice(header.as_bytes());
        assert!(matches!(tree(&other).unwrap_err(), ArchiveError::Several(_)));
    }

    #[test]
    fn a_hard_link_to_nothing_is_an_error() {
        for (target, before) in [("gone", "a"), ("b", "a"), ("a/x", "a")] {
            let dangling = archive_with_link("b", target, &[(before, FILE, "")], &[]);
            let error = tree(&dangling).unwrap_err();
            assert!(matches!(&error, ArchiveError::Dangling { link, .. } if link == "b"), "{target}: {error}");
        }
        let outside = archive_with_link("b", "../x", &[], &[]);
        assert!(matches!(tree(&outside).unwrap_err(), ArchiveError::Outside(_)));
        let directory = archive_with_link("b", "d", &[("d", DIR, "")], &[]);
        assert!(matches!(tree(&directory).unwrap_err(), ArchiveError::Dangling { .. }));
        assert!(tree(&archive_with_link("b", "a", &[("a", FILE, "")], &[])).is_ok());
    }

    fn archive_with_link(
        link: &str,
        target: &str,
        before: &[(&str, tar::EntryType, &str)],
        behind: &[(&str, tar::EntryType, &str)],
    ) -> Vec<u8> {
        let mut bytes = archive(before);
        bytes.truncate(bytes.len() - 1024);
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..link.len()].copy_from_slice(link.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(tar::EntryType::Link);
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend(archive(behind));
        bytes
    }
}

//! What a root holds, as far as a build looks: kinds, permissions, links, and the few small files that say who may log in.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use crate::systemd::{self, Addition};

/// A root with ten times as many files as a large distribution.
pub(crate) const MAX_ENTRIES: usize = 5_000_000;
/// As many links as the kernel follows (`path_resolution(7)`: "a maximum of 40").
const MAX_LINKS: usize = 40;
/// Files that are looked into in every root.
const READ: [&[u8]; 5] = [b"etc/inittab", b"etc/os-release", b"etc/passwd", b"etc/shadow", b"usr/lib/os-release"];
/// Far more than one of them has.
const MAX_TEXT: u64 = 1 << 20;

/// The files that are looked into, and how many bytes each of them may have.
#[derive(Debug)]
pub(crate) struct Reads(BTreeMap<Vec<u8>, u64>);

impl Reads {
    /// Those of every root, and the files among these, which are to be compared with what is there.
    pub(crate) fn and(files: &[Addition]) -> Self {
        let files = files.iter().filter_map(|Addition { path, what }| match what {
            systemd::AdditionKind::File(_, content) => Some((path.clone().into_bytes(), content.len() as u64)),
            _ => None,
        });
        Self(READ.iter().map(|path| (path.to_vec(), MAX_TEXT)).chain(files).collect())
    }

    /// The content of the file at this path; none if it is not looked into, or is longer than it may be.
    pub(crate) fn text<R: Read>(
        &self,
        path: &[u8],
        open: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<Option<Vec<u8>>> {
        let Some(most) = self.0.get(path) else { return Ok(None) };
        let mut bytes = Vec::new();
        open()?.take(most + 1).read_to_end(&mut bytes)?;
        Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= *most))
    }
}

impl Default for Reads {
    fn default() -> Self {
        Self::and(&[])
    }
}

/// One file, directory, link or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Permission bits; 0777 for links.
    pub(crate) mode: u32,
    pub(crate) what: EntryKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory,
    /// Bytes, and the content of those that are looked into.
    File(u64, Option<Vec<u8>>),
    Link(Vec<u8>),
    /// The same file as at this path of the root.
    Hardlink(Vec<u8>),
    /// Whether it is a block device, and its numbers.
    Device(bool, u32, u32),
    Pipe,
    Socket,
}

/// All of a root, by paths without a slash at either end; the root itself is the empty one.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tree(BTreeMap<Vec<u8>, Entry>);

impl Tree {
    /// Reads a directory. Links are not followed: they would lead into this machine's own system.
    pub(crate) fn of_directory(root: &Path, reads: &Reads) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.insert(Vec::new(), Entry { mode: fs::metadata(root)?.mode() & 0o7777, what: EntryKind::Directory });
        let mut directories = vec![Vec::new()];
        while let Some(directory) = directories.pop() {
            let place = below(root, &directory);
            for entry in fs::read_dir(&place).map_err(named(&place))? {
                let path = join(&directory, entry.map_err(named(&place))?.file_name().as_bytes());
                let place = below(root, &path);
                let entry = Entry::of_file(&place, &path, reads).map_err(named(&place))?;
                if entry.what == EntryKind::Directory {
                    directories.push(path.clone());
                }
                tree.insert(path, entry);
                if tree.0.len() > MAX_ENTRIES {
                    return Err(io::Error::other(format!("{}: more than {MAX_ENTRIES} files", root.display())));
                }
            }
        }
        Ok(tree)
    }

    /// Puts something there, in the place of what is there.
    pub(crate) fn insert(&mut self, path: Vec<u8>, entry: Entry) {
        self.0.insert(path, entry);
    }

    /// Puts additions over it, as the build does; directories that it has stay as they are.
    pub(crate) fn add(&mut self, additions: &[Addition]) {
        for Addition { path, what } in additions {
            for (end, _) in path.match_indices('/') {
                let directory = path.get(..end).unwrap_or_default();
                self.0.entry(directory.into()).or_insert(Entry { mode: 0o755, what: EntryKind::Directory });
            }
            let entry = match what {
                systemd::AdditionKind::Directory if self.at(path.as_bytes()).is_some() => continue,
                systemd::AdditionKind::Directory => Entry { mode: 0o755, what: EntryKind::Directory },
                systemd::AdditionKind::Link(target) => {
                    Entry { mode: 0o777, what: EntryKind::Link(target.clone().into()) }
                }
                systemd::AdditionKind::Copy(mode, _, size) => Entry { mode: *mode, what: EntryKind::File(*size, None) },
                systemd::AdditionKind::File(mode, content) => {
                    let text = READ.contains(&path.as_bytes()).then(|| content.clone());
                    Entry { mode: *mode, what: EntryKind::File(content.len() as u64, text) }
                }
            };
            self.insert(path.clone().into(), entry);
        }
    }

    /// What lies at just this path; nothing is followed.
    pub(crate) fn at(&self, path: &[u8]) -> Option<&Entry> {
        self.0.get(path)
    }

    /// What lies at just this path, under whatever name an archive has it first: symbolic links are not followed.
    pub(crate) fn linked(&self, path: &[u8]) -> Option<&Entry> {
        let mut entry = self.at(path)?;
        for _ in 0..MAX_LINKS {
            let EntryKind::Hardlink(other) = &entry.what else { return Some(entry) };
            entry = self.at(other)?;
        }
        None
    }

    /// Everything, sorted by path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_slice(), entry))
    }

    /// The names of what lies in a directory, links on the way to it followed.
    pub(crate) fn names(&self, directory: &[u8]) -> Vec<&[u8]> {
        let Some((directory, Entry { what: EntryKind::Directory, .. })) = self.find(directory) else {
            return Vec::new();
        };
        let inside = join(&directory, b"");
        let from = inside.clone();
        let found = self.0.range(from..).map(|(path, _)| path.as_slice());
        let names = found.map_while(|path| path.strip_prefix(inside.as_slice()));
        names.filter(|name| !name.is_empty() && !name.contains(&b'/')).collect()
    }

    /// What lies at a path in this root as a process sees it whose root it is, and where it really lies.
    pub(crate) fn find(&self, path: &[u8]) -> Option<(Vec<u8>, &Entry)> {
        let mut links = 0;
        let mut rest: Vec<Vec<u8>> = parts(path);
        let mut here = Vec::new();
        while let Some(name) = rest.pop() {
            if name == b".." {
                here = parent(&here).to_vec();
                continue;
            }
            let next = join(&here, &name);
            match &self.0.get(&next)?.what {
                EntryKind::Link(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return None;
                    }
                    if target.starts_with(b"/") {
                        here.clear();
                    }
                    rest.extend(parts(target));
                }
                // Which may be another name itself.
                EntryKind::Hardlink(other) if rest.is_empty() => {
                    links += 1;
                    if links > MAX_LINKS {
                        return None;
                    }
                    here.clear();
                    rest = parts(other);
                }
                _ => here = next,
            }
        }
        self.0.get(&here).map(|entry| (here, entry))
    }

    /// The content of one of the files that are looked into; none if it is not there, or is no file.
    pub(crate) fn text(&self, path: &[u8]) -> Option<&[u8]> {
        match self.find(path)?.1 {
            Entry { what: EntryKind::File(_, text), .. } => text.as_deref(),
            _ => None,
        }
    }
}

impl Entry {
    fn of_file(place: &Path, path: &[u8], reads: &Reads) -> io::Result<Self> {
        let found = fs::symlink_metadata(place)?;
        let kind = found.file_type();
        // Linux makedev(3): the major number is in bits 8 to 19 and from 32 on, the minor one in 0 to 7 and 20 to 31.
        let number = |high: u64, low: u64| u32::try_from(high | low).unwrap_or(u32::MAX);
        let device = found.rdev();
        let major = number(device >> 32 & 0xffff_f000, device >> 8 & 0xfff);
        let minor = number(device >> 12 & 0xffff_ff00, device & 0xff);
        let what = if kind.is_dir() {
            EntryKind::Directory
        } else if kind.is_symlink() {
            return Ok(Self { mode: 0o777, what: EntryKind::Link(fs::read_link(place)?.into_os_string().into_vec()) });
        } else if kind.is_file() {
            EntryKind::File(found.len(), reads.text(path, || File::open(place))?)
        } else if kind.is_fifo() {
            EntryKind::Pipe
        } else if kind.is_socket() {
            EntryKind::Socket
        } else {
            EntryKind::Device(kind.is_block_device(), major, minor)
        };
        Ok(Self { mode: found.mode() & 0o7777, what })
    }
}

/// The names of a path, the last one first.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.rev().map(<[u8]>::to_vec).collect()
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').and_then(|end| path.get(..end)).unwrap_or_default()
}

pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

pub(crate) fn below(root: &Path, path: &[u8]) -> std::path::PathBuf {
    root.join(std::ffi::OsStr::from_bytes(path))
}

fn named(path: &Path) -> impl FnOnce(io::Error) -> io::Error + '_ {
    move |source| io::Error::new(source.kind(), format!("{}: {source}", path.display()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tree of a path and what lies there: `/` a directory, `-> x` a link, otherwise a file of mode 0755 with this content.
    pub(crate) fn tree(entries: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        tree.insert(Vec::new(), Entry { mode: 0o755, what: EntryKind::Directory });
        for (path, what) in entries {
            let what = match what.strip_prefix("-> ") {
                Some(target) => EntryKind::Link(target.into()),
                None if *what == "/" => EntryKind::Directory,
                None => EntryKind::File(what.len() as u64, Some(what.as_bytes().to_vec())),
            };
            for (end, _) in path.match_indices('/') {
                let directory = Entry { mode: 0o755, what: EntryKind::Directory };
                tree.0.entry(path.as_bytes()[..end].to_vec()).or_insert(directory);
            }
            tree.insert(path.as_bytes().to_vec(), Entry { mode: 0o755, what });
        }
        tree
    }

    #[test]
    fn links_are_followed_inside_the_root_and_never_out_of_it() {
        let tree = tree(&[
            ("usr/lib/systemd/systemd", "x"),
            ("lib", "-> usr/lib"),
            ("sbin/init", "-> /lib/systemd/systemd"),
            ("up", "-> ../../../usr"),
            ("round", "-> round"),
            ("lost", "-> /nowhere/x"),
        ]);
        let at = |path: &str| tree.find(path.as_bytes()).map(|(path, _)| String::from_utf8(path).unwrap());
        for path in ["/sbin/init", "lib/systemd//systemd", "/up/lib/./systemd/systemd", "/../sbin/../sbin/init"] {
            assert_eq!(at(path).as_deref(), Some("usr/lib/systemd/systemd"), "{path}");
        }
        for path in ["/round", "/lost", "/etc", "/sbin/init/x"] {
            assert_eq!(at(path), None, "{path}");
        }
        assert_eq!(tree.names(b"/lib"), [b"systemd"]);
        assert_eq!(tree.names(b"sbin/init"), [b""; 0]);
        assert_eq!(tree.text(b"/sbin/init"), Some(&b"x"[..]));
    }

    #[test]
    fn other_names_of_other_names_of_a_file_are_found_and_those_in_a_circle_are_not() {
        let mut tree = tree(&[("usr/init", "x"), ("sbin/init", "-> /third")]);
        for (path, other) in [("second", "usr/init"), ("third", "second"), ("round", "about"), ("about", "round")] {
            tree.insert(path.into(), Entry { mode: 0o755, what: EntryKind::Hardlink(other.into()) });
        }
        for path in [&b"second"[..], b"third", b"sbin/init"] {
            assert_eq!(tree.find(path).unwrap().0, b"usr/init");
        }
        assert_eq!(tree.linked(b"third"), tree.at(b"usr/init"));
        assert_eq!((tree.find(b"round"), tree.linked(b"round")), (None, None));
    }

    #[test]
    fn a_directory_is_read_without_following_links_out_of_it() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("etc/deep/deeper")).unwrap();
        fs::write(directory.path().join("etc/passwd"), "root::0:0::/:/bin/sh\n").unwrap();
        fs::write(directory.path().join("etc/other"), "12345").unwrap();
        std::os::unix::fs::symlink("/etc", directory.path().join("mine")).unwrap();
        let tree = Tree::of_directory(directory.path(), &Reads::default()).unwrap();
        let paths: Vec<_> = tree.iter().map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect();
        assert_eq!(paths, ["", "etc", "etc/deep", "etc/deep/deeper", "etc/other", "etc/passwd", "mine"]);
        assert_eq!(tree.at(b"etc/other").unwrap().what, EntryKind::File(5, None));
        assert!(tree.text(b"mine/passwd").unwrap().starts_with(b"root::"));
    }
}

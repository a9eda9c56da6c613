//! Additions to a root on their way into its file system: whether the root has room for them, and how mksquashfs hears of
//! them.
//!
//! A file or link replaces what the root has at its path, unless that is a directory; a directory that the root has stays as it
//! is. mksquashfs takes the first of several entries of an archive, so an archive gets ours before its own (whose earlier
//! members of a name are left out, see [`crate::archive`]); from a directory it
//! leaves out what it is told, and adds pseudo files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use crate::systemd::{Addition, AdditionKind};
use crate::tree::{self, Entry, Tree};

/// An archive ends with two blocks of zeroes (POSIX pax, "ustar Interchange Format").
const END_OF_ARCHIVE: u64 = 1024;
/// The list of pseudo files, beside their contents.
const LIST: &str = "pseudo";

/// What a root has at a path, not following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Directory,
    Other,
}

/// The paths at which it matters what a root has: those of the additions, and the directories that they are in.
pub(crate) fn paths(additions: &[Addition]) -> BTreeMap<String, Option<Place>> {
    additions.iter().flat_map(|addition| lineage(&addition.path)).map(|path| (path.to_owned(), None)).collect()
}

/// A path and all directories that it is in, the path first.
fn lineage(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(parent, _)| parent))
}

/// Additions that fit, with every directory that the root lacks, in order.
#[derive(Debug)]
pub(crate) struct Added<'a> {
    entries: BTreeMap<&'a str, &'a AdditionKind>,
    replaced: Vec<&'a str>,
}

impl<'a> Added<'a> {
    /// The first path at which something is in the way is the error.
    pub(crate) fn fit(additions: &'a [Addition], has: &BTreeMap<String, Option<Place>>) -> Result<Self, &'a str> {
        let at = |path: &str| has.get(path).copied().flatten();
        let (mut entries, mut replaced) = (BTreeMap::new(), Vec::new());
        for Addition { path, what } in additions {
            for directory in lineage(path).skip(usize::from(*what != AdditionKind::Directory)) {
                match at(directory) {
                    Some(Place::Other) => return Err(directory),
                    Some(Place::Directory) => {}
                    None => drop(entries.insert(directory, &AdditionKind::Directory)),
                }
            }
            if *what != AdditionKind::Directory {
                match at(path) {
                    Some(Place::Directory) => return Err(path),
                    Some(Place::Other) => replaced.push(path.as_str()),
                    None => {}
                }
                entries.insert(path, what);
            }
        }
        Ok(Self { entries, replaced })
    }

    /// Writes an archive of them, without its end: another one follows. It is ready to be read.
    pub(crate) fn archive(&self, out: &Path) -> io::Result<File> {
        let mut builder = tar::Builder::new(io::BufWriter::new(File::create_new(out)?));
        for (path, what) in &self.entries {
            let mut header = tar::Header::new_gnu();
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            header.set_mode(mode(what));
            header.set_size(0);
            match what {
                AdditionKind::Directory => {
                    header.set_entry_type(tar::EntryType::Directory);
                    builder.append_data(&mut header, format!("{path}/"), io::empty())?;
                }
                AdditionKind::Link(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    builder.append_link(&mut header, path, target)?;
                }
                AdditionKind::Copy(_, from, size) => {
                    header.set_size(*size);
                    builder.append_data(&mut header, path, File::open(from)?.take(*size))?;
                }
                AdditionKind::File(_, content) => {
                    header.set_size(content.len() as u64);
                    builder.append_data(&mut header, path, &content[..])?;
                }
            }
        }
        let file = builder.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.set_len(file.metadata()?.len().saturating_sub(END_OF_ARCHIVE))?;
        File::open(out)
    }

    /// Writes pseudo files into an empty directory, in which mksquashfs is to run, and gives its arguments: these come last.
    pub(crate) fn pseudo(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut list = String::new();
        for (number, (path, what)) in self.entries.iter().enumerate() {
            // Quoted, a name ends at the second quote; a backslash takes the next character as it is.
            let (name, mode) = (path.replace('\\', "\\\\"), mode(what));
            // Writing to a string cannot fail.
            let _ = match what {
                AdditionKind::Directory => writeln!(list, "\"{name}\" d {mode:o} 0 0"),
                AdditionKind::Link(target) => writeln!(list, "\"{name}\" s {mode:o} 0 0 {target}"),
                AdditionKind::Copy(_, from, _) => {
                    std::os::unix::fs::symlink(std::path::absolute(from)?, directory.join(number.to_string()))?;
                    writeln!(list, "\"{name}\" f {mode:o} 0 0 cat {number}")
                }
                AdditionKind::File(_, content) => {
                    fs::write(directory.join(number.to_string()), content)?;
                    writeln!(list, "\"{name}\" f {mode:o} 0 0 cat {number}")
                }
            };
        }
        fs::write(directory.join(LIST), list)?;
        let mut arguments = vec!["-pf".into(), LIST.into()];
        if !self.replaced.is_empty() {
            // As patterns, because else mksquashfs leaves out other names of the same file, too.
            arguments.extend(["-wildcards".into(), "-e".into()]);
            arguments.extend(self.replaced.iter().map(|path| path.replace('\\', "\\\\").into()));
        }
        Ok(arguments)
    }
}

fn mode(what: &AdditionKind) -> u32 {
    match what {
        AdditionKind::File(permissions, _) | AdditionKind::Copy(permissions, ..) => *permissions,
        AdditionKind::Link(_) => 0o777,
        AdditionKind::Directory => 0o755,
    }
}

/// What a root has at these paths.
pub(crate) fn look(root: &Tree, paths: &mut BTreeMap<String, Option<Place>>) {
    for (path, place) in paths {
        let kind =
            |entry: &Entry| if entry.what == tree::EntryKind::Directory { Place::Directory } else { Place::Other };
        *place = root.at(path.as_bytes()).map(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn additions() -> Vec<Addition> {
        let one = |path: &str, what| Addition { path: path.into(), what };
        vec![
            one("etc/machine-id", AdditionKind::File(0o444, Vec::new())),
            one("srv/a/b", AdditionKind::Directory),
            one("usr/x", AdditionKind::Link("y".into())),
        ]
    }

    fn fit(has: &[(&str, Place)]) -> Result<(Vec<String>, Vec<String>), String> {
        let additions = additions();
        let mut places = paths(&additions);
        for (path, place) in has {
            *places.get_mut(*path).unwrap() = Some(*place);
        }
        let added = Added::fit(&additions, &places).map_err(str::to_owned)?;
        let owned = |path: &&str| (*path).to_owned();
        Ok((added.entries.keys().map(owned).collect(), added.replaced.iter().map(owned).collect()))
    }

    #[test]
    fn directories_that_the_root_has_stay_and_files_are_replaced() {
        let all = ["etc", "etc/machine-id", "srv", "srv/a", "srv/a/b", "usr", "usr/x"].map(str::to_owned).to_vec();
        assert_eq!(fit(&[]).unwrap(), (all, vec![]));
        let has = [
            ("etc", Place::Directory),
            ("usr", Place::Directory),
            ("etc/machine-id", Place::Other),
            ("srv", Place::Directory),
        ];
        let (entries, replaced) = fit(&has).unwrap();
        assert_eq!(entries, ["etc/machine-id", "srv/a", "srv/a/b", "usr/x"]);
        assert_eq!(replaced, ["etc/machine-id"]);
    }

    #[test]
    fn a_link_for_a_directory_and_a_directory_for_a_file_are_in_the_way() {
        assert_eq!(fit(&[("srv", Place::Other)]).unwrap_err(), "srv");
        assert_eq!(fit(&[("srv/a/b", Place::Other)]).unwrap_err(), "srv/a/b");
        assert_eq!(fit(&[("usr/x", Place::Directory)]).unwrap_err(), "usr/x");
    }
}

//! What of a component goes onto a node: the file itself, or files of an archive.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use ring::digest::{Context, SHA256};
use tar::{Archive, EntryType};

use super::error::{FetchError, at};
use crate::component::{Component, Install, InstallPath, Member};
use crate::hash::Sha256;

/// An archive has at most this many bytes when it is unpacked.
const MAX_UNPACKED: u64 = 2 << 30;
/// One file of it has at most this many.
const MAX_MEMBER: u64 = 512 << 20;

/// A file that goes onto a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// Where it goes there.
    pub to: InstallPath,
    /// Where it lies now.
    pub path: PathBuf,
}

/// What a file of a component is, as its archive has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Where it goes on a node.
    pub to: InstallPath,
    /// What it hashes to.
    pub sha256: Sha256,
    /// How many bytes it has.
    pub size: u64,
}

/// What the files hash to that [`unpack`] would take out of a component's archive. The archive must have been held against its hash.
pub fn contents(members: &[Member], archive: &Path) -> Result<Vec<Content>, FetchError> {
    each(members, archive, |member, entry, _| {
        let mut hashed = Context::new(&SHA256);
        let mut chunk = vec![0; 64 * 1024];
        let mut size = 0;
        loop {
            match entry.read(&mut chunk).map_err(unusable(archive))? {
                0 => break,
                count => {
                    hashed.update(chunk.get(..count).unwrap_or_default());
                    size += count as u64;
                }
            }
        }
        Ok(Content { to: member.to.clone(), sha256: Sha256::finish(hashed), size })
    })
}

/// Takes out of a component's file what goes onto a node. The file must have been held against its hash, in a directory where
/// nobody else writes; what comes out of an archive goes into `directory`, under names of its own, none of which two components share.
pub fn unpack(component: &Component, file: &Path, directory: &Path) -> Result<Vec<Unpacked>, FetchError> {
    match component.install() {
        Install::File(to) => Ok(vec![Unpacked { to: to.clone(), path: file.into() }]),
        Install::TarGz(members) => members_of(component.name(), members, file, directory),
    }
}

fn members_of(name: &str, members: &[Member], path: &Path, directory: &Path) -> Result<Vec<Unpacked>, FetchError> {
    each(members, path, |member, entry, count| {
        let place = directory.join(format!("{name}.{count}"));
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&place).map_err(at(&place))?;
        // Either of the two may have failed; the disk, if it is full, says so.
        io::copy(entry, &mut out).map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => at(&place)(source),
            _ => unusable(path)(source),
        })?;
        Ok(Unpacked { to: member.to.clone(), path: place })
    })
}

type Entry<'a> = tar::Entry<'a, Limited<MultiGzDecoder<File>>>;

/// Does something with each wanted file of an archive; the number is how many came before. By path in the archive.
fn each<T>(
    members: &[Member],
    path: &Path,
    mut what: impl FnMut(&Member, &mut Entry<'_>, usize) -> Result<T, FetchError>,
) -> Result<Vec<T>, FetchError> {
    let wrong = |member: &str, what| FetchError::Member { path: path.into(), member: member.to_owned(), what };
    let mut wanted: BTreeMap<&[u8], &Member> =
        members.iter().map(|member| (member.member.as_bytes(), member)).collect();
    let mut taken: BTreeMap<Vec<u8>, T> = BTreeMap::new();
    let file = File::open(path).map_err(at(path))?;
    let mut archive = Archive::new(Limited { inner: MultiGzDecoder::new(file), left: MAX_UNPACKED });
    for entry in archive.entries().map_err(unusable(path))? {
        let mut entry = entry.map_err(unusable(path))?;
        let found = entry.path_bytes().into_owned();
        let found = found.strip_prefix(b"./").unwrap_or(&found);
        let Some(member) = wanted.remove(found) else {
            // The last of several would win; a hash says nothing of which one is meant.
            if let Some((again, _)) = taken.get_key_value(found) {
                return Err(wrong(&String::from_utf8_lossy(again), "is there twice"));
            }
            continue;
        };
        if !matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous) {
            return Err(wrong(&member.member, "is no plain file"));
        }
        if entry.size() > MAX_MEMBER {
            return Err(wrong(&member.member, "is larger than any program"));
        }
        let done = what(member, &mut entry, taken.len())?;
        taken.insert(found.to_vec(), done);
    }
    match wanted.into_values().next() {
        Some(member) => Err(wrong(&member.member, "is not in it")),
        None => Ok(taken.into_values().collect()),
    }
}

fn unusable(path: &Path) -> impl Fn(io::Error) -> FetchError {
    move |source| FetchError::Archive { path: path.into(), source }
}

/// A reader that fails where more comes than it may: a small archive can hold endless zeroes.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other(format!("it has more than {MAX_UNPACKED} bytes when it is unpacked")))?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn component(members: &[&str]) -> Component {
        let members: Vec<String> =
            members.iter().map(|name| format!(r#"{{"member": "{name}", "to": "/opt/cni/bin/{name}"}}"#)).collect();
        let hash = "0".repeat(64);
        serde_json::from_str(&format!(
            r#"{{"name": "cni", "version": "1", "sha256": "{hash}", "max_bytes": 9, "install": {{"tar_gz": [{}]}}}}"#,
            members.join(", ")
        ))
        .unwrap()
    }

    fn packed(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_mode(0o4755);
            if *kind == EntryType::Symlink {
                header.set_link_name("/etc/shadow").unwrap();
            }
            // As it stands there: `append_data` would take `./` away.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn unpacked(members: &[&str], archive: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::File::create(&file).unwrap().write_all(archive).unwrap();
        let found = unpack(&component(members), &file, directory.path()).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|one| (one.to.as_str().to_owned(), std::fs::read(one.path).unwrap())).collect())
    }

    #[test]
    fn only_what_the_table_names_is_taken_out() {
        let file = EntryType::Regular;
        let archive = packed(&[
            ("./", EntryType::Directory, b""),
            ("./bridge", file, b"1"),
            ("./dhcp", file, b"2"),
            ("loopback", file, b"3"),
        ]);
        let found = unpacked(&["loopback", "bridge"], &archive).unwrap();
        assert_eq!(
            found,
            [("/opt/cni/bin/bridge".into(), b"1".to_vec()), ("/opt/cni/bin/loopback".into(), b"3".to_vec())]
        );
    }

    #[test]
    fn an_archive_that_lacks_doubles_or_links_what_is_wanted_is_refused() {
        let file = EntryType::Regular;
        for (archive, said) in [
            (packed(&[("other", file, b"1")]), "\"bridge\" is not in it"),
            (packed(&[("bridge", file, b"1"), ("./bridge", file, b"2")]), "\"bridge\" is there twice"),
            (packed(&[("bridge", EntryType::Symlink, b"")]), "\"bridge\" is no plain file"),
            (packed(&[("bridge", EntryType::Char, b"")]), "\"bridge\" is no plain file"),
            (packed(&[("../bridge", file, b"1")]), "\"bridge\" is not in it"),
            (b"no archive at all".to_vec(), "invalid gzip header"),
        ] {
            let error = unpacked(&["bridge"], &archive).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
        let whole = packed(&[("bridge", file, &[7; 5000])]);
        assert!(unpacked(&["bridge"], &whole[..whole.len() / 2]).is_err());
    }

    #[test]
    fn endless_zeroes_come_to_an_end() {
        let mut limited = Limited { inner: io::repeat(0), left: 100_000 };
        let error = io::copy(&mut limited, &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("when it is unpacked"), "{error}");
    }
}

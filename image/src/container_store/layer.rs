//! A layer of an image, as overlayfs wants its directory: what it takes away is a device 0/0 of its name, and a directory that
//! hides the one below says so (kernel documentation, "Overlay Filesystem").

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

use ring::digest::{Context, SHA256};
use tar::{Builder, EntryType, Header};

/// Bytes of one layer, unpacked. The largest images that clusters run have several GB.
const MAX_UNPACKED: u64 = 16 << 30;
/// Files of one layer.
const MAX_ENTRIES: usize = 1_000_000;
/// Bytes of the names and attributes of one file, which are held in memory.
const MAX_NAMES: u64 = 1 << 20;
/// OCI Image Specification, "Image Layer Filesystem Changeset", "Whiteouts".
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Notes of aufs, which are no files.
const NOTES: &[u8] = b".wh..wh.";
/// How archives name extended attributes (the PAX records of GNU tar and star).
const ATTRIBUTE: &str = "SCHILY.xattr.";
/// Of the file system itself: no layer may say so in its own words.
const OF_OVERLAY: [&str; 2] = ["SCHILY.xattr.trusted.overlay.", "SCHILY.xattr.user.overlay."];
const IS_OPAQUE: (&str, &[u8]) = ("SCHILY.xattr.trusted.overlay.opaque", b"y");

/// Directories of a layer and those below it, by path: a layer need not name one that it only goes through.
pub(super) type Directories = BTreeMap<Vec<u8>, Directory>;

/// Owner and permissions of a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Directory {
    mode: u32,
    uid: u64,
    gid: u64,
    mtime: u64,
}

const DEFAULT: Directory = Directory { mode: 0o755, uid: 0, gid: 0, mtime: 0 };

/// A layer that was read once.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// SHA-256 of it, unpacked.
    pub(super) sha256: [u8; 32],
    /// Bytes of its files.
    pub(super) size: u64,
    /// The entry that counts for each path: the last.
    last: HashMap<Vec<u8>, usize>,
    /// Directories that hide what is below them.
    opaque: BTreeSet<Vec<u8>>,
}

impl Survey {
    /// Paths in it.
    pub(super) fn inodes(&self) -> u64 {
        self.last.len() as u64 + 1
    }
}

/// Unpacked, whatever it is packed with.
fn plain<'r>(mut layer: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
    let mut begin = Vec::new();
    layer.by_ref().take(4).read_to_end(&mut begin)?;
    let layer = io::Read::chain(io::Cursor::new(begin.clone()), layer);
    Ok(match begin.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(layer)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::stream::read::Decoder::new(layer)?),
        _ => Box::new(layer),
    })
}

/// Counts and hashes what is read of it.
struct Hashed<R> {
    inner: R,
    context: Context,
    left: u64,
    /// What may still be read before the next file's content, if that is what is read.
    names: Rc<Cell<Option<u64>>>,
}

impl<R: Read> Hashed<R> {
    fn new(inner: R) -> Self {
        Self { inner, context: Context::new(&SHA256), left: MAX_UNPACKED, names: Rc::default() }
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.context.update(buffer.get(..count).unwrap_or_default());
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!("a layer has more than {MAX_UNPACKED} bytes when it is unpacked"))
        })?;
        if let Some(left) = self.names.get() {
            let left = left.checked_sub(count as u64).ok_or_else(|| {
                io::Error::other(format!("a file's names and attributes have more than {MAX_NAMES} bytes"))
            })?;
            self.names.set(Some(left));
        }
        Ok(count)
    }
}

/// The path of an entry, plain: without `./` and slashes at its ends; empty is the root.
fn path_of(entry: &tar::Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    normal(&entry.path_bytes())
}

fn normal(path: &[u8]) -> io::Result<Vec<u8>> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect();
    if names.contains(&&b".."[..]) || path.contains(&0) {
        return Err(io::Error::other(format!("{:?} leads out of the layer", String::from_utf8_lossy(path))));
    }
    Ok(names.join(&b'/'))
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let at = path.iter().rposition(|byte| *byte == b'/');
    at.map_or((&b""[..], path), |at| (path.get(..at).unwrap_or_default(), path.get(at + 1..).unwrap_or_default()))
}

/// Gives every entry of a layer, and reads it to its end.
fn each<R: Read>(
    layer: Hashed<R>,
    mut take: impl FnMut(usize, &mut tar::Entry<'_, Hashed<R>>) -> io::Result<()>,
) -> io::Result<[u8; 32]> {
    let names = layer.names.clone();
    let mut archive = tar::Archive::new(layer);
    let mut entries = archive.entries()?;
    for index in 0..=MAX_ENTRIES {
        // Between two files there is nothing but names and attributes, which the reader of archives holds in memory.
        names.set(Some(MAX_NAMES));
        let entry = entries.next();
        names.set(None);
        let Some(entry) = entry else { return finished(archive) };
        let mut entry = entry?;
        if entry.size() > MAX_UNPACKED {
            return Err(io::Error::other(format!("a file has more than {MAX_UNPACKED} bytes")));
        }
        take(index, &mut entry)?;
        io::copy(&mut entry, &mut io::sink())?;
    }
    Err(io::Error::other(format!("a layer has more than {MAX_ENTRIES} files")))
}

/// Reads a layer to its end.
pub(super) fn survey(layer: impl Read) -> io::Result<Survey> {
    let mut survey = Survey::default();
    survey.sha256 = each(Hashed::new(plain(layer)?), |index, entry| {
        let path = path_of(entry)?;
        let (directory, name) = split(&path);
        if name == OPAQUE {
            survey.opaque.insert(directory.to_vec());
        } else if name.strip_prefix(WHITEOUT).is_some_and(|gone| matches!(gone, b"" | b"." | b"..")) {
            let what = format!("{:?} takes away what is no file's name", String::from_utf8_lossy(&path));
            return Err(io::Error::other(what));
        } else {
            survey.size = survey.size.saturating_add(entry.size());
            survey.last.insert(path, index);
        }
        Ok(())
    })?;
    let replaced = survey.last.keys().filter_map(|path| {
        let (directory, name) = split(path);
        Some(join(directory, name.strip_prefix(WHITEOUT)?)).filter(|path| survey.last.contains_key(path))
    });
    let replaced: Vec<_> = replaced.collect();
    survey.opaque.extend(replaced);
    Ok(survey)
}

/// Adds the layer to an archive, below `to`. `directories` are those of the layers below; afterwards with its own.
pub(super) fn add<W: Write>(
    layer: impl Read,
    survey: &Survey,
    directories: &mut Directories,
    (out, to): (&mut Builder<W>, &str),
) -> io::Result<()> {
    let mut adding = Adding { survey, directories, out, to, there: BTreeSet::new() };
    let sha256 = each(Hashed::new(plain(layer)?), |index, entry| {
        let path = path_of(entry)?;
        if survey.last.get(&path) == Some(&index) {
            adding.entry(&path, entry)?;
        }
        Ok(())
    })?;
    // The root of a layer that has nothing in it.
    adding.directory(b"", Vec::new())?;
    if sha256 == survey.sha256 { Ok(()) } else { Err(io::Error::other("it changed while it was read")) }
}

/// Reads what is behind the end of an archive, and says what all of it hashes to.
fn finished(archive: tar::Archive<Hashed<impl Read>>) -> io::Result<[u8; 32]> {
    let mut hashed = archive.into_inner();
    io::copy(&mut hashed, &mut io::sink())?;
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(hashed.context.finish().as_ref());
    Ok(sha256)
}

/// Extended attributes: names as archives have them, and values.
type Attributes = Vec<(String, Vec<u8>)>;

fn attributes(entry: &mut tar::Entry<'_, impl Read>) -> io::Result<Attributes> {
    let mut all = Attributes::new();
    let Some(extensions) = entry.pax_extensions()? else { return Ok(all) };
    for extension in extensions {
        let extension = extension?;
        let Ok(key) = extension.key() else { continue };
        if key.starts_with(ATTRIBUTE) && !OF_OVERLAY.iter().any(|own| key.starts_with(own)) {
            all.push((key.to_owned(), extension.value_bytes().to_vec()));
        }
    }
    Ok(all)
}

struct Adding<'a, W: Write> {
    survey: &'a Survey,
    directories: &'a mut Directories,
    out: &'a mut Builder<W>,
    to: &'a str,
    /// Directories that are written.
    there: BTreeSet<Vec<u8>>,
}

impl<W: Write> Adding<'_, W> {
    fn entry(&mut self, path: &[u8], entry: &mut tar::Entry<'_, impl Read>) -> io::Result<()> {
        let (parent, name) = split(path);
        if name.starts_with(NOTES) {
            return Ok(());
        }
        let from = entry.header().clone();
        let mut header = Header::new_gnu();
        header.set_mode(from.mode()? & 0o7777);
        header.set_uid(from.uid()?);
        header.set_gid(from.gid()?);
        header.set_mtime(from.mtime()?);
        header.set_size(0);
        let kind = from.entry_type();
        if kind.is_dir() {
            let own =
                Directory { mode: from.mode()? & 0o7777, uid: from.uid()?, gid: from.gid()?, mtime: from.mtime()? };
            self.directories.insert(path.to_vec(), own);
            let attributes = attributes(entry)?;
            return self.directory(path, attributes);
        }
        self.directory(parent, Vec::new())?;
        if let Some(gone) = name.strip_prefix(WHITEOUT) {
            // Something else has taken its place.
            if self.survey.last.contains_key(&join(parent, gone)) {
                return Ok(());
            }
            header.set_entry_type(EntryType::Char);
            header.set_device_major(0)?;
            header.set_device_minor(0)?;
            return self.put(&mut header, &join(parent, gone), io::empty());
        }
        self.extend(&attributes(entry)?)?;
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(entry.size());
                self.put(&mut header, path, entry)
            }
            EntryType::Symlink | EntryType::Link => {
                header.set_entry_type(kind);
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let target = if kind == EntryType::Link { self.linked(&target)? } else { target };
                let place = self.place(path);
                self.out.append_link(&mut header, Path::new(OsStr::from_bytes(&place)), OsStr::from_bytes(&target))
            }
            EntryType::Char | EntryType::Block => {
                header.set_entry_type(kind);
                header.set_device_major(from.device_major()?.unwrap_or_default())?;
                header.set_device_minor(from.device_minor()?.unwrap_or_default())?;
                self.put(&mut header, path, io::empty())
            }
            EntryType::Fifo => {
                header.set_entry_type(kind);
                self.put(&mut header, path, io::empty())
            }
            other => Err(io::Error::other(format!("{:?} is of the kind {other:?}", String::from_utf8_lossy(path)))),
        }
    }

    /// Another name of a file of the same layer.
    fn linked(&self, target: &[u8]) -> io::Result<Vec<u8>> {
        let target = normal(target)?;
        if self.survey.last.contains_key(&target) {
            return Ok(self.place(&target));
        }
        let shown = String::from_utf8_lossy(&target);
        Err(io::Error::other(format!("a hard link leads to {shown:?}, which is not in the same layer")))
    }

    /// Writes a directory, and before it those that it is in, unless they are there.
    fn directory(&mut self, path: &[u8], mut attributes: Attributes) -> io::Result<()> {
        if self.there.contains(path) {
            return Ok(());
        }
        if !path.is_empty() {
            let parent = split(path).0.to_vec();
            self.directory(&parent, Vec::new())?;
        }
        self.there.insert(path.to_vec());
        let own = *self.directories.entry(path.to_vec()).or_insert(DEFAULT);
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(own.mode);
        header.set_uid(own.uid);
        header.set_gid(own.gid);
        header.set_mtime(own.mtime);
        header.set_size(0);
        if self.survey.opaque.contains(path) {
            attributes.push((IS_OPAQUE.0.to_owned(), IS_OPAQUE.1.to_vec()));
        }
        self.extend(&attributes)?;
        let place = [self.place(path), b"/".to_vec()].concat();
        self.out.append_data(&mut header, Path::new(OsStr::from_bytes(&place)), io::empty())
    }

    /// Says attributes of what follows.
    fn extend(&mut self, attributes: &Attributes) -> io::Result<()> {
        if attributes.is_empty() {
            return Ok(());
        }
        self.out.append_pax_extensions(attributes.iter().map(|(key, value)| (key.as_str(), value.as_slice())))
    }

    fn put(&mut self, header: &mut Header, path: &[u8], content: impl Read) -> io::Result<()> {
        let place = self.place(path);
        self.out.append_data(header, Path::new(OsStr::from_bytes(&place)), content)
    }

    fn place(&self, path: &[u8]) -> Vec<u8> {
        join(self.to.as_bytes(), path)
    }
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match (directory.is_empty(), name.is_empty()) {
        (true, _) => name.to_vec(),
        (_, true) => directory.to_vec(),
        _ => [directory, b"/", name].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(builder: &mut Builder<Vec<u8>>, path: &str) {
        let mut header = Header::new_gnu();
        header.set_size(4);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, &b"file"[..]).unwrap();
    }

    fn refused(layer: Builder<Vec<u8>>) -> String {
        survey(&*layer.into_inner().unwrap()).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn names_and_attributes_of_a_file_do_not_fill_the_memory() {
        let mut layer = Builder::new(Vec::new());
        layer.append_pax_extensions([("SCHILY.xattr.user.x", &vec![b'x'; 2 << 20][..])]).unwrap();
        file(&mut layer, "a");
        assert!(refused(layer).contains("names and attributes"));
        let mut layer = Builder::new(Vec::new());
        file(&mut layer, &"n".repeat(2 << 20));
        assert!(refused(layer).contains("names and attributes"));
        // What honest archives have, between files that are longer than that.
        let mut layer = Builder::new(Vec::new());
        for name in ["a", "b"] {
            layer.append_pax_extensions([("SCHILY.xattr.user.x", &vec![b'x'; 60_000][..])]).unwrap();
            let mut header = Header::new_gnu();
            header.set_size(3 << 20);
            layer.append_data(&mut header, name, &vec![0; 3 << 20][..]).unwrap();
        }
        assert_eq!(survey(&*layer.into_inner().unwrap()).unwrap().size, 6 << 20);
    }

    #[test]
    fn what_takes_away_more_than_a_file_is_refused() {
        for name in ["a/.wh.", "a/.wh..", "a/.wh...", ".wh..."] {
            let mut layer = Builder::new(Vec::new());
            file(&mut layer, name);
            assert!(refused(layer).contains("no file's name"), "{name}");
        }
    }
}

//! A layer of an image, as overlayfs wants its directory: what it takes away is a device 0/0 of its name, and a directory that
//! hides the one below says so (kernel documentation, "Overlay Filesystem").

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ring::digest::{Context, SHA256};
use tar::{Builder, EntryType, Header};

/// Bytes of one layer, unpacked. The largest images that clusters run have several GB.
const MAX_UNPACKED: u64 = 16 << 30;
/// Files of one layer.
const MAX_ENTRIES: usize = 1_000_000;
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
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.context.update(buffer.get(..count).unwrap_or_default());
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!("a layer has more than {MAX_UNPACKED} bytes when it is unpacked"))
        })?;
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

/// Reads a layer to its end.
pub(super) fn survey(layer: impl Read) -> io::Result<Survey> {
    let hashed = Hashed { inner: plain(layer)?, context: Context::new(&SHA256), left: MAX_UNPACKED };
    let mut archive = tar::Archive::new(hashed);
    let mut survey = Survey::default();
    for (index, entry) in archive.entries()?.enumerate() {
        let entry = entry?;
        if index >= MAX_ENTRIES {
            return Err(io::Error::other(format!("a layer has more than {MAX_ENTRIES} files")));
        }
        let path = path_of(&entry)?;
        let (directory, name) = split(&path);
        if name == OPAQUE {
            survey.opaque.insert(directory.to_vec());
        } else {
            survey.size += entry.size();
            survey.last.insert(path, index);
        }
    }
    let replaced = survey.last.keys().filter_map(|path| {
        let (directory, name) = split(path);
        Some(join(directory, name.strip_prefix(WHITEOUT)?)).filter(|path| survey.last.contains_key(path))
    });
    let replaced: Vec<_> = replaced.collect();
    survey.opaque.extend(replaced);
    survey.sha256 = finished(archive)?;
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
    let mut archive =
        tar::Archive::new(Hashed { inner: plain(layer)?, context: Context::new(&SHA256), left: MAX_UNPACKED });
    for (index, entry) in archive.entries()?.enumerate() {
        let mut entry = entry?;
        let path = path_of(&entry)?;
        if survey.last.get(&path) == Some(&index) {
            adding.entry(&path, &mut entry)?;
        }
    }
    // The root of a layer that has nothing in it.
    adding.directory(b"", Vec::new())?;
    if finished(archive)? == survey.sha256 { Ok(()) } else { Err(io::Error::other("it changed while it was read")) }
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

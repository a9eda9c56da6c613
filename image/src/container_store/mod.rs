//! Container images in an image: unpacked, in a file system of their own that nobody writes to, with what containerd notes of
//! images that it has unpacked. A machine copies the notes and links the layers, so nothing is imported when it boots.
//!
//! | in the file system | what |
//! |---|---|
//! | `io.containerd.metadata.v1.bolt/meta.db` | which images, manifests, configurations and snapshots there are |
//! | `io.containerd.content.v1.content/blobs` | manifests and configurations; layers are not needed any more |
//! | `io.containerd.snapshotter.v1.overlayfs` | `metadata.db`, and a directory for each layer |
//!
//! containerd itself would have to run where an image is built, with privileges, and its databases would be other bytes each
//! time: so they are written here. Owners, permissions, devices and extended attributes are those of the layers; times are the
//! build's.

mod bolt;
mod containerd;
mod error;
pub(crate) mod image;
mod layer;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use latchkey_kubernetes::{Reference, Sha256};
use tar::{Builder, EntryType, Header};

use self::containerd::Snapshot;
pub use self::error::ContainerStoreError;
use self::error::at;
use self::image::{Image, digest};
use self::layer::Directories;
use crate::parts::hash_of_file;
use crate::program::Program;

const SNAPSHOTS: &str = "io.containerd.snapshotter.v1.overlayfs/snapshots";
const SNAPSHOTTER: &str = "io.containerd.snapshotter.v1.overlayfs/metadata.db";
const METADATA: &str = "io.containerd.metadata.v1.bolt/meta.db";
const BLOBS: &str = "io.containerd.content.v1.content/blobs/sha256";
/// What it is made of, on the way.
const ARCHIVE: &str = "containers.tar";
/// Those that hold the above: mksquashfs would give one that an archive does not name the owner of whoever runs it.
const DIRECTORIES: [&str; 6] = [
    "io.containerd.metadata.v1.bolt",
    "io.containerd.snapshotter.v1.overlayfs",
    "io.containerd.snapshotter.v1.overlayfs/snapshots",
    "io.containerd.content.v1.content",
    "io.containerd.content.v1.content/blobs",
    "io.containerd.content.v1.content/blobs/sha256",
];

/// A file system with container images.
#[derive(Debug)]
pub(crate) struct ContainerStore {
    /// The squashfs.
    pub(crate) file: PathBuf,
    /// Its bytes.
    pub(crate) size: u64,
    /// SHA-256 of what it is made of, in hexadecimal digits: what a machine knows another one by.
    pub(crate) id: String,
}

/// An image that is wanted, and the archive that it is in.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// What it will be called.
    pub(crate) reference: Reference,
    /// What its manifest, or its list of manifests, hashes to, where that is known before.
    pub(crate) digest: Option<Sha256>,
    /// Its archive.
    pub(crate) archive: PathBuf,
}

/// Makes one of these images in the directory `shed`, which is there. `made` is when they came, as containerd shows it.
pub(crate) fn make(images: &[Wanted], shed: &Path, made: u32) -> Result<ContainerStore, ContainerStoreError> {
    let images = images.iter().map(Image::read).collect::<Result<Vec<_>, _>>()?;
    let archive = shed.join(ARCHIVE);
    let out = BufWriter::new(File::create_new(&archive).map_err(at(&archive))?);
    let mut making = Making { out: Builder::new(out), snapshots: Vec::new(), known: HashMap::new() };
    for path in DIRECTORIES {
        making.directory(path).map_err(at(&archive))?;
    }
    for image in &images {
        making.layers(image)?;
    }
    making.notes(&images, made).map_err(at(&archive))?;
    drop(making);
    let id = hash_of_file(&archive).map_err(|error| at(&archive)(io::Error::other(error.to_string())))?;
    let file = shed.join("containers.squashfs");
    squashfs(&archive, &file, made)?;
    fs::remove_file(&archive).map_err(at(&archive))?;
    let size = fs::metadata(&file).map_err(at(&file))?.len();
    Ok(ContainerStore { file, size, id: hex::encode(id) })
}

struct Making {
    out: Builder<BufWriter<File>>,
    snapshots: Vec<Snapshot>,
    /// By chain: which snapshot, and the directories that can be seen in it. Images share what is below.
    known: HashMap<String, (usize, Directories)>,
}

impl Making {
    fn layers(&mut self, image: &Image) -> Result<(), ContainerStoreError> {
        let of_image = |error: io::Error| ContainerStoreError::Archive {
            path: image.path().into(),
            why: format!("a layer: {error}"),
        };
        let mut below: Option<(usize, Directories)> = None;
        for (index, chain) in image.chains().into_iter().enumerate() {
            if let Some(known) = self.known.get(&chain) {
                below = Some(known.clone());
                continue;
            }
            let survey = layer::survey(image.layer(index)?).map_err(of_image)?;
            let (expected, got) = (image.diff_id(index).to_owned(), format!("sha256:{}", hex::encode(survey.sha256)));
            if expected != got {
                let what = format!("layer {}, unpacked,", index + 1);
                return Err(ContainerStoreError::Differs { path: image.path().into(), what, expected, got });
            }
            let (parent, mut directories) = below.map_or((None, Directories::new()), |(at, all)| (Some(at), all));
            let number = self.snapshots.len();
            let snapshot = format!("{SNAPSHOTS}/{}", containerd::directory(number));
            self.directory(&snapshot).map_err(of_image)?;
            let to = format!("{snapshot}/fs");
            layer::add(image.layer(index)?, &survey, &mut directories, (&mut self.out, &to)).map_err(of_image)?;
            let (size, inodes) = (survey.size, survey.inodes());
            self.snapshots.push(Snapshot { chain: chain.clone(), parent, size, inodes });
            self.known.insert(chain, (number, directories.clone()));
            below = Some((number, directories));
        }
        Ok(())
    }

    /// What containerd notes of all this.
    fn notes(&mut self, images: &[Image], made: u32) -> io::Result<()> {
        self.file(METADATA, &containerd::metadata(images, &self.snapshots, made))?;
        self.file(SNAPSHOTTER, &containerd::snapshotter(&self.snapshots, made))?;
        let mut blobs: HashMap<String, &[u8]> = HashMap::new();
        for image in images {
            for blob in [&image.manifest, &image.config] {
                blobs.insert(digest(blob).trim_start_matches("sha256:").to_owned(), blob);
            }
        }
        let mut blobs: Vec<_> = blobs.into_iter().collect();
        blobs.sort_unstable();
        for (name, blob) in blobs {
            self.file(&format!("{BLOBS}/{name}"), blob)?;
        }
        io::Write::flush(self.out.get_mut())?;
        self.out.finish()?;
        io::Write::flush(self.out.get_mut())
    }

    fn directory(&mut self, path: &str) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o700);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(0);
        self.out.append_data(&mut header, format!("{path}/"), io::empty())
    }

    fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        self.out.append_data(&mut header, path, content)
    }
}

/// With extended attributes, which the root itself is made without.
fn squashfs(archive: &Path, out: &Path, epoch: u32) -> Result<(), ContainerStoreError> {
    let absolute = std::path::absolute(out).map_err(at(out))?;
    let mut arguments: Vec<OsString> = vec!["-".into(), absolute.into()];
    let epoch = epoch.to_string();
    let words = ["-tar", "-noappend", "-exit-on-error", "-quiet", "-no-progress"];
    arguments.extend(words.map(OsString::from));
    // All times, since that of the top is always the day's otherwise (mksquashfs 4.5 with an archive).
    arguments.extend(["-mkfs-time", &epoch, "-all-time", &epoch].map(OsString::from));
    arguments.extend(["-root-mode", "755", "-root-uid", "0", "-root-gid", "0"].map(OsString::from));
    arguments.extend(["-comp", "zstd", "-Xcompression-level", crate::root::ZSTD_LEVEL].map(OsString::from));
    let mut input = File::open(archive).map_err(at(archive))?;
    Ok(Program::Mksquashfs.run(arguments, Some(&mut input))?)
}

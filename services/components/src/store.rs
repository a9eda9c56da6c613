//! Where components lie on the state disk.
//!
//! ```text
//! /var/lib/latchkey/components/          the store
//!     lock
//!     HASH/                              of the list
//!         list.json
//!         images                         container images, one a line: FILE REFERENCE of a download, - REFERENCE DIGEST of others
//!         downloads/kubelet-1.34.4 …     as the list names them, each with its hash
//!         programs/kubelet …             links to them, and what comes out of archives
//! /run/latchkey-components ─▶ HASH/programs    in memory: made in each boot, when all is right
//! ```
//!
//! Nothing of this is believed: what a file hashes to is asked of the list, or of an archive that the list has a hash of. A file that
//! is not right is got, or unpacked, again; so a run that was cut at any point, a disk that lost something and a first run are one case.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use latchkey_durable_file::{Directory, Existing, place, put};
use latchkey_kubernetes::fetch::{Content, Fetcher, Limits, Origin, contents, is_lost, is_right, unpack};
use latchkey_kubernetes::{Component, ComponentList, Download, Install, Role, Roles, Sha256};
use ring::digest::{Context, SHA256};

use crate::error::{ComponentsError, at};

/// More than any list has.
const MAX_LIST: u64 = 1 << 20;
const LIST: &str = "list.json";
const IMAGES: &str = "images";

/// A store of components, and where programs are found once they are verified.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    link: PathBuf,
    limits: Limits,
}

/// What becomes of what other lists name, once a list is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// The node has no use for it any more.
    Removed,
    /// The node was to go there, and tries again.
    Kept,
}

impl Store {
    /// A store in this directory; `link` will lead to its programs.
    pub fn new(directory: impl Into<PathBuf>, link: impl Into<PathBuf>, limits: Limits) -> Self {
        Self { directory: directory.into(), link: link.into(), limits }
    }

    /// Gets what the list names for a node of this role, and puts it in place. The list is kept for later boots, and so are others:
    /// which of them counts then, the node has yet to note.
    pub fn fetch(&self, list: &[u8], role: Role, say: &mut dyn FnMut(&str)) -> Result<(), ComponentsError> {
        self.install(list, &ComponentList::parse(list)?, role, say)
    }

    /// The same, with the list of an earlier run, which must hash to this.
    pub fn verify(
        &self,
        expected: Sha256,
        role: Role,
        others: Others,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), ComponentsError> {
        let path = self.directory.join(expected.to_string()).join(LIST);
        let mut text = Vec::new();
        let read = |file: File| file.take(MAX_LIST).read_to_end(&mut text);
        match File::open(&path).and_then(read) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ComponentsError::NoList(path)),
            Err(error) => return Err(at(&path)(error)),
        }
        let found = Sha256::of(&text);
        if found != expected {
            return Err(ComponentsError::ListChanged { path, found, expected });
        }
        self.install(&text, &ComponentList::parse(&text)?, role, say)?;
        if others == Others::Kept {
            return Ok(());
        }
        let _lock = self.lock()?;
        remove_others(&self.directory, &BTreeSet::from([OsString::from("lock"), OsString::from(expected.to_string())]))
    }

    fn install(
        &self,
        text: &[u8],
        list: &ComponentList,
        role: Role,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), ComponentsError> {
        let home = self.directory.join(list.sha256().to_string());
        let (downloads, programs) = (home.join("downloads"), home.join("programs"));
        for directory in [&downloads, &programs] {
            fs::create_dir_all(directory).map_err(at(directory))?;
        }
        let _lock = self.lock()?;
        let roles = Roles::from(role);
        let (mut names, mut files) = (BTreeSet::new(), BTreeSet::new());
        let mut source = Source { list, limits: self.limits, fetcher: None };
        for component in list.release().components(&roles) {
            let file = source.get(&component.download(), &downloads, say)?;
            files.extend(file.file_name().map(ToOwned::to_owned));
            match component.install() {
                Install::File(to) => {
                    names.insert(OsString::from(to.name()));
                    link_program(&file, &programs.join(to.name()))?;
                }
                Install::TarGz(members) => {
                    let wanted = contents(members, &file)?;
                    names.extend(wanted.iter().map(|one| OsString::from(one.to.name())));
                    take_out(component, &file, &wanted, &home, say)?;
                }
            }
        }
        // Whoever runs them is given them by name (an image's `component-images`), which pulls those without an archive by digest.
        let mut images = Vec::new();
        for image in list.release().images(&roles) {
            if let Some(download) = image.download() {
                files.extend(source.get(&download, &downloads, say)?.file_name().map(ToOwned::to_owned));
                images.push(format!("{} {}\n", download.file, image.reference()));
            } else if let Some(digest) = image.digest() {
                images.push(format!("- {} sha256:{digest}\n", image.reference()));
            }
        }
        remove_others(&programs, &names)?;
        remove_others(&downloads, &files)?;
        sync(&programs)?;
        write(&home, IMAGES, images.concat().as_bytes())?;
        write(&home, LIST, text)?;
        sync(&self.directory)?;
        self.publish(&programs)?;
        say(&format!("Kubernetes {}: every component is verified", list.release().version()));
        Ok(())
    }

    fn lock(&self) -> Result<File, ComponentsError> {
        let path = self.directory.join("lock");
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(at(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(ComponentsError::Busy(self.directory.clone())),
            Err(TryLockError::Error(error)) => Err(at(&path)(error)),
        }
    }

    /// From here on the programs are found.
    fn publish(&self, programs: &Path) -> Result<(), ComponentsError> {
        let mut new = self.link.clone().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        let publish = || {
            if let Some(directory) = self.link.parent() {
                fs::create_dir_all(directory)?;
            }
            remove(&new)?;
            symlink(programs, &new)?;
            fs::rename(&new, &self.link)
        };
        publish().map_err(at(&self.link))
    }
}

/// Where files come from; asked only for what is not there.
struct Source<'a> {
    list: &'a ComponentList,
    limits: Limits,
    fetcher: Option<Fetcher>,
}

impl Source<'_> {
    fn get(&mut self, wanted: &Download, into: &Path, say: &mut dyn FnMut(&str)) -> Result<PathBuf, ComponentsError> {
        let path = into.join(&wanted.file);
        plain_or_none(&path)?;
        if is_right(&path, wanted)? {
            return Ok(path);
        }
        let fetcher = if let Some(fetcher) = self.fetcher.take() {
            fetcher
        } else {
            let mirror = self.list.mirror().map(|address| Origin::Mirror(address.to_owned()));
            Fetcher::new(mirror.unwrap_or(Origin::Official), self.limits)?
        };
        say(&format!("getting {}", wanted.file));
        let got = self.fetcher.insert(fetcher).fetch(wanted, into, &mut |_| ());
        Ok(got?.path)
    }
}

/// A component that is one file, which has just been held against its hash.
fn link_program(file: &Path, program: &Path) -> Result<(), ComponentsError> {
    let place = || {
        let found = fs::symlink_metadata(file)?;
        let same = fs::symlink_metadata(program).is_ok_and(|now| (now.dev(), now.ino()) == (found.dev(), found.ino()));
        if !same {
            remove(program)?;
            fs::hard_link(file, program)?;
        }
        fs::set_permissions(program, Permissions::from_mode(0o755))
    };
    place().map_err(at(program))
}

/// What comes out of an archive, which has just been held against its hash.
fn take_out(
    component: &Component,
    archive: &Path,
    wanted: &[Content],
    home: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), ComponentsError> {
    let programs = home.join("programs");
    let mut whole = true;
    for one in wanted {
        whole &= is_content(&programs.join(one.to.name()), one)?;
    }
    if whole {
        return Ok(());
    }
    say(&format!("unpacking {}", component.download().file));
    let unpacked = home.join("unpacked");
    remove(&unpacked).and_then(|()| fs::create_dir(&unpacked)).map_err(at(&unpacked))?;
    for one in unpack(component, archive, &unpacked)? {
        let program = programs.join(one.to.name());
        let placed = || {
            let file = File::open(&one.path)?;
            file.set_permissions(Permissions::from_mode(0o755))?;
            if fs::symlink_metadata(&program).is_ok_and(|there| there.is_dir()) {
                fs::remove_dir_all(&program)?;
            }
            place(&one.path, &program)
        };
        placed().map_err(at(&program))?;
    }
    remove(&unpacked).map_err(at(&unpacked))
}

/// Whether the file there is this one, and may be executed.
fn is_content(path: &Path, wanted: &Content) -> Result<bool, ComponentsError> {
    let right = || {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if !found.is_file() || found.len() != wanted.size || found.mode() & 0o7777 != 0o755 {
            return Ok(false);
        }
        let mut file = File::open(path)?.take(wanted.size);
        let (mut hashed, mut chunk) = (Context::new(&SHA256), vec![0; 64 * 1024]);
        loop {
            match file.read(&mut chunk)? {
                0 => break,
                count => hashed.update(chunk.get(..count).unwrap_or_default()),
            }
        }
        Ok(hashed.finish().as_ref() == wanted.sha256.0)
    };
    match right() {
        Err(error) if is_lost(&error) => Ok(false),
        found => found.map_err(at(path)),
    }
}

/// A link or a directory in the place of a file is not followed, but removed.
fn plain_or_none(path: &Path) -> Result<(), ComponentsError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => remove(path).map_err(at(path)),
        _ => Ok(()),
    }
}

/// Removes whatever is there.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Removes everything that has none of these names.
fn remove_others(directory: &Path, names: &BTreeSet<OsString>) -> Result<(), ComponentsError> {
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let entry = entry.map_err(at(directory))?;
        if !names.contains(&entry.file_name()) {
            remove(&entry.path()).map_err(at(&entry.path()))?;
        }
    }
    Ok(())
}

/// Writes a file; a crash leaves the old one or the new one.
fn write(directory: &Path, name: &str, text: &[u8]) -> Result<(), ComponentsError> {
    let path = directory.join(name);
    let written = || {
        if fs::symlink_metadata(&path).is_ok_and(|there| there.is_dir()) {
            fs::remove_dir_all(&path)?;
        }
        put(&path, 0o644, text, Existing::Replace)
    };
    written().map_err(at(&path))
}

fn sync(directory: &Path) -> Result<(), ComponentsError> {
    Directory::open(directory).and_then(|opened| opened.sync()).map_err(at(directory))
}

//! What a build makes, told as it is made; and where it lies until all of it is finished.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use latchkey_attestation::ImageVersion;
use ring::digest::{Context, SHA256};

use crate::error::{ImageError, at};
use crate::publish::HandOut;

/// A file name with a version and an ending must stay below 255 bytes.
const MAX_NAME: usize = 64;

/// How a build goes.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Work on a part begins.
    Begins(&'static str),
    /// A part is finished.
    Done(&'a Part),
}

/// Something that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub what: &'static str,
    /// The name of its file, if it is one and not only inside another.
    pub file: Option<String>,
    /// Bytes.
    pub size: u64,
    /// SHA-256.
    pub sha256: [u8; 32],
}

/// Unfinished files, in a directory that goes away with them.
pub(crate) struct StagingDir<'a> {
    out: &'a Path,
    path: PathBuf,
    stem: String,
    parts: Vec<Part>,
    progress: &'a mut dyn FnMut(Progress<'_>),
}

impl<'a> StagingDir<'a> {
    /// Opens it below `out`, for files called `NAME_VERSION` and an ending.
    pub(crate) fn new(
        out: &'a Path,
        name: &str,
        version: ImageVersion,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, ImageError> {
        let stem = format!("{name}_{version}");
        fs::create_dir_all(out).map_err(at(out))?;
        let path = out.join(format!(".{stem}.{}.unfinished", std::process::id()));
        fs::create_dir(&path).map_err(at(&path))?;
        Ok(Self { out, path, stem, parts: Vec::new(), progress })
    }

    pub(crate) fn begins(&mut self, what: &'static str) {
        (self.progress)(Progress::Begins(what));
    }

    /// A place for something that others make.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// `NAME_VERSION.ENDING`
    pub(crate) fn named(&self, ending: &str) -> String {
        format!("{}.{ending}", self.stem)
    }

    /// A part that ends up inside another.
    pub(crate) fn inner(&mut self, what: &'static str, bytes: &[u8]) {
        let mut context = Context::new(&SHA256);
        context.update(bytes);
        self.add(what, None, bytes.len() as u64, context);
    }

    /// The same, which lies at this place.
    pub(crate) fn inner_file(&mut self, what: &'static str, path: &Path) -> Result<(), ImageError> {
        let (size, context) = hash_file(path).map_err(at(path))?;
        self.add(what, None, size, context);
        Ok(())
    }

    /// A part that is handed out under this name; it lies at the place of the same name.
    pub(crate) fn outer_file(&mut self, what: &'static str, name: String) -> Result<(), ImageError> {
        let path = self.place(&name);
        let (size, context) = hash_file(&path).map_err(at(path))?;
        self.add(what, Some(name), size, context);
        Ok(())
    }

    /// The same, from bytes.
    pub(crate) fn outer(&mut self, what: &'static str, name: String, bytes: &[u8]) -> Result<(), ImageError> {
        let path = self.place(&name);
        File::create_new(&path).and_then(|mut file| file.write_all(bytes)).map_err(at(path))?;
        self.outer_file(what, name)
    }

    /// What is handed out, by name, with its hash.
    pub(crate) fn products(&self) -> impl Iterator<Item = (&str, [u8; 32])> {
        self.parts.iter().filter_map(|part| Some((part.file.as_deref()?, part.sha256)))
    }

    /// Moves everything to where it is handed out, which replaces what has these names there, and removes what an earlier
    /// build of the same image made and this one did not.
    pub(crate) fn publish(mut self) -> Result<Vec<Part>, ImageError> {
        let names: Vec<&str> = self.parts.iter().filter_map(|part| part.file.as_deref()).collect();
        HandOut { from: &self.path, to: self.out, stem: &self.stem, names: &names }.run()?;
        Ok(std::mem::take(&mut self.parts))
    }

    fn add(&mut self, what: &'static str, file: Option<String>, size: u64, context: Context) {
        let part = Part { what, file, size, sha256: finished(context) };
        (self.progress)(Progress::Done(&part));
        self.parts.push(part);
    }
}

impl Drop for StagingDir<'_> {
    fn drop(&mut self) {
        // What cannot be removed is named as what it is.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// Whether a name can stand in file names, manifests and os-release.
pub(crate) fn check_name(name: &str) -> Result<(), ImageError> {
    let start = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let allowed = |byte: u8| start(byte) || matches!(byte, b'-' | b'_' | b'.');
    let good = name.len() <= MAX_NAME && name.bytes().next().is_some_and(start) && name.bytes().all(allowed);
    if good { Ok(()) } else { Err(ImageError::Name(name.into())) }
}

/// SHA-256 of a file.
pub(crate) fn hash_of_file(path: &Path) -> Result<[u8; 32], ImageError> {
    hash_file(path).map(|(_, context)| finished(context)).map_err(at(path))
}

fn hash_file(path: &Path) -> io::Result<(u64, Context)> {
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut piece = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        let read = file.read(&mut piece)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { return Ok((size, context)) };
        context.update(bytes);
        size += read as u64;
    }
}

fn finished(context: Context) -> [u8; 32] {
    let mut sha256 = [0; 32];
    sha256.copy_from_slice(context.finish().as_ref());
    sha256
}

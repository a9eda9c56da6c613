//! The files of somebody else's chart.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path};

use flate2::read::GzDecoder;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// What the chart must be called.
const NAME: &str = "sealed-secrets";
/// The most files of a chart, and the most bytes of all of them: helm itself takes a megabyte for a release.
const MAX_FILES: usize = 500;
const MAX_BYTES: usize = 4 << 20;
const MAX_DEPTH: usize = 8;

/// The files of the chart of Sealed Secrets, by path within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartFiles {
    files: BTreeMap<String, Vec<u8>>,
    version: String,
}

#[derive(Deserialize)]
struct ChartYaml {
    name: String,
    version: String,
}

#[derive(Default)]
struct Gathered {
    files: BTreeMap<String, Vec<u8>>,
    bytes: usize,
}

impl ChartFiles {
    /// Those of a directory.
    ///
    /// # Errors
    /// A sentence: what is wrong with it.
    pub fn of_directory(path: &Path) -> Result<Self, String> {
        let mut gathered = Gathered::default();
        gathered.walk(path, "", 0)?;
        gathered.finish()
    }

    /// Those of an archive as `helm package` makes it: all in one directory.
    ///
    /// # Errors
    /// A sentence: what is wrong with it.
    pub fn of_archive(bytes: &[u8]) -> Result<Self, String> {
        let mut gathered = Gathered::default();
        // What it unpacks to is bounded before it is looked at, whatever its headers say.
        let unpacked = GzDecoder::new(bytes).take((MAX_BYTES + MAX_FILES * 2048) as u64);
        let mut archive = tar::Archive::new(unpacked);
        for entry in archive.entries().map_err(|error| error.to_string())? {
            let mut entry = entry.map_err(|error| error.to_string())?;
            let kind = entry.header().entry_type();
            if kind.is_dir() || kind.is_pax_global_extensions() {
                continue;
            }
            let path = entry.path().map_err(|error| error.to_string())?.into_owned();
            if !kind.is_file() {
                return Err(format!("{} is no file", path.display()));
            }
            let mut parts = path.components().map(|part| match part {
                Component::Normal(part) => part.to_str(),
                _ => None,
            });
            let first = parts.next().flatten();
            let parts: Option<Vec<&str>> = parts.collect();
            let inner =
                parts.filter(|_| first.is_some()).filter(|parts| !parts.is_empty()).map(|parts| parts.join("/"));
            let inner = inner.ok_or_else(|| format!("{} leads out of the chart", path.display()))?;
            let mut content = Vec::new();
            let room = (MAX_BYTES + 1 - gathered.bytes.min(MAX_BYTES)) as u64;
            entry.by_ref().take(room).read_to_end(&mut content).map_err(|error| error.to_string())?;
            gathered.add(inner, content)?;
        }
        gathered.finish()
    }

    /// The files.
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// The chart's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// SHA-256 over paths and contents, each with its length before it.
    pub(crate) fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        for part in self.files.iter().flat_map(|(path, content)| [path.as_bytes(), content]) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hex::encode(hash.finalize())
    }
}

impl Gathered {
    fn walk(&mut self, directory: &Path, inner: &str, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("{} is nested more than {MAX_DEPTH} deep", directory.display()));
        }
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| format!("{} has a name that is no UTF-8", directory.display()))?;
            let inner = if inner.is_empty() { name.to_owned() } else { format!("{inner}/{name}") };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                self.walk(&entry.path(), &inner, depth + 1)?;
            } else if kind.is_file() {
                let mut content = Vec::new();
                let room = (MAX_BYTES + 1 - self.bytes.min(MAX_BYTES)) as u64;
                let file = fs::File::open(entry.path()).map_err(failed)?;
                file.take(room).read_to_end(&mut content).map_err(failed)?;
                self.add(inner, content)?;
            } else {
                return Err(format!("{} is no file", entry.path().display()));
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, content: Vec<u8>) -> Result<(), String> {
        if !is_path(&path) {
            return Err(format!(
                "{path:?} is no path that is imported: letters, digits, dots, hyphens and underscores make one"
            ));
        }
        self.bytes += content.len();
        if self.bytes > MAX_BYTES {
            return Err(format!("it has more than {MAX_BYTES} bytes"));
        }
        if self.files.contains_key(&path) {
            return Err(format!("it has {path:?} twice"));
        }
        self.files.insert(path, content);
        if self.files.len() > MAX_FILES { Err(format!("it has more than {MAX_FILES} files")) } else { Ok(()) }
    }

    fn finish(self) -> Result<ChartFiles, String> {
        let about = self.files.get("Chart.yaml").ok_or("it has no Chart.yaml")?;
        let about = std::str::from_utf8(about).map_err(|_| "its Chart.yaml is no UTF-8")?;
        let about: ChartYaml = serde_saphyr::from_str(about).map_err(|error| format!("its Chart.yaml: {error}"))?;
        if about.name != NAME {
            return Err(format!("it is the chart {:?}, not {NAME:?}", about.name));
        }
        let of_version = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
        if !(1..=64).contains(&about.version.len()) || !about.version.bytes().all(of_version) {
            return Err(format!("its version is {:?}", about.version));
        }
        Ok(ChartFiles { files: self.files, version: about.version })
    }
}

/// Whether a path is made of names that git and its fast-import read as they stand.
fn is_path(path: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let name =
        |name: &str| !name.is_empty() && name != "." && name != ".." && name != ".git" && name.bytes().all(inner);
    path.len() <= 200 && path.split('/').all(name)
}

//! What a backup is: a directory with one file for each definition, one for each version of its objects, and the list of all of
//! it with their hashes, written last. Without the list it is no backup.
//!
//! ```text
//! 2026-11-22T18-00-00Z_1.34.4/
//!   backup.json                          the list
//!   crds/widgets.example.com.json        a definition
//!   crs/widgets.example.com/v1.jsonl     its objects as version v1 shows them, one a line
//! ```

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use latchkey_kubernetes::Sha256;
use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::object::Object;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;

pub(super) const SCHEMA: u32 = 1;
/// The list's name.
pub(super) const LIST: &str = "backup.json";
const MAX_LIST: usize = 64 << 20;
/// The longest definition, and the longest line: etcd takes 1.5 MiB of one object.
pub(super) const MAX_OBJECT: usize = 8 << 20;

/// The list of what is in a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(super) schema: u32,
    /// When it was made (RFC 3339).
    pub(crate) made: String,
    /// The uid of the namespace `kube-system`: no two clusters have the same.
    pub(super) cluster: String,
    /// What the API server ran.
    pub(crate) kubernetes: String,
    /// The one moment of the cluster that all of it shows.
    pub(super) resource_version: String,
    pub(super) definitions: Vec<Definition>,
}

/// A custom resource definition.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    /// `PLURAL.GROUP`.
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) sha256: Hash,
    /// Every version that is served.
    pub(super) versions: Vec<Version>,
}

/// The objects of a definition, as one of its versions shows them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Version {
    pub(super) name: String,
    /// Whether it is the version in which they are stored: the one that is restored.
    pub(super) stored: bool,
    /// Whether it has a status of its own.
    pub(super) status: bool,
    pub(super) objects: u64,
    pub(super) sha256: Hash,
}

/// A hash as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Hash(pub(super) Sha256);

impl TryFrom<String> for Hash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Sha256::try_from(text).map(Self)
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.0.to_string()
    }
}

/// A backup that is complete: every file was read again, and has the hash and the number of objects that its list says. Only
/// [`Backup::check`] makes one; no upgrade is done without.
#[derive(Clone, Debug)]
pub(crate) struct Backup {
    directory: PathBuf,
    pub(crate) manifest: Manifest,
}

impl Definition {
    pub(super) fn file(&self) -> PathBuf {
        definition_file(&self.name)
    }

    pub(super) fn objects_file(&self, version: &Version) -> PathBuf {
        objects_file(&self.name, &version.name)
    }

    /// The version that is restored: the stored one, or else the first that is served.
    pub(super) fn restored(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.stored).or_else(|| self.versions.first())
    }
}

pub(super) fn definition_file(name: &str) -> PathBuf {
    Path::new("crds").join(format!("{name}.json"))
}

pub(super) fn objects_file(name: &str, version: &str) -> PathBuf {
    Path::new("crs").join(name).join(format!("{version}.jsonl"))
}

impl Manifest {
    pub(crate) fn objects(&self) -> u64 {
        self.definitions.iter().filter_map(Definition::restored).map(|version| version.objects).sum()
    }

    pub(crate) fn definitions(&self) -> usize {
        self.definitions.len()
    }
}

impl Backup {
    /// Reads all of it, and compares it with its list.
    pub(crate) fn check(directory: &Path) -> Result<Self, CommandError> {
        let manifest = read_list(directory)?;
        for definition in &manifest.definitions {
            check_name(directory, &definition.name)?;
            let path = directory.join(definition.file());
            let bytes = files::read(&path, MAX_OBJECT)?;
            if Sha256::of(&bytes) != definition.sha256.0 {
                return Err(damaged(directory, format!("{} is another file than its list says", path.display())));
            }
            for version in &definition.versions {
                check_name(directory, &version.name)?;
                let path = directory.join(definition.objects_file(version));
                let (objects, hash) = count(&path)?;
                if (objects, hash) != (version.objects, version.sha256.0) {
                    let reason = format!(
                        "{} has {objects} objects and hash {hash}, and its list says {} and {}",
                        path.display(),
                        version.objects,
                        version.sha256.0
                    );
                    return Err(damaged(directory, reason));
                }
            }
        }
        Ok(Self { directory: directory.to_owned(), manifest })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The text of a definition.
    pub(super) fn definition(&self, definition: &Definition) -> Result<String, CommandError> {
        let path = self.directory.join(definition.file());
        String::from_utf8(files::read(&path, MAX_OBJECT)?).map_err(|_| damaged(&self.directory, "not UTF-8"))
    }

    /// The objects of a version, one after the other.
    pub(super) fn objects(
        &self,
        definition: &Definition,
        version: &Version,
    ) -> Result<impl Iterator<Item = Result<String, CommandError>>, CommandError> {
        lines(&self.directory.join(definition.objects_file(version)))
    }
}

/// The list alone, without reading what it lists.
pub(super) fn read_list(directory: &Path) -> Result<Manifest, CommandError> {
    let path = directory.join(LIST);
    if !path.exists() {
        return Err(damaged(directory, format!("{LIST} is missing: it was not written to its end, or is no backup")));
    }
    let bytes = files::read(&path, MAX_LIST)?;
    let manifest: Manifest =
        serde_json::from_slice(&bytes).map_err(|error| damaged(directory, format!("{LIST}: {error}")))?;
    if manifest.schema == SCHEMA {
        return Ok(manifest);
    }
    Err(damaged(directory, format!("schema {} is not {SCHEMA}, the one this command knows", manifest.schema)))
}

fn count(path: &Path) -> Result<(u64, Sha256), CommandError> {
    let mut objects = 0;
    let mut digest = Digest::new();
    for line in lines(path)? {
        let line = line?;
        Object::head(&line)?;
        digest.update(line.as_bytes());
        digest.update(b"\n");
        objects += 1;
    }
    Ok((objects, digest.finish()))
}

fn lines(path: &Path) -> Result<impl Iterator<Item = Result<String, CommandError>> + use<>, CommandError> {
    let cannot = {
        let path = path.to_owned();
        move |error: std::io::Error| {
            let what = format!("cannot read {}", path.display());
            CommandError::new(Exit::Usage, CommandCode::FileUnreadable, what).because(error.to_string())
        }
    };
    let mut reader = BufReader::new(File::open(path).map_err(&cannot)?);
    Ok(std::iter::from_fn(move || {
        let mut line = Vec::new();
        match reader.by_ref().take(MAX_OBJECT as u64 + 1).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) if line.last() != Some(&b'\n') => {
                return Some(Err(cannot(std::io::Error::other("it ends within a line, or a line is too long"))));
            }
            Ok(_) => {}
            Err(error) => return Some(Err(cannot(error))),
        }
        line.pop();
        Some(String::from_utf8(line).map_err(|error| cannot(std::io::Error::other(error))))
    }))
}

/// Names become paths: they are what the API server takes as one, and nothing else.
pub(super) fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    (1..=253).contains(&name.len()) && name.chars().all(letter) && !name.starts_with(['.', '-']) && !name.contains("..")
}

fn check_name(directory: &Path, name: &str) -> Result<(), CommandError> {
    if is_name(name) {
        Ok(())
    } else {
        Err(damaged(directory, format!("{name:?} is no name of a definition or version")))
    }
}

fn damaged(directory: &Path, reason: impl AsRef<str>) -> CommandError {
    let what = format!("{} is no complete backup", directory.display());
    CommandError::new(Exit::Usage, CommandCode::BackupDamaged, what).because(reason)
}

//! The version table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::code::KubernetesCode;
use crate::component::{Component, Download, Install, InstallPath};
use crate::hash::Sha256;
use crate::image::Image;
use crate::minor::{Minor, MinorRefusal, Patch};
use crate::role::Roles;

/// The schema that this version reads.
const SCHEMA: u64 = 1;
/// A hundred times the built-in one would be too long.
const MAX_SIZE: usize = 512 * 1024;
/// Most versions, and most components or images of one.
const MOST: usize = 32;
/// Most files that are taken out of one archive.
const MOST_MEMBERS: usize = 64;
/// The largest file: twice what the largest archives of images have.
const MAX_FILE: u64 = 1 << 30;
/// What every release has, in the release's own version.
const OWN: [&str; 2] = ["kubeadm", "kubelet"];
/// The last name of the image that holds a pod's name spaces; the container runtime must be told its name.
const PAUSE: &str = "pause";
const BUILT_IN: &str = include_str!("../versions.json");

/// A version table.
#[derive(Debug, Clone)]
pub struct Table {
    text: Vec<u8>,
    releases: BTreeMap<Minor, Release>,
}

/// What is behind a minor version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The one exact version.
    version: Patch,
    components: Vec<Component>,
    images: Vec<Image>,
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableFile {
    schema: u64,
    #[serde(rename = "architecture")]
    _architecture: Architecture,
    versions: Vec<Release>,
}

/// What the programs run on.
#[derive(Deserialize)]
enum Architecture {
    #[serde(rename = "x86_64")]
    X86_64,
}

/// Why a table is not used.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// It cannot be read.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// It is longer than any table.
    #[error("it has more than {MAX_SIZE} bytes, which no version table has")]
    TooLong,
    /// It is of another version of the schema.
    #[error("schema {0}: this version reads schema {SCHEMA}")]
    Schema(u64),
    /// It is not the JSON it should be.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It has none, or too many.
    #[error("{what}: {count}, and there are 1 to {most}")]
    Count {
        /// Of what.
        what: String,
        /// How many it has.
        count: usize,
        /// How many it may have.
        most: usize,
    },
    /// A minor version stands there twice.
    #[error("{0} is there twice: a minor version has one exact version")]
    MinorTwice(Minor),
    /// Two components or images are the same one.
    #[error("{release}: {what} is there twice")]
    Twice {
        /// The release.
        release: Patch,
        /// The name or path.
        what: String,
    },
    /// A component that every release has is not there.
    #[error("{release}: {name} is not there, in version {release} and for every role")]
    Lacks {
        /// The release.
        release: Patch,
        /// What it lacks.
        name: &'static str,
    },
    /// There is no image that holds a pod's name spaces.
    #[error("{0}: there is no image whose name ends with /pause, which every pod begins with")]
    NoPause(Patch),
    /// An image is pinned by nothing.
    #[error("{release}: {image} has neither \"digest\" nor \"archive\", so anything could stand under its name")]
    Unpinned {
        /// The release.
        release: Patch,
        /// The image.
        image: String,
    },
    /// A size limit is none.
    #[error("{file}: \"max_bytes\" is {max_bytes}, and can be 1 to {MAX_FILE}")]
    Size {
        /// The file.
        file: String,
        /// What the table says.
        max_bytes: u64,
    },
    /// One file name means two files.
    #[error("{0} has two hashes: in folders and on mirrors it is one file")]
    TwoHashes(String),
}

impl TableError {
    /// The stable reason code.
    pub const fn code(&self) -> KubernetesCode {
        match self {
            Self::Io { .. } => KubernetesCode::TableUnreadable,
            _ => KubernetesCode::TableUnusable,
        }
    }
}

/// The part that every version of the schema has.
#[derive(Deserialize)]
struct SchemaOnly {
    schema: u64,
}

impl Table {
    /// The table that is part of this program.
    pub fn built_in() -> Result<Self, TableError> {
        Self::parse(BUILT_IN.as_bytes())
    }

    /// Reads a table from a file.
    pub fn read(path: &Path) -> Result<Self, TableError> {
        let mut text = Vec::new();
        let read = |file: File| file.take(MAX_SIZE as u64 + 1).read_to_end(&mut text);
        File::open(path).and_then(read).map_err(|source| TableError::Io { path: path.into(), source })?;
        Self::parse(&text)
    }

    /// Reads a table.
    pub fn parse(text: &[u8]) -> Result<Self, TableError> {
        if text.len() > MAX_SIZE {
            return Err(TableError::TooLong);
        }
        if let Ok(SchemaOnly { schema }) = serde_json::from_slice(text)
            && schema != SCHEMA
        {
            return Err(TableError::Schema(schema));
        }
        let file: TableFile = serde_json::from_slice(text)?;
        Ok(Self { text: text.to_vec(), releases: file.releases()? })
    }

    /// What the table hashes to.
    pub fn sha256(&self) -> Sha256 {
        Sha256::of(&self.text)
    }

    /// The file, with one version of its.
    pub(crate) fn of_one(&self, minor: Minor) -> Result<Value, TableError> {
        let mut file: Value = serde_json::from_slice(&self.text)?;
        if let Some(versions) = file.get_mut("versions").and_then(Value::as_array_mut) {
            let is_it = |version: &Value| Patch::deserialize(&version["version"]).is_ok_and(|one| one.minor() == minor);
            versions.retain(is_it);
        }
        Ok(file)
    }

    /// Every minor version that it has, the oldest first.
    pub fn minors(&self) -> impl Iterator<Item = Minor> {
        self.releases.keys().copied()
    }

    /// What is behind a minor version.
    pub fn release(&self, minor: Minor) -> Result<&Release, MinorRefusal> {
        let known = || self.minors().collect();
        match self.releases.get(&minor) {
            Some(release) => Ok(release),
            None if self.minors().next().is_some_and(|oldest| minor < oldest) => {
                Err(MinorRefusal::TooOld { minor, known: known() })
            }
            None => Err(MinorRefusal::Unknown { minor, known: known() }),
        }
    }
}

impl TableFile {
    /// Its versions, checked.
    pub(crate) fn releases(self) -> Result<BTreeMap<Minor, Release>, TableError> {
        if self.schema != SCHEMA {
            return Err(TableError::Schema(self.schema));
        }
        count("versions", self.versions.len(), MOST)?;
        let mut releases = BTreeMap::new();
        let mut files = BTreeMap::new();
        for release in self.versions {
            release.check(&mut files)?;
            let minor = release.version.minor();
            if releases.insert(minor, release).is_some() {
                return Err(TableError::MinorTwice(minor));
            }
        }
        Ok(releases)
    }
}

impl Release {
    /// The one exact version.
    pub const fn version(&self) -> Patch {
        self.version
    }

    /// The components of nodes with these roles.
    pub fn components<'a>(&'a self, roles: &'a Roles) -> impl Iterator<Item = &'a Component> {
        self.components.iter().filter(|component| component.roles().meets(roles))
    }

    /// Every path on a node, of all roles.
    pub(crate) fn every_path(&self) -> impl Iterator<Item = &InstallPath> {
        self.components.iter().flat_map(Component::paths)
    }

    /// The images of nodes with these roles.
    pub fn images<'a>(&'a self, roles: &'a Roles) -> impl Iterator<Item = &'a Image> {
        self.images.iter().filter(|image| image.roles().meets(roles))
    }

    /// The image that holds a pod's name spaces.
    pub fn pause(&self) -> Option<&Image> {
        self.images.iter().find(|image| image.name().rsplit('/').next() == Some(PAUSE))
    }

    /// Every file to get for nodes with these roles.
    pub fn downloads(&self, roles: &Roles) -> Vec<Download> {
        let components = self.components(roles).map(Component::download);
        components.chain(self.images(roles).filter_map(Image::download)).collect()
    }

    /// What a single field cannot say. `files` are those of the releases before it.
    fn check(&self, files: &mut BTreeMap<String, Sha256>) -> Result<(), TableError> {
        let release = self.version;
        count(&format!("{release}: components"), self.components.len(), MOST)?;
        count(&format!("{release}: images"), self.images.len(), MOST)?;
        for component in &self.components {
            if let Install::TarGz(members) = component.install() {
                count(&format!("{release}: files of {}", component.name()), members.len(), MOST_MEMBERS)?;
            }
        }
        self.nothing_twice()?;
        let all = Roles::default();
        let own = |component: &Component| {
            component.version() == release.to_string()
                && all.iter().all(|role| component.roles().iter().any(|other| other == role))
        };
        for name in OWN {
            if !self.components.iter().any(|component| component.name() == name && own(component)) {
                return Err(TableError::Lacks { release, name });
            }
        }
        if let Some(image) = self.images.iter().find(|image| !image.is_pinned()) {
            return Err(TableError::Unpinned { release, image: image.reference().to_string() });
        }
        self.pause().ok_or(TableError::NoPause(release))?;
        for Download { file, sha256, max_bytes, .. } in self.downloads(&all) {
            if !(1..=MAX_FILE).contains(&max_bytes) {
                return Err(TableError::Size { file, max_bytes });
            }
            if files.insert(file.clone(), sha256).is_some_and(|other| other != sha256) {
                return Err(TableError::TwoHashes(file));
            }
        }
        Ok(())
    }

    /// Names of components and images, and paths on a node.
    fn nothing_twice(&self) -> Result<(), TableError> {
        let components = self.components.iter().map(|component| component.name().to_owned());
        let images = self.images.iter().map(|image| image.name().to_owned());
        let paths = self.components.iter().flat_map(Component::paths).map(|path| path.as_str().to_owned());
        let members = self.components.iter().flat_map(|component| {
            match component.install() {
                Install::File(_) => [].as_slice(),
                Install::TarGz(members) => members.as_slice(),
            }
            .iter()
            .map(|member| format!("{}: {}", component.name(), member.member))
        });
        let mut seen = BTreeSet::new();
        for what in components.chain(images).chain(paths).chain(members) {
            if !seen.insert(what.clone()) {
                return Err(TableError::Twice { release: self.version, what });
            }
        }
        Ok(())
    }
}

fn count(what: &str, count: usize, most: usize) -> Result<(), TableError> {
    if (1..=most).contains(&count) { Ok(()) } else { Err(TableError::Count { what: what.to_owned(), count, most }) }
}

#[cfg(test)]
mod tests;

//! Writing a backup: one moment of the cluster, page by page, to this machine's disk.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use latchkey_attestation::reference::format_rfc3339;
use latchkey_durable_file::{Directory, Existing, Turn};
use latchkey_kubernetes::Sha256;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::digest::Digest;
use super::manifest::{
    Backup, Definition, Hash, LIST, MAX_OBJECT, Manifest, SCHEMA, Version, definition_file, is_name, objects_file,
};
use super::object::Object;
use crate::clock::now;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::files::{self, Readers, unwritable};
use crate::output::{Output, printable};
use crate::stock::{Conditions, Kubectl, Scope, StockCode, StockError};

/// Where definitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Objects of a page at first; fewer where they are large.
const PAGE: u64 = 250;
/// How much a page may be. One object of a page of one always fits.
const MAX_PAGE: usize = 32 << 20;
const MAX_DEFINITIONS: usize = 5000;
/// How often it is begun anew if the API server has forgotten the moment that is being written.
const TRIES: usize = 3;
/// How many directories of one second there may be.
const SAME_TIME: u32 = 100;

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) metadata: ListMetadata,
    pub(super) items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMetadata {
    pub(super) resource_version: String,
    #[serde(default, rename = "continue")]
    pub(super) next: Option<String>,
    #[serde(default)]
    remaining_item_count: Option<u64>,
}

/// What of a definition is looked at.
#[derive(Deserialize)]
pub(super) struct DefinitionObject {
    pub(super) metadata: super::object::Metadata,
    pub(super) spec: DefinitionSpec,
    #[serde(default)]
    pub(super) status: DefinitionStatus,
}

#[derive(Deserialize)]
pub(super) struct DefinitionSpec {
    pub(super) group: String,
    pub(super) names: Names,
    pub(super) versions: Vec<DefinitionVersion>,
}

#[derive(Deserialize)]
pub(super) struct Names {
    pub(super) plural: String,
    pub(super) kind: String,
}

#[derive(Deserialize)]
pub(super) struct DefinitionVersion {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
    #[serde(default)]
    subresources: Option<Subresources>,
}

#[derive(Deserialize)]
struct Subresources {
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
pub(super) struct DefinitionStatus {
    #[serde(default)]
    conditions: Conditions,
}

impl DefinitionObject {
    fn established(&self) -> bool {
        self.status.conditions.is_true("Established")
    }
}

/// The uid of the cluster: that of the namespace `kube-system`.
pub(super) async fn cluster(kubectl: &Kubectl) -> Result<String, CommandError> {
    let namespace: Option<super::object::Head> = kubectl.get("namespaces", Scope::Cluster, "kube-system").await?;
    namespace
        .map(|namespace| namespace.metadata.uid)
        .ok_or_else(|| CommandError::local(StockCode::ObjectMissing, "the cluster has no namespace kube-system"))
}

/// Writes all custom resource definitions and all their objects below `backups`, and reads them again.
pub(crate) async fn create(kubectl: &Kubectl, backups: &Path, output: &Output) -> Result<Backup, CommandError> {
    files::make_directory(backups)?;
    for _ in 0..TRIES {
        let directory = new_directory(backups, &kubectl.server().to_string())?;
        match (Writer { kubectl, directory: &directory, output }).write().await {
            Ok(()) => return Backup::check(&directory),
            Err(Stopped::Expired) => drop(fs::remove_dir_all(&directory)),
            Err(Stopped::Failed(error)) => {
                // Half of a backup is none, and takes room.
                drop(fs::remove_dir_all(&directory));
                return Err(error);
            }
        }
    }
    let what = "the API server forgets its lists before they are read to their end";
    Err(CommandError::local(StockCode::Expired, what))
}

/// Why a try ended.
enum Stopped {
    /// The moment that is being written is too long ago.
    Expired,
    Failed(CommandError),
}

impl<E: Into<CommandError>> From<E> for Stopped {
    fn from(error: E) -> Self {
        let error = error.into();
        if error.code == StockCode::Expired.into() { Self::Expired } else { Self::Failed(error) }
    }
}

struct Writer<'a> {
    kubectl: &'a Kubectl,
    directory: &'a Path,
    output: &'a Output,
}

impl Writer<'_> {
    async fn write(&self) -> Result<(), Stopped> {
        let (made, cluster) = (format_rfc3339(now()), cluster(self.kubectl).await?);
        make_directory(&self.directory.join("crds"))?;
        make_directory(&self.directory.join("crs"))?;
        let (resource_version, found) = self.definitions().await?;
        let mut definitions = Vec::with_capacity(found.len());
        for (definition, text) in found {
            definitions.push(self.definition(&definition, &text, &resource_version).await?);
        }
        // Files are durable in their directories; these have directories, too.
        for directory in ["crs", "."] {
            sync(&self.directory.join(directory))?;
        }
        let kubernetes = self.kubectl.server().to_string();
        let list = Manifest { schema: SCHEMA, made, cluster, kubernetes, resource_version, definitions };
        let text = serde_json::to_vec_pretty(&list)
            .map_err(|error| CommandError::local(StockCode::Malformed, error.to_string()))?;
        // Last, and at once: before it is there, it is no backup.
        files::replace(&self.directory.join(LIST), &text, Readers::OwnerOnly)?;
        sync(self.directory.parent().unwrap_or(Path::new(".")))?;
        Ok(())
    }

    /// All definitions, and the moment that they show.
    async fn definitions(&self) -> Result<(String, Vec<(DefinitionObject, String)>), Stopped> {
        let (mut found, mut moment, mut next) = (Vec::new(), None, None);
        loop {
            let page = page(self.kubectl, DEFINITIONS, next.as_deref(), None).await?;
            moment.get_or_insert(page.metadata.resource_version);
            for item in page.items {
                let text =
                    Object::parse(item.get())?.named("apiextensions.k8s.io/v1", "CustomResourceDefinition")?.text()?;
                let definition: DefinitionObject = serde_json::from_str(&text)
                    .map_err(|error| CommandError::local(StockCode::Malformed, error.to_string()))?;
                found.push((definition, text));
            }
            if found.len() > MAX_DEFINITIONS {
                let what = format!("the cluster has more than {MAX_DEFINITIONS} custom resource definitions");
                return Err(CommandError::local(StockCode::TooLong, what).into());
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                return Ok((moment.unwrap_or_default(), found));
            }
        }
    }

    async fn definition(&self, definition: &DefinitionObject, text: &str, moment: &str) -> Result<Definition, Stopped> {
        let name = format!("{}.{}", definition.spec.names.plural, definition.spec.group);
        let served: Vec<_> = definition.spec.versions.iter().filter(|version| version.served).collect();
        if !is_name(&name) || served.iter().any(|version| !is_name(&version.name)) {
            let what = format!("{} is no name of a definition", printable(&name));
            return Err(CommandError::local(StockCode::Malformed, what).into());
        }
        if served.is_empty() && !definition.spec.versions.is_empty() {
            let what = format!("no version of {name} is served: its objects cannot be read");
            return Err(CommandError::local(CommandCode::BackupIncomplete, what).into());
        }
        files::write_new(&self.directory.join(definition_file(&name)), text.as_bytes(), Readers::OwnerOnly)?;
        let mut digest = Digest::new();
        digest.update(text.as_bytes());
        let sha256 = Hash(digest.finish());
        let mut versions = Vec::new();
        if definition.established() {
            make_directory(&self.directory.join("crs").join(&name))?;
            for version in served {
                versions.push(self.objects(&name, definition, version, moment).await?);
            }
        }
        Ok(Definition { name, kind: definition.spec.names.kind.clone(), sha256, versions })
    }

    async fn objects(
        &self,
        name: &str,
        definition: &DefinitionObject,
        version: &DefinitionVersion,
        moment: &str,
    ) -> Result<Version, Stopped> {
        let DefinitionSpec { group, names, .. } = &definition.spec;
        let path = format!("/apis/{group}/{}/{}", version.name, names.plural);
        let to = self.directory.join(objects_file(name, &version.name));
        let (directory, to_name) = Directory::of(&to).map_err(|error| unwritable(&to, &error))?;
        let mut file = New::make(&directory, to_name, &to)?;
        let (mut objects, mut promised, mut next) = (0, None, None);
        loop {
            self.output.waiting_with(&format!("backup of {name}, version {}", version.name), &format!("{objects}"));
            let page = page(self.kubectl, &path, next.as_deref(), Some(moment)).await?;
            for item in &page.items {
                let text = Object::parse(item.get())?.text()?;
                if text.len() > MAX_OBJECT {
                    let what = format!("an object of {name} is longer than {MAX_OBJECT} bytes");
                    return Err(CommandError::local(StockCode::TooLong, what).into());
                }
                file.write(text.as_bytes())?;
                file.write(b"\n")?;
                objects += 1;
            }
            if let (None, Some(remaining)) = (promised, page.metadata.remaining_item_count) {
                promised = Some(objects + remaining);
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                break;
            }
        }
        if let Some(promised) = promised.filter(|promised| *promised != objects) {
            let what = format!("the API server promised {promised} objects of {name}, and gave {objects}");
            return Err(CommandError::local(CommandCode::BackupIncomplete, what).into());
        }
        let status = version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some());
        let sha256 = Hash(file.finish()?);
        Ok(Version { name: version.name.clone(), stored: version.storage, status, objects, sha256 })
    }
}

/// A page of a list; with fewer objects where they are too large for one.
pub(super) async fn page(
    kubectl: &Kubectl,
    path: &str,
    next: Option<&str>,
    moment: Option<&str>,
) -> Result<Page, StockError> {
    let mut limit = PAGE;
    loop {
        let from = match (next, moment) {
            (Some(next), _) => format!("&continue={next}"),
            (None, Some(moment)) => format!("&resourceVersion={moment}&resourceVersionMatch=Exact"),
            (None, None) => String::new(),
        };
        match kubectl.raw_within(&format!("{path}?limit={limit}{from}"), MAX_PAGE).await {
            Err(StockError::TooLong { .. }) if limit > 1 => limit = (limit / 8).max(1),
            page => return page,
        }
    }
}

/// A new file that is hashed as it is written, and durable when it is finished.
struct New<'a> {
    turn: Turn<'a>,
    path: &'a Path,
    digest: Digest,
}

impl<'a> New<'a> {
    fn make(directory: &'a Directory, name: &OsStr, path: &'a Path) -> Result<Self, CommandError> {
        let turn = directory.turn(name, 0o600).map_err(|error| unwritable(path, &error))?;
        Ok(Self { turn, path, digest: Digest::new() })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        self.digest.update(bytes);
        self.turn.file().write_all(bytes).map_err(|error| unwritable(self.path, &error))
    }

    fn finish(self) -> Result<Sha256, CommandError> {
        self.turn.place(Existing::Keep).map_err(|error| unwritable(self.path, &error))?;
        Ok(self.digest.finish())
    }
}

/// A directory of its own, named by time and version.
fn new_directory(backups: &Path, version: &str) -> Result<PathBuf, CommandError> {
    let name = format!("{}_{version}", format_rfc3339(now()).replace(':', "-"));
    let mut last = None;
    for number in 1..SAME_TIME {
        let name = if number == 1 { name.clone() } else { format!("{name}_{number}") };
        let path = backups.join(name);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(unwritable(&path, &error)),
        }
    }
    Err(unwritable(backups, &last.unwrap_or_else(|| std::io::ErrorKind::AlreadyExists.into())))
}

fn make_directory(path: &Path) -> Result<(), CommandError> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| unwritable(path, &error))
}

fn sync(directory: &Path) -> Result<(), CommandError> {
    let synced = Directory::open(directory).and_then(|directory| directory.sync());
    synced.map_err(|error| unwritable(directory, &error))
}

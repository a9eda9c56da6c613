//! An image in an archive: as `docker save` writes it, or an OCI image layout. Everything that a digest names is held against it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use latchkey_kubernetes::{Reference, Sha256};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Wanted;
use super::error::{ContainerStoreError, at};

/// Manifests and configurations have some kilobytes; containerd reads no manifest above 4 MiB from a registry.
const MAX_DOCUMENT: u64 = 4 << 20;
/// `docker save` writes four for each layer.
const MAX_MEMBERS: usize = 4096;
/// Far more than any tool makes.
const MAX_LAYERS: usize = 256;
/// OCI Image Specification, "OCI Image Manifest Specification".
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// "Image Manifest Version 2, Schema 2", as archives of Docker become when they are imported.
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
/// Annotation of an index's entry: the image's whole name.
pub(crate) const NAME: &str = "io.containerd.image.name";
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";

/// An image, and where its layers are.
#[derive(Debug)]
pub(super) struct Image {
    /// `NAME:TAG`
    reference: String,
    /// `NAME@DIGEST`
    pinned: String,
    pub(super) manifest: Vec<u8>,
    pub(super) manifest_type: String,
    pub(super) config: Vec<u8>,
    /// What each layer hashes to when it is unpacked; the lowest first.
    diff_ids: Vec<String>,
    layers: Vec<String>,
    archive: Archive,
}

/// An archive, and where what is in it begins.
#[derive(Debug)]
struct Archive {
    path: PathBuf,
    file: File,
    members: BTreeMap<String, (u64, u64)>,
}

/// Documents of others have more fields.
#[derive(Debug, Clone, Deserialize)]
struct Descriptor {
    digest: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Debug, Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    #[serde(rename = "mediaType")]
    media_type: Option<String>,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct Saved {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
    #[serde(rename = "RepoTags", default)]
    names: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Config {
    architecture: String,
    os: String,
    rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

/// `sha256:` and what these bytes hash to.
pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", Sha256::of(bytes))
}

/// What the one image of an archive is called there: by containerd's annotation of an image layout, or by the list of names that
/// `docker save` writes.
pub(crate) fn name_of(path: &Path) -> Result<Reference, ContainerStoreError> {
    let archive = Archive::open(path)?;
    let mut names: Vec<String> = if archive.members.contains_key("index.json") {
        let index: Index = archive.document("index.json")?;
        index.manifests.into_iter().filter_map(|mut one| one.annotations.remove(NAME)).collect()
    } else {
        let saved: Vec<Saved> = archive.document("manifest.json")?;
        saved.into_iter().filter_map(|one| one.names).flatten().collect()
    };
    match (names.pop(), names.is_empty()) {
        (Some(name), true) => Reference::try_from(name).map_err(|why| archive.unusable(why)),
        (None, _) => Err(archive.unusable("it does not say what its image is called".into())),
        _ => Err(archive.unusable("it has several names of images, and is of one".into())),
    }
}

impl Image {
    /// Reads an image from its archive.
    pub(super) fn read(named: &Wanted) -> Result<Self, ContainerStoreError> {
        let archive = Archive::open(&named.archive)?;
        let wanted = named.digest.map(|digest| format!("sha256:{digest}"));
        let mut image = if archive.members.contains_key("index.json") {
            Self::of_layout(archive, wanted.as_deref())?
        } else {
            Self::of_docker(archive, wanted.as_deref())?
        };
        image.reference = named.reference.to_string();
        let digest = wanted.unwrap_or_else(|| digest(&image.manifest));
        image.pinned = format!("{}@{digest}", named.reference.name());
        Ok(image)
    }

    /// OCI Image Specification, "OCI Image Layout Specification".
    fn of_layout(archive: Archive, wanted: Option<&str>) -> Result<Self, ContainerStoreError> {
        let index: Index = archive.document("index.json")?;
        let mut found = index.manifests;
        if let Some(wanted) = wanted {
            found.retain(|one| one.digest == wanted);
            if found.is_empty() {
                return Err(archive.other(wanted));
            }
        }
        let mut bytes = archive.blob(archive.one(&found)?)?;
        if let Ok(inner) = serde_json::from_slice::<Index>(&bytes) {
            bytes = archive.blob(archive.one(&inner.manifests)?)?;
        }
        let manifest: Manifest = archive.parse("its manifest", &bytes)?;
        let config = archive.blob(&manifest.config)?;
        let layers = manifest.layers.iter().map(|layer| blob_path(&layer.digest)).collect();
        let manifest_type = manifest.media_type.unwrap_or_else(|| OCI_MANIFEST.to_owned());
        Self::new(archive, (bytes, manifest_type), config, layers)
    }

    /// `docker save`: there is no manifest, so one is made as containerd makes it.
    fn of_docker(archive: Archive, wanted: Option<&str>) -> Result<Self, ContainerStoreError> {
        if let Some(wanted) = wanted {
            return Err(archive.other(wanted));
        }
        let saved: Vec<Saved> = archive.document("manifest.json")?;
        let [saved] = <[Saved; 1]>::try_from(saved)
            .map_err(|all| archive.unusable(format!("it has {} images, and is of one", all.len())))?;
        let config = archive.small(&saved.config)?;
        let parsed: Config = archive.parse("its configuration", &config)?;
        if parsed.rootfs.diff_ids.len() != saved.layers.len() {
            return Err(archive.unusable("its manifest and its configuration differ in the number of layers".into()));
        }
        let mut layers = Vec::new();
        for (diff_id, name) in parsed.rootfs.diff_ids.iter().zip(&saved.layers) {
            let size = archive.place(name)?.1;
            layers.push(json!({"mediaType": DOCKER_LAYER, "size": size, "digest": diff_id}));
        }
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST,
            "config": {"mediaType": DOCKER_CONFIG, "size": config.len(), "digest": digest(&config)},
            "layers": layers,
        });
        Self::new(archive, (manifest.to_string().into_bytes(), DOCKER_MANIFEST.to_owned()), config, saved.layers)
    }

    fn new(
        archive: Archive,
        (manifest, manifest_type): (Vec<u8>, String),
        config: Vec<u8>,
        layers: Vec<String>,
    ) -> Result<Self, ContainerStoreError> {
        let Config { architecture, os, rootfs } = archive.parse("its configuration", &config)?;
        if (architecture.as_str(), os.as_str()) != ("amd64", "linux") {
            return Err(archive.unusable(format!("it is for {os}/{architecture}, and nodes are linux/amd64")));
        }
        let diff_ids = rootfs.diff_ids;
        if diff_ids.len() != layers.len() || !(1..=MAX_LAYERS).contains(&layers.len()) {
            return Err(archive.unusable(format!(
                "it has {} layers and {} names of them",
                layers.len(),
                diff_ids.len()
            )));
        }
        if let Some(bad) = diff_ids.iter().find(|id| hash_of(id).is_none()) {
            return Err(archive.unusable(format!("{bad:?} names no layer")));
        }
        let (reference, pinned) = (String::new(), String::new());
        Ok(Self { reference, pinned, manifest, manifest_type, config, diff_ids, layers, archive })
    }

    /// What containerd and the kubelet call it, as they do where they pull it.
    pub(super) fn names(&self) -> BTreeSet<String> {
        [self.reference.clone(), self.pinned.clone(), digest(&self.config)].into()
    }

    /// The archive.
    pub(super) fn path(&self) -> &Path {
        &self.archive.path
    }

    /// Identities of its layers, each with all below it (OCI Image Specification, "Layer `ChainID`"); the lowest first.
    pub(super) fn chains(&self) -> Vec<String> {
        let mut chains: Vec<String> = Vec::new();
        for id in &self.diff_ids {
            let chain = match chains.last() {
                None => id.clone(),
                Some(below) => digest(format!("{below} {id}").as_bytes()),
            };
            chains.push(chain);
        }
        chains
    }

    /// What a layer hashes to when it is unpacked.
    pub(super) fn diff_id(&self, layer: usize) -> &str {
        self.diff_ids.get(layer).map_or("", String::as_str)
    }

    /// A layer as it lies there: packed or not.
    pub(super) fn layer(&self, layer: usize) -> Result<impl Read, ContainerStoreError> {
        let name = self.layers.get(layer).map_or("", String::as_str);
        let (at, left) = self.archive.place(name)?;
        Ok(Within { file: &self.archive.file, at, left })
    }
}

impl Archive {
    fn open(path: &Path) -> Result<Self, ContainerStoreError> {
        let file = File::open(path).map_err(at(path))?;
        let mut members = BTreeMap::new();
        let failed = |error: io::Error| ContainerStoreError::Archive { path: path.into(), why: error.to_string() };
        let mut read = tar::Archive::new(&file);
        for entry in read.entries_with_seek().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let name = String::from_utf8_lossy(&entry.path_bytes()).trim_start_matches("./").to_owned();
            members.insert(name, (entry.raw_file_position(), entry.size()));
            if members.len() > MAX_MEMBERS {
                let why = format!("it has more than {MAX_MEMBERS} files");
                return Err(ContainerStoreError::Archive { path: path.into(), why });
            }
        }
        Ok(Self { path: path.into(), file, members })
    }

    fn unusable(&self, why: String) -> ContainerStoreError {
        ContainerStoreError::Archive { path: self.path.clone(), why }
    }

    fn other(&self, wanted: &str) -> ContainerStoreError {
        ContainerStoreError::Digest { path: self.path.clone(), expected: wanted.to_owned() }
    }

    fn place(&self, name: &str) -> Result<(u64, u64), ContainerStoreError> {
        self.members.get(name).copied().ok_or_else(|| self.unusable(format!("it has no file {name:?}")))
    }

    fn small(&self, name: &str) -> Result<Vec<u8>, ContainerStoreError> {
        let (begin, size) = self.place(name)?;
        if size > MAX_DOCUMENT {
            return Err(self.unusable(format!("{name:?} is longer than any of its kind")));
        }
        let mut bytes = Vec::new();
        Within { file: &self.file, at: begin, left: size }.read_to_end(&mut bytes).map_err(at(&self.path))?;
        Ok(bytes)
    }

    fn parse<T: DeserializeOwned>(&self, what: &str, bytes: &[u8]) -> Result<T, ContainerStoreError> {
        serde_json::from_slice(bytes).map_err(|error| self.unusable(format!("{what}: {error}")))
    }

    fn document<T: DeserializeOwned>(&self, name: &str) -> Result<T, ContainerStoreError> {
        self.parse(name, &self.small(name)?)
    }

    /// What a descriptor names, if it hashes to that.
    fn blob(&self, named: &Descriptor) -> Result<Vec<u8>, ContainerStoreError> {
        if hash_of(&named.digest).is_none() {
            return Err(self.unusable(format!("{:?} is no digest of SHA-256", named.digest)));
        }
        let what = blob_path(&named.digest);
        let bytes = self.small(&what)?;
        let got = digest(&bytes);
        if got == named.digest {
            return Ok(bytes);
        }
        Err(ContainerStoreError::Differs { path: self.path.clone(), what, expected: named.digest.clone(), got })
    }

    /// The one for our platform.
    fn one<'d>(&self, all: &'d [Descriptor]) -> Result<&'d Descriptor, ContainerStoreError> {
        let ours = |one: &&Descriptor| {
            let is_ours = |platform: &Platform| platform.architecture == "amd64" && platform.os == "linux";
            one.platform.as_ref().is_none_or(is_ours)
        };
        let mut ours = all.iter().filter(ours);
        match (ours.next(), ours.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(self.unusable("it has no image for linux/amd64".into())),
            _ => Err(self.unusable("it has several images for linux/amd64, and is of one".into())),
        }
    }
}

fn hash_of(digest: &str) -> Option<Sha256> {
    Sha256::try_from(digest.strip_prefix("sha256:")?.to_owned()).ok()
}

fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replacen(':', "/", 1))
}

/// Part of a file.
struct Within<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl Read for Within<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(buffer.get_mut(..most).unwrap_or_default(), self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        if count == 0 && most > 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
    }
}

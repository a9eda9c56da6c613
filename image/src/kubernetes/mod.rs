//! What of Kubernetes an image carries: the components of one release, the units that run them, and what they need of a root.
//!
//! The components come from a folder, a mirror or their official addresses, each held against the version table
//! (`latchkey-kubernetes`), and lie in the verified root. What must last from boot to boot lies on the state disk.

mod error;
mod files;
mod programs;

use std::fs;
use std::path::{Path, PathBuf};

use latchkey_kubernetes::fetch::{Fetcher, Limits, Origin, unpack};
use latchkey_kubernetes::{Component, Minor, Release, Roles, Sha256, Table};
use serde::Deserialize;

pub use error::KubernetesError;
pub(crate) use programs::Programs;

use crate::container_store;
use crate::error::at;
use crate::systemd::{Addition, AdditionKind, Systemd};
use crate::tree::Tree;

/// What must last, besides what lasts by default: logs of pods, whose containers go on after a restart of the kubelet.
const LASTING: [&str; 6] =
    ["/etc/cni/net.d", "/etc/kubernetes", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet", "/var/log/pods"];

/// What of Kubernetes an image carries.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    table: Sha256,
    release: Release,
    roles: Roles,
    origin: Origin,
    /// Where archives of container images come from, if the image carries them.
    images: Option<Origin>,
}

/// As a configuration has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KubernetesConfig {
    /// The minor version.
    version: Minor,
    /// What machines of this image may be [control-plane, worker].
    #[serde(default)]
    roles: Roles,
    /// A folder or a mirror that has the components [their official addresses].
    components: Option<String>,
    /// A folder or a mirror that has archives of the container images [nodes get them from registries].
    images: Option<String>,
    /// A version table [the one in this program].
    table: Option<PathBuf>,
}

impl KubernetesConfig {
    /// Reads the version table; paths begin at `directory`.
    pub(crate) fn load(self, directory: &Path) -> Result<Kubernetes, KubernetesError> {
        let origin = |text: Option<String>| -> Result<Option<Origin>, KubernetesError> {
            Ok(match text.as_deref().map(Origin::parse).transpose()? {
                Some(Origin::Folder(folder)) => Some(Origin::Folder(directory.join(folder))),
                other => other,
            })
        };
        let (components, images) = (origin(self.components)?, origin(self.images)?);
        let table = match self.table {
            Some(path) => Table::read(&directory.join(path)),
            None => Table::built_in(),
        }?;
        let kubernetes = Kubernetes::new(&table, self.version, self.roles, components.unwrap_or(Origin::Official))?;
        Ok(match images {
            Some(images) => kubernetes.with_images(images),
            None => kubernetes,
        })
    }
}

impl Kubernetes {
    /// The release that a table has for a minor version, for machines of these roles.
    pub fn new(table: &Table, version: Minor, roles: Roles, origin: Origin) -> Result<Self, KubernetesError> {
        let release = table.release(version)?.clone();
        Ok(Self { table: table.sha256(), release, roles, origin, images: None })
    }

    /// With the container images that the table names, too, which come from there.
    #[must_use]
    pub fn with_images(self, images: Origin) -> Self {
        Self { images: Some(images), ..self }
    }

    /// What the image's systemd must be for it: with the directories that last.
    pub fn systemd(&self, systemd: Option<Systemd>) -> Result<Systemd, KubernetesError> {
        let mut systemd = systemd.ok_or(KubernetesError::NoState)?;
        let state = systemd.state.as_mut().ok_or(KubernetesError::NoState)?;
        if systemd.in_root {
            return Err(KubernetesError::InRoot);
        }
        state.persist = state.persist.and(&LASTING)?;
        Ok(systemd)
    }

    fn components(&self) -> impl Iterator<Item = &Component> {
        self.release.components(&self.roles)
    }

    /// In one line: the exact version and the roles.
    pub(crate) fn in_words(&self) -> String {
        let roles: Vec<&str> = self.roles.iter().map(latchkey_kubernetes::Role::name).collect();
        format!("{} {}", self.release.version(), roles.join(","))
    }

    /// What the image is made of by it, with hashes.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (String, Sha256)> {
        let component =
            |one: &Component| (format!("kubernetes {} {}", one.name(), one.version()), one.download().sha256);
        let image =
            |one: &latchkey_kubernetes::Image| Some((format!("kubernetes image {}", one.reference()), one.pin()?));
        let images = self.images.iter().flat_map(|_| self.release.images(&self.roles)).filter_map(image);
        std::iter::once(("kubernetes-table".to_owned(), self.table))
            .chain(self.components().map(component))
            .chain(images)
    }

    /// Whether a root has what is needed, and nothing that is in the way.
    pub(crate) fn check(&self, root: &Tree, kernel: &str, modules: &Path) -> Result<(), KubernetesError> {
        let programs = Programs::find(self.components(), root)?;
        programs.check(root)?;
        programs::modules(root, kernel, modules, self.images.is_some())?;
        let store = self.images.iter().flat_map(|_| files::container_store());
        let ours = files::files(&self.release, &programs, root).into_iter().chain(store);
        let ours = ours.filter(|one| one.what != AdditionKind::Directory);
        let brought = self.components().flat_map(Component::paths).map(|path| path.as_str().to_owned());
        let mut paths = ours.map(|one| format!("/{}", one.path)).chain(brought);
        match paths.find(|path| root.find(path.as_bytes()).is_some()) {
            Some(path) => Err(KubernetesError::InTheWay(path)),
            None => Ok(()),
        }
    }

    /// Gets the components, and says what is added to the root. What is on the way to it lies in the directory `shed`, which is
    /// made. `made` is when the container images came, as the machine shows it.
    pub(crate) fn additions(&self, root: &Tree, shed: &Path, made: u32) -> Result<Vec<Addition>, KubernetesError> {
        let local = |path: &Path, result: std::io::Result<()>| result.map_err(at(path)).map_err(Box::new);
        local(shed, fs::create_dir(shed))?;
        let taken = shed.join("unpacked");
        local(&taken, fs::create_dir(&taken))?;
        let mut additions = files::files(&self.release, &Programs::find(self.components(), root)?, root);
        let fetcher = Fetcher::new(self.origin.clone(), Limits::default())?;
        for component in self.components() {
            let file = fetcher.fetch(&component.download(), shed, &mut |_| ())?;
            for one in unpack(component, &file.path, &taken)? {
                let size = fs::metadata(&one.path).map_err(at(&one.path)).map_err(Box::new)?.len();
                let path = one.to.as_str().trim_start_matches('/').to_owned();
                additions.push(Addition { path, what: AdditionKind::Copy(0o755, one.path, size) });
            }
        }
        if let Some(origin) = &self.images {
            additions.extend(self.container_store(origin, shed, made)?);
        }
        Ok(additions)
    }

    /// The container images, in a file system of their own.
    fn container_store(&self, origin: &Origin, shed: &Path, made: u32) -> Result<Vec<Addition>, KubernetesError> {
        let fetcher = Fetcher::new(origin.clone(), Limits::default())?;
        let mut images = Vec::new();
        for image in self.release.images(&self.roles) {
            let archive = match (image.download(), origin) {
                (Some(download), _) => fetcher.fetch(&download, shed, &mut |_| ())?.path,
                // Its digest is held against what is in the archive.
                (None, Origin::Folder(folder)) => folder.join(image.file()),
                (None, _) => return Err(KubernetesError::NoArchive(image.reference())),
            };
            images.push((image.clone(), archive));
        }
        let store = container_store::make(&images, shed, made)?;
        let file = |path: &str, what| Addition { path: path.to_owned(), what };
        let content = [
            file(files::STORE, AdditionKind::Copy(0o644, store.file, store.size)),
            file(files::STORE_ID, AdditionKind::File(0o644, format!("{}\n", store.id).into_bytes())),
        ];
        Ok(files::container_store().into_iter().chain(content).collect())
    }
}

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
    /// A version table [the one in this program].
    table: Option<PathBuf>,
}

impl KubernetesConfig {
    /// Reads the version table; paths begin at `directory`.
    pub(crate) fn load(self, directory: &Path) -> Result<Kubernetes, KubernetesError> {
        let origin = match self.components.as_deref().map(Origin::parse).transpose()? {
            Some(Origin::Folder(folder)) => Origin::Folder(directory.join(folder)),
            Some(other) => other,
            None => Origin::Official,
        };
        let table = match self.table {
            Some(path) => Table::read(&directory.join(path)),
            None => Table::built_in(),
        }?;
        Kubernetes::new(&table, self.version, self.roles, origin)
    }
}

impl Kubernetes {
    /// The release that a table has for a minor version, for machines of these roles.
    pub fn new(table: &Table, version: Minor, roles: Roles, origin: Origin) -> Result<Self, KubernetesError> {
        Ok(Self { table: table.sha256(), release: table.release(version)?.clone(), roles, origin })
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
        std::iter::once(("kubernetes-table".to_owned(), self.table)).chain(self.components().map(component))
    }

    /// Whether a root has what is needed, and nothing that is in the way.
    pub(crate) fn check(&self, root: &Tree, kernel: &str, modules: &Path) -> Result<(), KubernetesError> {
        let programs = Programs::find(self.components(), root)?;
        programs.check(root)?;
        programs::modules(root, kernel, modules)?;
        let ours =
            files::files(&self.release, &programs, root).into_iter().filter(|one| one.what != AdditionKind::Directory);
        let brought = self.components().flat_map(Component::paths).map(|path| path.as_str().to_owned());
        let mut paths = ours.map(|one| format!("/{}", one.path)).chain(brought);
        match paths.find(|path| root.find(path.as_bytes()).is_some()) {
            Some(path) => Err(KubernetesError::InTheWay(path)),
            None => Ok(()),
        }
    }

    /// Gets the components, and says what is added to the root. What is on the way to it lies in the directory `shed`, which is
    /// made.
    pub(crate) fn additions(&self, root: &Tree, shed: &Path) -> Result<Vec<Addition>, KubernetesError> {
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
        Ok(additions)
    }
}

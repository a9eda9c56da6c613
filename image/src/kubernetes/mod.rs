//! What of Kubernetes an image carries: the components of one release, or the program by which nodes get them; the units that run
//! them, and what they need of a root.
//!
//! The components come from a folder, a mirror or their official addresses, each held against the version table
//! (`latchkey-kubernetes`), and lie in the verified root. What must last from boot to boot lies on the state disk.

mod error;
mod fetched;
mod files;
mod programs;
mod services;

use std::fs;
use std::path::{Path, PathBuf};

use latchkey_kubernetes::fetch::{Fetcher as Downloads, Limits, Origin, unpack};
use latchkey_kubernetes::{Component, Image, Minor, Release, Roles, Sha256, Table};
use serde::Deserialize;

pub use error::KubernetesError;
use fetched::Fetcher;
pub use files::PodNetwork;
pub(crate) use programs::Programs;
pub use services::Service;

use crate::container_store::{self, Wanted};
use crate::error::at;
use crate::image::Source;
use crate::parts::hash_of_file;
use crate::systemd::{Addition, AdditionKind, Systemd};
use crate::tree::Tree;

/// What must last, besides what lasts by default: logs of pods, whose containers go on after a restart of the kubelet.
const LASTING: [&str; 6] =
    ["/etc/cni/net.d", "/etc/kubernetes", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet", "/var/log/pods"];
/// And on control planes: the API server's audit log.
const AUDIT_LOG: [&str; 1] = ["/var/log/kubernetes"];

/// What of Kubernetes an image carries.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    table: Sha256,
    parts: Parts,
    /// Archives of container images beside those of the table, for an image that carries the components.
    container_images: Vec<PathBuf>,
    /// The image that holds pods' name spaces; empty if the table has none.
    pause: String,
    roles: Roles,
    services: Vec<Service>,
    pod_network: PodNetwork,
}

/// Where the components are.
#[derive(Debug, Clone)]
enum Parts {
    /// In the image.
    Carried {
        release: Release,
        origin: Origin,
        /// Where archives of container images come from, if the image carries them.
        images: Option<Origin>,
    },
    /// On the state disk, where this program puts them.
    Fetched(Fetcher),
}

/// As a configuration has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KubernetesConfig {
    /// The minor version in the image [none: `fetched_by`].
    version: Option<Minor>,
    /// The program `latchkey-components`, by which nodes get the version that `latchkey init` names [none: `version`].
    fetched_by: Option<PathBuf>,
    /// What machines of this image may be [control-plane, worker].
    #[serde(default)]
    roles: Roles,
    /// A folder or a mirror that has the components [their official addresses].
    components: Option<String>,
    /// A folder or a mirror that has archives of the container images [nodes get them from registries].
    images: Option<String>,
    /// Archives of further container images, each with its name in it [none].
    #[serde(default)]
    container_images: Vec<PathBuf>,
    /// What makes the network of pods [a bridge on each node].
    #[serde(default)]
    pod_network: PodNetwork,
    /// A version table [the one in this program].
    table: Option<PathBuf>,
    /// The join service's program, for control planes [they carry none].
    join_service: Option<PathBuf>,
    /// The key service's program, for control planes [they carry none].
    key_service: Option<PathBuf>,
    /// The balancer to the API servers, for every node [they carry none].
    api_balancer: Option<PathBuf>,
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
        let program = |path: PathBuf| Source::File(directory.join(path));
        let not_in_it = [
            ("version", self.version.is_some()),
            ("components", components.is_some()),
            ("images", images.is_some()),
            ("container_images", !self.container_images.is_empty()),
        ];
        let not_in_it = not_in_it.into_iter().find(|(_, given)| *given);
        let kubernetes = match (self.version, self.fetched_by) {
            (None, None) => return Err(KubernetesError::NoVersion),
            (_, Some(fetcher)) => match not_in_it {
                Some((word, _)) => return Err(KubernetesError::NotInIt(word)),
                None => Kubernetes::fetched(&table, self.roles, program(fetcher)),
            },
            (Some(version), None) => {
                let carried = Kubernetes::new(&table, version, self.roles, components.unwrap_or(Origin::Official))?;
                let carried = images.into_iter().fold(carried, Kubernetes::with_images);
                let archives = self.container_images.iter().map(|path| directory.join(path));
                archives.fold(carried, Kubernetes::with_container_image)
            }
        };
        let join = self.join_service.map(|path| Service::join(program(path)));
        let key = self.key_service.map(|path| Service::key(program(path)));
        let balancer = self.api_balancer.map(|path| Service::balancer(program(path)));
        let kubernetes = kubernetes.with_pod_network(self.pod_network);
        Ok(join.into_iter().chain(key).chain(balancer).fold(kubernetes, Kubernetes::with_service))
    }
}

impl Kubernetes {
    /// The release that a table has for a minor version, for machines of these roles.
    pub fn new(table: &Table, version: Minor, roles: Roles, origin: Origin) -> Result<Self, KubernetesError> {
        let release = table.release(version)?.clone();
        let pause = pause(&release);
        Ok(Self::of(table, Parts::Carried { release, origin, images: None }, pause, roles))
    }

    /// None: this program (`latchkey-components`) gets the release that `latchkey init` names. Of the table the image has the name of
    /// the newest release's image for pods' name spaces, by which nodes know that of theirs.
    pub fn fetched(table: &Table, roles: Roles, program: Source) -> Self {
        let newest = table.minors().last().and_then(|minor| table.release(minor).ok());
        Self::of(table, Parts::Fetched(Fetcher(program)), newest.map(pause).unwrap_or_default(), roles)
    }

    fn of(table: &Table, parts: Parts, pause: String, roles: Roles) -> Self {
        let (services, pod_network) = (Vec::new(), PodNetwork::default());
        Self { table: table.sha256(), parts, container_images: Vec::new(), pause, roles, services, pod_network }
    }

    /// With the container images that the table names, too, which come from there. One without Kubernetes gets them with the components.
    #[must_use]
    pub fn with_images(mut self, from: Origin) -> Self {
        if let Parts::Carried { images, .. } = &mut self.parts {
            *images = Some(from);
        }
        self
    }

    /// With the container image of this archive, too, as `latchkey image container` or `docker save` writes it: its name is in it.
    #[must_use]
    pub fn with_container_image(mut self, archive: PathBuf) -> Self {
        self.container_images.push(archive);
        self
    }

    /// With this as what makes the network of pods.
    #[must_use]
    pub fn with_pod_network(self, pod_network: PodNetwork) -> Self {
        Self { pod_network, ..self }
    }

    /// With a service.
    #[must_use]
    pub fn with_service(mut self, service: Service) -> Self {
        self.services.push(service);
        self
    }

    /// What the image's systemd must be for it: with the directories that last.
    pub fn systemd(&self, systemd: Option<Systemd>) -> Result<Systemd, KubernetesError> {
        let mut systemd = systemd.ok_or(KubernetesError::NoState)?;
        let state = systemd.state.as_mut().ok_or(KubernetesError::NoState)?;
        if systemd.in_root {
            return Err(KubernetesError::InRoot);
        }
        state.persist = state.persist.and(&LASTING)?;
        if let Parts::Fetched(_) = self.parts {
            state.persist = state.persist.and(&[fetched::STORE])?;
        }
        if self.has_control_planes() {
            state.persist = state.persist.and(&AUDIT_LOG)?;
        }
        if self.services.iter().any(Service::has_secrets) {
            state.persist = state.persist.and(&[services::SECRETS])?;
        }
        Ok(systemd)
    }

    fn components(&self) -> impl Iterator<Item = &Component> {
        let carried = match &self.parts {
            Parts::Carried { release, .. } => Some(release),
            Parts::Fetched(_) => None,
        };
        carried.into_iter().flat_map(|release| release.components(&self.roles))
    }

    /// Whether the image has container images.
    fn has_container_images(&self) -> bool {
        self.images().is_some() || !self.container_images.is_empty()
    }

    /// The table's container images in it, and where they come from.
    fn images(&self) -> Option<(&Origin, impl Iterator<Item = &Image>)> {
        match &self.parts {
            Parts::Carried { release, images: Some(origin), .. } => Some((origin, release.images(&self.roles))),
            _ => None,
        }
    }

    fn programs(&self, root: &Tree) -> Result<Programs, KubernetesError> {
        let place = match self.parts {
            Parts::Carried { .. } => None,
            Parts::Fetched(_) => Some(fetched::PLACE),
        };
        Programs::find(self.components(), place, root, &self.roles)
    }

    /// Units and configuration.
    fn files(&self, programs: &Programs, root: &Tree) -> Result<Vec<Addition>, KubernetesError> {
        let mut files = files::files(&self.pause, programs, root, self.pod_network);
        if let Parts::Fetched(fetcher) = &self.parts {
            files.extend(fetcher.additions(&self.pause)?);
        }
        if self.has_control_planes() {
            files.extend(files::certificates());
            files.extend(files::enrolment());
        }
        Ok(files)
    }

    fn has_control_planes(&self) -> bool {
        self.roles.iter().any(|role| role == latchkey_kubernetes::Role::ControlPlane)
    }

    /// In one line: the exact version and the roles.
    pub(crate) fn in_words(&self) -> String {
        let roles: Vec<&str> = self.roles.iter().map(latchkey_kubernetes::Role::name).collect();
        let network = if self.pod_network == PodNetwork::Flannel { " flannel" } else { "" };
        let version = match &self.parts {
            Parts::Carried { release, .. } => release.version().to_string(),
            Parts::Fetched(_) => "fetched".to_owned(),
        };
        format!("{version} {}{network}", roles.join(","))
    }

    /// What the image is made of by it, with hashes.
    pub(crate) fn sources(&self) -> Result<Vec<(String, Sha256)>, KubernetesError> {
        let component =
            |one: &Component| (format!("kubernetes {} {}", one.name(), one.version()), one.download().sha256);
        let image = |one: &Image| Some((format!("kubernetes image {}", one.reference()), one.pin()?));
        let archives = self.container_images.iter().map(|path| -> Result<_, KubernetesError> {
            let hash = hash_of_file(path).map_err(Box::new)?;
            Ok((format!("container image {}", container_store::image::name_of(path)?), Sha256(hash)))
        });
        let archives = archives.collect::<Result<Vec<_>, _>>()?;
        let images = self.images().into_iter().flat_map(|(_, images)| images).filter_map(image);
        let table = std::iter::once(("kubernetes-table".to_owned(), self.table));
        let mut services = self.services.iter().map(Service::source).collect::<Result<Vec<_>, _>>()?;
        if let Parts::Fetched(fetcher) = &self.parts {
            services.push(fetcher.source()?);
        }
        Ok(table.chain(self.components().map(component)).chain(images).chain(archives).chain(services).collect())
    }

    /// Whether a root has what is needed, and nothing that is in the way.
    pub(crate) fn check(&self, root: &Tree, kernel: &str, modules: &Path) -> Result<(), KubernetesError> {
        let programs = self.programs(root)?;
        programs.check(root)?;
        programs::modules(root, kernel, modules, self.has_container_images())?;
        if let Parts::Fetched(fetcher) = &self.parts {
            fetcher.check()?;
        }
        let mut services = Vec::new();
        for service in &self.services {
            service.check(&self.roles)?;
            services.extend(service.additions()?);
        }
        let store = self.has_container_images().then(files::container_store).into_iter().flatten();
        let ours = self.files(&programs, root)?.into_iter().chain(store).chain(services);
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
        let mut additions = self.files(&self.programs(root)?, root)?;
        if let Parts::Carried { origin, .. } = &self.parts {
            let downloads = Downloads::new(origin.clone(), Limits::default())?;
            for component in self.components() {
                let file = downloads.fetch(&component.download(), shed, &mut |_| ())?;
                for one in unpack(component, &file.path, &taken)? {
                    let size = fs::metadata(&one.path).map_err(at(&one.path)).map_err(Box::new)?.len();
                    let path = one.to.as_str().trim_start_matches('/').to_owned();
                    additions.push(Addition { path, what: AdditionKind::Copy(0o755, one.path, size) });
                }
            }
        }
        for service in &self.services {
            additions.extend(service.additions()?);
        }
        if self.has_container_images() {
            additions.extend(store_of(&self.wanted(shed)?, shed, made)?);
        }
        Ok(additions)
    }

    /// The archives of all container images; those that must be fetched lie in the directory `shed` then.
    fn wanted(&self, shed: &Path) -> Result<Vec<Wanted>, KubernetesError> {
        let mut all = Vec::new();
        if let Some((origin, images)) = self.images() {
            let downloads = Downloads::new(origin.clone(), Limits::default())?;
            for image in images {
                let archive = match (image.download(), origin) {
                    (Some(download), _) => downloads.fetch(&download, shed, &mut |_| ())?.path,
                    // Its digest is held against what is in the archive.
                    (None, Origin::Folder(folder)) => folder.join(image.file()),
                    (None, _) => return Err(KubernetesError::NoArchive(image.reference())),
                };
                all.push(Wanted { reference: image.reference(), digest: image.digest(), archive });
            }
        }
        for archive in &self.container_images {
            let reference = container_store::image::name_of(archive)?;
            if all.iter().any(|one| one.reference == reference) {
                return Err(KubernetesError::Twice(reference));
            }
            all.push(Wanted { reference, digest: None, archive: archive.clone() });
        }
        Ok(all)
    }
}

/// Container images, in a file system of their own.
fn store_of(images: &[Wanted], shed: &Path, made: u32) -> Result<Vec<Addition>, KubernetesError> {
    let store = container_store::make(images, shed, made)?;
    let file = |path: &str, what| Addition { path: path.to_owned(), what };
    let content = [
        file(files::STORE, AdditionKind::Copy(0o644, store.file, store.size)),
        file(files::STORE_ID, AdditionKind::File(0o644, format!("{}\n", store.id).into_bytes())),
    ];
    Ok(files::container_store().into_iter().chain(content).collect())
}

fn pause(release: &Release) -> String {
    release.pause().map(|image| image.reference().to_string()).unwrap_or_default()
}

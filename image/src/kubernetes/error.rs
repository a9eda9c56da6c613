//! Why an image does not carry Kubernetes.

use latchkey_initramfs::executable::ExecutableError;
use latchkey_kubernetes::fetch::{FetchCode, FetchError};
use latchkey_kubernetes::{MinorRefusal, Reference, TableError};

use crate::container_store::ContainerStoreError;
use crate::error::ImageError;
use crate::systemd::StateDirectoryError;

/// Why an image does not carry Kubernetes.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// The table does not have the version.
    #[error(transparent)]
    Version(#[from] MinorRefusal),
    /// The version table cannot be used.
    #[error("table: {0}")]
    Table(#[from] TableError),
    /// Neither which version is in the image nor what gets one.
    #[error("it has neither \"version\", for an image with Kubernetes in it, nor \"fetched_by\", for one without")]
    NoVersion,
    /// What is about components in the image, for an image without them.
    #[error("it has \"fetched_by\", for an image without Kubernetes in it, and also {0:?}")]
    NotInIt(&'static str),
    /// A component is not there.
    #[error("components: {0}")]
    Fetch(#[from] FetchError),
    /// A container image cannot be put into the root.
    #[error("images: {0}")]
    Containers(#[from] ContainerStoreError),
    /// The table pins an image by a digest alone, which no mirror of files knows.
    #[error("images: the version table has no archive of {0}, which a mirror could give")]
    NoArchive(Reference),
    /// Two archives are called the same.
    #[error("container_images: there are two archives of {0}")]
    Twice(Reference),
    /// A service is given for machines that are no control planes.
    #[error("{0}: \"roles\" has no control-plane, and no other machine runs it")]
    NotForWorkers(&'static str),
    /// A service's program is none for every root.
    #[error("{0}: {1}")]
    Service(&'static str, ExecutableError),
    /// There is no state disk with a file system.
    #[error("\"systemd\" has no \"state\", and what kubeadm, the kubelet and etcd write must last")]
    NoState,
    /// The root has the files of systemd already.
    #[error("\"systemd\" has \"in_root\": true, and Kubernetes is added to a root, not found in it")]
    InRoot,
    /// What must last contradicts what the configuration lets last.
    #[error("systemd.state.{0}")]
    Persist(#[from] StateDirectoryError),
    /// The root has a file where one is added.
    #[error("the root has {0} already, which is put there")]
    InTheWay(String),
    /// The root lacks a program.
    #[error("the root has no {what} in {places}, which {user} needs")]
    NoProgram {
        /// The program.
        what: &'static str,
        /// Where it was looked for.
        places: &'static str,
        /// Who needs it.
        user: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// The root lacks a file.
    #[error("the root has no {path}, which {user} needs")]
    NoFile {
        /// The file.
        path: &'static str,
        /// Who needs it.
        user: &'static str,
        /// How it is mended.
        remedy: &'static str,
    },
    /// The root lacks a module of its kernel.
    #[error("the root has no module {name} in /lib/modules/{kernel}, and the kernel does not have it built in")]
    NoModule {
        /// The module.
        name: &'static str,
        /// The kernel's release.
        kernel: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Local(#[from] Box<ImageError>),
}

impl KubernetesError {
    /// What to do.
    pub fn remedy(&self) -> Option<&str> {
        Some(match self {
            Self::Version(refusal) => refusal.code().remedy(),
            Self::Table(error) => error.code().remedy(),
            Self::Fetch(error) => return Some(fetch_remedy(error.code())),
            Self::Containers(error) => return error.remedy(),
            Self::NoVersion | Self::NotInIt(_) => "say which of the two it is",
            Self::NoArchive(_) => "name a folder with its archive as \"images\", or give a version table with its hash",
            Self::Twice(_) => "leave one of them out",
            Self::NotForWorkers(_) => "leave it out, or add control-plane to \"roles\"",
            Self::Service(..) => "give the service of a release, or one built for musl",
            Self::NoState => "add \"systemd\": {\"state\": {}}",
            Self::InRoot => "give the root as a directory or an archive, without \"in_root\"",
            Self::Persist(_) => "leave the directory out of \"persist\": it lasts with the one that Kubernetes needs",
            Self::InTheWay(_) => "leave its package out of the root, or give a version table without this component",
            Self::NoProgram { package, .. } => package,
            Self::NoFile { remedy, .. } => remedy,
            Self::NoModule { .. } => {
                "put the kernel's modules into the root: lib/modules/RELEASE, as its package has it"
            }
            Self::Local(error) => error.remedy(),
        })
    }
}

/// As the command line says it, but for what only it can do.
fn fetch_remedy(code: FetchCode) -> &'static str {
    match code {
        FetchCode::TooSlow | FetchCode::Interrupted => {
            "get the components with `latchkey kubernetes fetch`, which continues them, and name its folder in \"components\""
        }
        code => code.remedy(),
    }
}

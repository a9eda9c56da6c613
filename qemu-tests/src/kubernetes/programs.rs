//! The programs of a cluster, built from Go modules into a cache that outlives this checkout.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::{HarnessError, io_error};
use crate::process::run_shown;

/// All of them from nothing, with their modules, on a busy machine.
const BUILDING: Duration = Duration::from_mins(90);

/// What the root of a control plane has.
const CONTROL_PLANE: [&str; 11] = [
    "etcd",
    "etcdctl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "coredns",
    "flanneld",
    "kubeadm",
    "kubelet",
    "kubectl",
];

/// Which release of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The one that clusters are founded with.
    This,
    /// The one after it, for upgrades.
    Next,
}

/// Where the build script is.
pub(super) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes")
}

/// A program of the release that tests build, such as `kubectl`.
pub fn program(name: &str) -> Result<PathBuf, HarnessError> {
    build(Which::This, &[name])?
        .pop()
        .ok_or_else(|| HarnessError::Unusable(format!("kubernetes/build says nothing of {name}")))
}

/// A release of Kubernetes and what belongs to it.
pub(super) struct Release {
    /// For example `v1.34.4`.
    pub(super) version: String,
    programs: Vec<PathBuf>,
}

impl Release {
    /// Builds what is not there yet.
    pub(super) fn build(which: Which) -> Result<Self, HarnessError> {
        let programs = build(which, &CONTROL_PLANE)?;
        let directory = programs.first().and_then(|path| path.parent()).and_then(Path::file_name);
        let version = directory.map(|name| name.to_string_lossy().into_owned());
        let version = version.ok_or_else(|| HarnessError::Unusable("kubernetes/build names no release".into()))?;
        Ok(Self { version, programs })
    }

    pub(super) fn program(&self, name: &str) -> Result<PathBuf, HarnessError> {
        let found = self.programs.iter().find(|path| path.file_name().is_some_and(|file| file == name));
        found.cloned().ok_or_else(|| HarnessError::Unusable(format!("kubernetes/build builds no {name}")))
    }

    /// Where the programs are: in directories that are named by their modules' versions.
    pub(super) fn identity(&self) -> Result<String, HarnessError> {
        let place = |path: &PathBuf| {
            let target = std::fs::read_link(path).map_err(io_error("read", path))?;
            Ok(format!("{}\n", target.display()))
        };
        self.programs.iter().map(place).collect()
    }
}

fn build(which: Which, programs: &[&str]) -> Result<Vec<PathBuf>, HarnessError> {
    let mut command = Command::new(directory().join("build"));
    command.args((which == Which::Next).then_some("--next"));
    let built = run_shown(command.args(programs), BUILDING)?;
    if !built.status.success() {
        let output = String::from_utf8_lossy(&built.out).into_owned();
        return Err(HarnessError::Command {
            command: format!("qemu-tests/kubernetes/build {}", programs.join(" ")),
            output,
        });
    }
    Ok(String::from_utf8_lossy(&built.out).lines().map(PathBuf::from).collect())
}

//! A Debian that can carry Kubernetes, and what images carry of it: programs built from Go modules, and container images of them.

mod control_planes;
mod definition;
mod kubectl;
mod mirror;
mod parts;
mod pods;
mod programs;
mod site;
mod upgrade;

use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_boot_formats::sha256;
use serde_json::{Value, json};

use crate::debian::{self, Base};
use crate::error::{HarnessError, io_error};
use crate::kernel::{Kernel, cache};
use crate::process::output;
use crate::run::Run;

pub use control_planes::{EtcdMember, etcd_members};
pub use definition::definition;
pub use kubectl::Kubectl;
#[cfg(feature = "centre")]
pub(crate) use parts::container_image;
pub(crate) use programs::Which;
pub use programs::program;
pub(crate) use site::path_with_programs;
pub use site::{API_IS_READY, API_SERVER, PodNetwork, Site};
pub use upgrade::RestartProgram;

/// The image of the daemon that makes the network of pods.
const FLANNEL: &str = "latchkey.invalid/flannel:v0.26.7";
/// An image with a shell, for pods of tests.
const BUSYBOX: &str = "latchkey.invalid/busybox:1";
/// What Kubernetes wants of Debian.
const PACKAGES: &[&str] = &[
    "containerd",
    "runc",
    "containernetworking-plugins",
    "iptables",
    "conntrack",
    "ethtool",
    "socat",
    "kmod",
    "mount",
    "procps",
    "ca-certificates",
];

/// What a site's images carry.
#[derive(Debug)]
pub(crate) struct Kubernetes {
    /// The archive of the Debian.
    pub(crate) root: PathBuf,
    configuration: Value,
    /// What leads nodes to the API servers, where a cluster is founded so.
    balancer: PathBuf,
}

impl Kubernetes {
    /// An image configuration's `kubernetes`.
    pub(crate) fn configuration(&self, network: PodNetwork) -> Value {
        let mut configuration = self.configuration.clone();
        configuration["api_balancer"] = json!(self.balancer);
        if network == PodNetwork::Flannel {
            configuration["pod_network"] = "flannel".into();
        }
        configuration
    }
}

/// The same configuration for an image without Kubernetes in it.
pub(crate) fn fetched(carried: &Value) -> Result<Value, HarnessError> {
    let mut configuration = carried.clone();
    for of_the_image in ["version", "components", "images"] {
        configuration[of_the_image] = Value::Null;
    }
    configuration["fetched_by"] = json!(crate::build::for_nodes("latchkey-components")?);
    Ok(configuration)
}

/// Where the components of a release, their container images and the table of them are.
fn folder(which: Which) -> Result<PathBuf, HarnessError> {
    let configuration = provide(which)?.configuration;
    Ok(PathBuf::from(configuration["components"].as_str().unwrap_or_default()))
}

/// The archive of the Debian, and the folder of what control planes carry.
pub(crate) fn root_and_parts() -> Result<(PathBuf, PathBuf), HarnessError> {
    let (root, _) = base()?;
    Ok((root, folder(Which::This)?))
}

/// Makes what the root and the programs are made of, which takes long the first time and may need root.
pub fn prepare() -> Result<(), HarnessError> {
    provide(Which::This).map(drop)
}

/// All of it, made once and kept by what it is made of.
pub(crate) fn provide(which: Which) -> Result<Kubernetes, HarnessError> {
    let (root, layer) = base()?;
    let balancer = crate::build::for_nodes("latchkey-api-balancer")?;
    Ok(Kubernetes { root, configuration: parts::provide(which, &layer)?, balancer })
}

/// The archive of such a Debian, and that of netfilter's commands in it.
fn base() -> Result<(PathBuf, PathBuf), HarnessError> {
    let run = Run::new("kubernetes-root")?;
    let kernel = Kernel::provision()?;
    let script = programs::directory().join("iptables-layer");
    let text = std::fs::read(&script).map_err(io_error("read", &script))?;
    let packages = PACKAGES.join(" ");
    let parts = [&text[..], packages.as_bytes(), kernel.release.as_bytes()];
    let digest: String = hex::encode(sha256(&parts)).chars().take(16).collect();
    let name = format!("kubernetes_{digest}");
    let layer = cache("roots").join(format!("{name}.iptables.tar"));
    if let Some(file) = debian::kept(&name)? {
        return Ok((file, layer));
    }
    let tree = run.subdirectory("tree")?;
    add_modules(&tree, &kernel)?;
    // kubeadm asks a resolver for nothing here, but the kubelet copies this file; QEMU's answers at this address.
    let resolver = tree.join("etc/resolv.conf");
    resolver.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io_error("make", &resolver))?;
    std::fs::write(&resolver, "nameserver 10.0.2.3\n").map_err(io_error("write", &resolver))?;
    layer.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io_error("make", &layer))?;
    let hook = run.write("hook", hook(&tree, &kernel, &script, &layer))?;
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .map_err(io_error("chmod", &hook))?;
    let packages = [debian::PACKAGES, PACKAGES].concat();
    let file = debian::made(&Base { name: &name, packages: &packages, hook: Some(&hook) })?;
    Ok((file, layer))
}

/// The modules of the very kernel that images boot, and its configuration, which kubeadm looks into.
fn add_modules(tree: &Path, kernel: &Kernel) -> Result<(), HarnessError> {
    let place = tree.join("usr/lib/modules").join(&kernel.release);
    std::fs::create_dir_all(&place).map_err(io_error("make", &place))?;
    output(Command::new("cp").arg("-rT").arg(&kernel.modules).arg(&place))?;
    let configuration = kernel.image.with_file_name(format!("config-{}", kernel.release));
    parts::copy(&configuration, &place.join("config"))
}

/// What mmdebstrap runs when its packages are in place, with the root as its argument. The layer is there before the archive is.
fn hook(tree: &Path, kernel: &Kernel, script: &Path, layer: &Path) -> String {
    let (tree, release, script, layer) = (tree.display(), &kernel.release, script.display(), layer.display());
    format!(
        "#!/bin/sh
set -eu
cp -r --preserve=mode '{tree}/.' \"$1/\"
chroot \"$1\" depmod {release}
cp '{script}' \"$1/iptables-layer\"
chroot \"$1\" /iptables-layer /iptables.tar
cp \"$1/iptables.tar\" '{layer}.new'
mv '{layer}.new' '{layer}'
rm \"$1/iptables-layer\" \"$1/iptables.tar\"
"
    )
}

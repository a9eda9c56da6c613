//! A Debian with Kubernetes in it: programs built from Go modules, containerd, and the container images of a control plane.
//!
//! What the image configuration will bring one day is laid in by hand here: the files of `qemu-tests/kubernetes/root`, the
//! programs, the kernel's modules, and containerd's store, which `qemu-tests/kubernetes/store` makes in the root itself.

mod programs;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_boot_formats::sha256;

use crate::debian::{self, Base};
use crate::error::{HarnessError, io_error};
use crate::kernel::Kernel;
use crate::process::output;
use crate::run::Run;

use programs::Release;
pub use programs::program;

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
/// Programs that run on the node itself.
const ON_THE_NODE: [&str; 3] = ["kubeadm", "kubelet", "kubectl"];
/// Programs in images whose names kubeadm does not say: a shell for pods of tests.
const MORE_IMAGES: [(&str, &str); 1] = [("latchkey.invalid/busybox:1", "busybox")];
/// Commands of Debian that a program calls.
const CALLS: [(&str, &str); 1] = [("kube-proxy", "iptables conntrack")];
/// Where the store is made in the root, and what in it is gone afterwards.
const STORE: &str = "latchkey-store";

/// The archive of such a Debian, made once and kept by what it is made of.
pub(crate) fn base() -> Result<PathBuf, HarnessError> {
    let run = Run::new("kubernetes-root")?;
    let (release, kernel) = (Release::build()?, Kernel::provision()?);
    let tree = run.subdirectory("tree")?;
    let images = images(&release)?;
    lay_out(&tree, &images)?;
    let name = format!("kubernetes-{}_{}", release.version, digest(&tree, &release, &kernel)?);
    if let Some(file) = debian::kept(&name)? {
        return Ok(file);
    }
    add_programs(&tree, &release, &images)?;
    add_modules(&tree, &kernel)?;
    let hook = run.write("hook", hook(&tree, &kernel))?;
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .map_err(io_error("chmod", &hook))?;
    let packages = [debian::PACKAGES, PACKAGES].concat();
    debian::made(&Base { name: &name, packages: &packages, hook: Some(&hook) })
}

/// Reference and program of each image: those that this kubeadm asks for, and ours.
fn images(release: &Release) -> Result<Vec<(String, String)>, HarnessError> {
    let version = format!("--kubernetes-version={}", release.version);
    let mut kubeadm = Command::new(release.program("kubeadm")?);
    let listed = output(kubeadm.args(["config", "images", "list", &version]))?;
    let image = |reference: &str| {
        let name = reference.rsplit('/').next().unwrap_or(reference);
        let program = name.split(':').next().unwrap_or(name);
        (reference.to_owned(), program.to_owned())
    };
    let ours = MORE_IMAGES.iter().map(|(reference, program)| ((*reference).to_owned(), (*program).to_owned()));
    Ok(listed.lines().map(image).chain(ours).collect())
}

/// The files that are the same for every release, and the list of images.
fn lay_out(tree: &Path, images: &[(String, String)]) -> Result<(), HarnessError> {
    let sources = programs::directory();
    output(Command::new("cp").arg("-rT").arg(sources.join("root")).arg(tree))?;
    let place = tree.join(STORE);
    std::fs::create_dir_all(place.join("programs")).map_err(io_error("make", &place))?;
    output(Command::new("cp").arg(sources.join("store")).arg(&place))?;
    let mut list = String::new();
    for (reference, program) in images {
        let calls = CALLS.iter().find(|(caller, _)| caller == program).map_or("", |(_, commands)| commands);
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{reference} {program} {calls}");
    }
    write(&place.join("images"), &list)?;
    let settings = tree.join("etc/containerd/config.toml");
    let text = std::fs::read_to_string(&settings).map_err(io_error("read", &settings))?;
    let pause = images.iter().find(|(_, program)| program == "pause").map(|(reference, _)| reference.as_str());
    let pause = pause.ok_or_else(|| HarnessError::Unusable("kubeadm names no image of pause".into()))?;
    write(&settings, &text.replace("@PAUSE@", pause))?;
    // kubeadm asks a resolver for nothing here, but the kubelet copies this file; QEMU's answers at this address.
    write(&tree.join("etc/resolv.conf"), "nameserver 10.0.2.3\n")
}

/// Names an archive by what goes into it: small files by their content, programs and kernel by their versions.
fn digest(tree: &Path, release: &Release, kernel: &Kernel) -> Result<String, HarnessError> {
    let mut files = Command::new(crate::doctor::need("tar")?);
    files.args(["--create", "--owner=0", "--group=0", "--mtime=@0", "--sort=name", "--to-stdout", "--directory"]);
    let content = output(files.arg(tree).arg("."))?;
    let parts = [content, PACKAGES.join(" "), release.identity()?, kernel.release.clone()];
    let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
    let digest = hex::encode(sha256(&parts));
    Ok(digest.chars().take(16).collect())
}

fn add_programs(tree: &Path, release: &Release, images: &[(String, String)]) -> Result<(), HarnessError> {
    for name in ON_THE_NODE {
        copy(&release.program(name)?, &tree.join("usr/bin").join(name))?;
    }
    for (_, name) in images {
        let program = match name.as_str() {
            "pause" => crate::build::guest("pause")?,
            "busybox" => crate::doctor::need("/bin/busybox")?,
            _ => release.program(name)?,
        };
        copy(&program, &tree.join(STORE).join("programs").join(name))?;
    }
    Ok(())
}

/// The modules of the very kernel that images boot, and its configuration, which kubeadm looks into.
fn add_modules(tree: &Path, kernel: &Kernel) -> Result<(), HarnessError> {
    let place = tree.join("usr/lib/modules").join(&kernel.release);
    std::fs::create_dir_all(&place).map_err(io_error("make", &place))?;
    output(Command::new("cp").arg("-rT").arg(&kernel.modules).arg(&place))?;
    let configuration = kernel.image.with_file_name(format!("config-{}", kernel.release));
    copy(&configuration, &place.join("config"))
}

/// What mmdebstrap runs when its packages are in place, with the root as its argument.
fn hook(tree: &Path, kernel: &Kernel) -> String {
    let (tree, release) = (tree.display(), &kernel.release);
    format!(
        "#!/bin/sh
set -eu
cp -r --preserve=mode '{tree}/.' \"$1/\"
chroot \"$1\" depmod {release}
chroot \"$1\" /{STORE}/store
rm -rf \"$1/{STORE}\"
"
    )
}

fn copy(from: &Path, to: &Path) -> Result<(), HarnessError> {
    to.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io_error("make", to))?;
    std::fs::copy(from, to).map(drop).map_err(io_error("copy", from))
}

fn write(path: &Path, text: &str) -> Result<(), HarnessError> {
    std::fs::write(path, text).map_err(io_error("write", path))
}

//! The folder that an image's configuration names: components, archives of container images, and the version table that names
//! them by their hashes. Made once and kept by what it is made of.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use latchkey_boot_formats::sha256;
use serde_json::{Value, json};

use super::programs::{Release, Which};
use super::{BUSYBOX, FLANNEL};
use crate::error::{HarnessError, io_error};
use crate::kernel::cache;
use crate::process::output;
use crate::run::Run;

/// Programs that run on the node itself.
const ON_THE_NODE: [&str; 3] = ["kubeadm", "kubelet", "kubectl"];
/// Programs in images whose names kubeadm does not say: the network of pods, and a shell for pods of tests.
const MORE_IMAGES: [(&str, &str); 2] = [(FLANNEL, "flanneld"), (BUSYBOX, "busybox")];
/// A program's image that has another one beside it, as the images of Kubernetes have it: etcd its client.
const COMPANIONS: [(&str, &str); 1] = [("etcd", "etcdctl")];
/// What workers have no use for.
const OF_CONTROL_PLANES: [&str; 5] = ["kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];
/// Programs that call netfilter's commands.
const CALL_NETFILTER: [&str; 2] = ["kube-proxy", "flanneld"];
/// No file of these is longer.
const MAX_BYTES: u64 = 1 << 30;
/// What this version of the harness makes of the same programs is the same.
const FORM: &str = "3";

/// The configuration's `kubernetes`.
pub(super) fn provide(which: Which, netfilter: &Path) -> Result<Value, HarnessError> {
    let release = Release::build(which)?;
    let identity = [FORM, &release.identity()?, &netfilter.display().to_string()].concat();
    let digest: String = hex::encode(sha256(&[identity.as_bytes()])).chars().take(16).collect();
    let place = cache("kubernetes").join(format!("parts-{}-{digest}", release.version));
    if !place.is_dir() {
        make(&release, netfilter, &place)?;
    }
    let (minor, _) = release.version.trim_start_matches('v').rsplit_once('.').unwrap_or_default();
    Ok(json!({"version": minor, "components": place, "images": place, "table": place.join("table.json")}))
}

/// Makes it in a directory of its own, and renames that when it is complete.
fn make(release: &Release, netfilter: &Path, place: &Path) -> Result<(), HarnessError> {
    eprintln!("making container images of Kubernetes {} (once)", release.version);
    let work = cache("kubernetes").join(format!(".parts-{}", std::process::id()));
    std::fs::create_dir_all(&work).map_err(io_error("make", &work))?;
    let version = release.version.trim_start_matches('v');
    let mut components = Vec::new();
    for name in ON_THE_NODE {
        let (program, file) = (release.program(name)?, work.join(format!("{name}-{version}")));
        symlink(&program, &file).map_err(io_error("link", &file))?;
        let install = json!({"file": format!("/usr/bin/{name}")});
        let hash = hash(&file)?;
        components.push(json!({
            "name": name, "version": version, "sha256": hash, "max_bytes": MAX_BYTES, "install": install,
            "roles": roles(name),
        }));
    }
    let mut images = Vec::new();
    for (reference, program) in named_images(release)? {
        let (name, tag) = reference.rsplit_once(':').unwrap_or_default();
        let file = work.join(format!("{}-{tag}.tar", name.rsplit('/').next().unwrap_or_default()));
        let netfilter = CALL_NETFILTER.contains(&program.as_str()).then_some(netfilter);
        let companion = COMPANIONS.iter().find(|(of, _)| *of == program);
        let companion = companion.map(|(_, name)| release.program(name)).transpose()?;
        archive(&binary(release, &program)?, &program, companion.as_deref(), netfilter, None, &file)?;
        let archive = json!({"sha256": hash(&file)?, "max_bytes": MAX_BYTES});
        images.push(json!({"name": name, "tag": tag, "archive": archive, "roles": roles(&program)}));
    }
    let release = json!({"version": version, "components": components, "images": images});
    let table = json!({"schema": 1, "architecture": "x86_64", "versions": [release]});
    let path = work.join("table.json");
    std::fs::write(&path, table.to_string()).map_err(io_error("write", &path))?;
    match std::fs::rename(&work, place) {
        // Another process was faster, with the same parts.
        Err(_) if place.is_dir() => std::fs::remove_dir_all(&work).map_err(io_error("remove", &work)),
        done => done.map_err(io_error("make", place)),
    }
}

fn roles(program: &str) -> &'static [&'static str] {
    if OF_CONTROL_PLANES.contains(&program) { &["control-plane"] } else { &["control-plane", "worker"] }
}

/// Reference and program of each image: those that this kubeadm asks for, and ours.
fn named_images(release: &Release) -> Result<Vec<(String, String)>, HarnessError> {
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

fn binary(release: &Release, program: &str) -> Result<PathBuf, HarnessError> {
    match program {
        "pause" => Ok(crate::build::guest("pause")?),
        "busybox" => crate::doctor::need("/bin/busybox"),
        _ => release.program(program),
    }
}

/// An image of one program, which is in its PATH, under a name of its own.
#[cfg(feature = "centre")]
pub(crate) fn container_image(binary: &Path, program: &str, tag: &str, out: &Path) -> Result<(), HarnessError> {
    archive(binary, program, None, None, Some(tag), out)
}

/// An image as `docker save` writes it: one layer with the program, and below it one with netfilter's commands, if it calls these.
fn archive(
    binary: &Path,
    program: &str,
    companion: Option<&Path>,
    netfilter: Option<&Path>,
    tag: Option<&str>,
    out: &Path,
) -> Result<(), HarnessError> {
    let run = Run::new("container-image")?;
    // CoreDNS and flannel are called by these paths, the others by name.
    let entry = match program {
        "coredns" => "/coredns".to_owned(),
        "flanneld" => "/opt/bin/flanneld".to_owned(),
        _ => format!("/usr/local/bin/{program}"),
    };
    let tree = run.subdirectory("tree")?;
    for directory in ["etc", "tmp", "var"] {
        let path = tree.join(directory);
        std::fs::create_dir_all(&path).map_err(io_error("make", &path))?;
    }
    let place = tree.join(entry.trim_start_matches('/'));
    let beside = companion.map(|file| (file, place.with_file_name(file.file_name().unwrap_or_default())));
    for (file, place) in beside.into_iter().chain([(binary, place)]) {
        copy(file, &place)?;
        std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .map_err(io_error("chmod", &place))?;
    }
    let directory = run.subdirectory("image")?;
    tar(&tree, &["."], &directory.join("program.tar"))?;
    let mut layers = vec!["program.tar"];
    if let Some(netfilter) = netfilter {
        copy(netfilter, &directory.join("netfilter.tar"))?;
        layers.insert(0, "netfilter.tar");
    }
    let mut ids = Vec::new();
    for layer in &layers {
        ids.push(format!("sha256:{}", hash(&directory.join(layer))?));
    }
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {"Entrypoint": [entry], "Env": [path]},
        "rootfs": {"type": "layers", "diff_ids": ids},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": tag.as_slice(), "Layers": layers}]);
    for (name, content) in [("config.json", config), ("manifest.json", manifest)] {
        let path = directory.join(name);
        std::fs::write(&path, content.to_string()).map_err(io_error("write", &path))?;
    }
    tar(&directory, &[&["manifest.json", "config.json"], &layers[..]].concat(), out)
}

fn tar(directory: &Path, what: &[&str], out: &Path) -> Result<(), HarnessError> {
    let mut tar = Command::new(crate::doctor::need("tar")?);
    tar.args(["--create", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--sort=name", "--file"]);
    output(tar.arg(out).arg("--directory").arg(directory).args(what)).map(drop)
}

fn hash(file: &Path) -> Result<String, HarnessError> {
    let content = std::fs::read(file).map_err(io_error("read", file))?;
    Ok(hex::encode(sha256(&[&content])))
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<(), HarnessError> {
    to.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io_error("make", to))?;
    std::fs::copy(from, to).map(drop).map_err(io_error("copy", from))
}

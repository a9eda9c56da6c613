//! A real Debian as the operating system of test machines: systemd as process 1, made by mmdebstrap and the image builder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::error::{HarnessError, io_error};
use crate::kernel::cache;
use crate::kubernetes::{PodNetwork, Which};
use crate::process::{output, output_within};
use crate::run::Run;

/// What the root is made of, besides what is essential to Debian.
pub(crate) const PACKAGES: &[&str] = &[
    "systemd-sysv",
    "udev",
    "dbus",
    // Brings mkfs.ext4 and fsck.ext4.
    "e2fsprogs",
    // Its udev rules know only mappings that were made through libdevmapper. containerd brings it along.
    "dmsetup",
    // Brings the libraries with which systemd's own services use the TPM, if nobody stops them.
    "tpm2-tools",
    "iproute2",
];
/// A network that is slow, twice as many packages: it ends all the same.
const MAKING: Duration = Duration::from_mins(30);
/// Runs what a test wants to know from the system, after stage 2.
const REPORT: &str = "[Unit]
Description=What the test wants to know
After=latchkey-agent.service
[Service]
Type=oneshot
ExecStart=/usr/bin/report
StandardOutput=tty
TTYPath=/dev/console
";
const REPORT_UNIT: &str = "usr/lib/systemd/system/test-report.service";
const REPORT_LINK: (&str, &str) =
    ("usr/lib/systemd/system/multi-user.target.wants/test-report.service", "../test-report.service");

/// A root file system, and what the image brings for it.
#[derive(Debug, Clone)]
pub struct DebianRoot {
    /// The image configuration's `systemd`.
    pub systemd: Value,
    /// The cluster step, and what it needs in the root.
    pub step: Step,
}

/// The cluster step of a Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This script.
    Hook(&'static str),
    /// kubeadm, in a root with [Kubernetes](crate::kubernetes).
    Kubeadm(PodNetwork),
    /// This script, in such a root: what makes a cluster is typed later.
    ByHand(&'static str),
}

impl Step {
    /// The words of the command line that choose it.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Hook(_) | Self::ByHand(_) => "latchkey.cluster_step=command latchkey.command=/usr/bin/hook",
            Self::Kubeadm(_) => "latchkey.cluster_step=kubeadm",
        }
    }

    /// What makes the network of pods, where the root has Kubernetes.
    pub(crate) const fn pods(self) -> Option<PodNetwork> {
        match self {
            Self::Hook(_) => None,
            Self::Kubeadm(network) => Some(network),
            Self::ByHand(_) => Some(PodNetwork::Bridge),
        }
    }
}

/// A Debian that is made once and kept.
pub(crate) struct Base<'a> {
    /// What names it beside the suite.
    pub(crate) name: &'a str,
    pub(crate) packages: &'a [&'a str],
    /// Called with the root once the packages are in it.
    pub(crate) hook: Option<&'a Path>,
}

impl DebianRoot {
    /// Writes the archive `name` into the run's directory: Debian, the cluster step, the programs, and a unit that says `OS stage2 STATUS`
    /// and runs the commands `then`.
    pub(crate) fn build(
        &self,
        run: &Run,
        name: &str,
        then: &str,
        programs: &[(&str, Vec<u8>)],
    ) -> Result<(), HarnessError> {
        let base = match self.step.pods() {
            None => made(&Base { name: &PACKAGES.join("_"), packages: PACKAGES, hook: None })?,
            Some(_) => crate::kubernetes::provide(Which::This)?.root,
        };
        let archive = run.file(name);
        std::fs::copy(&base, &archive).map_err(io_error("copy", &base))?;
        let status = "systemctl show --property=ExecMainStatus --value latchkey-agent.service";
        let report = format!("#!/bin/sh\necho OS stage2 $({status})\n{then}\n").into_bytes();
        let tree = run.subdirectory("root.tree")?;
        let ours = [("usr/bin/report", &report[..], 0o755), (REPORT_UNIT, REPORT.as_bytes(), 0o644)];
        let hook = match self.step {
            Step::Hook(script) | Step::ByHand(script) => Some(("usr/bin/hook", script.as_bytes(), 0o755)),
            Step::Kubeadm(_) => None,
        };
        let lan = self.step.pods().map_or_else(Vec::new, |_| crate::lan::files());
        let networks = lan.iter().map(|(path, content)| (path.as_str(), content.as_bytes(), 0o644));
        let guests = programs.iter().map(|(path, program)| (path.trim_start_matches('/'), &program[..], 0o755));
        let mut paths = Vec::new();
        for (path, content, mode) in ours.into_iter().chain(hook).chain(networks).chain(guests) {
            lay(&tree.join(path), content, mode)?;
            paths.push(path);
        }
        let links = if lan.is_empty() { &[][..] } else { &crate::lan::LINKS };
        for (path, to) in [REPORT_LINK].iter().chain(links) {
            let link = tree.join(path);
            link.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io_error("make", &link))?;
            std::os::unix::fs::symlink(to, &link).map_err(io_error("link", &link))?;
            paths.push(path);
        }
        let mut tar = Command::new(crate::doctor::need("tar")?);
        tar.args(["--append", "--owner=0", "--group=0", "--mtime=@0", "--file"]).arg(&archive).arg("-C").arg(&tree);
        // With the directories that they are in: of several entries the builder takes the first, which is Debian's.
        let directories =
            paths.iter().flat_map(|path| Path::new(path).ancestors().skip(1)).filter(|path| *path != Path::new(""));
        let directories: BTreeSet<&Path> = directories.collect();
        output(tar.arg("--no-recursion").args(directories).args(&paths)).map(drop)
    }
}

fn lay(path: &Path, content: &[u8], mode: u32) -> Result<(), HarnessError> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(io_error("make", path))?;
    std::fs::write(path, content).map_err(io_error("write", path))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, mode).map_err(io_error("chmod", path))
}

/// The one of this name that was made before.
pub(crate) fn kept(name: &str) -> Result<Option<PathBuf>, HarnessError> {
    let file = cache("roots").join(format!("{}_{name}.tar", suite()?));
    Ok(file.is_file().then_some(file))
}

/// Debian itself, made once and kept.
pub(crate) fn made(base: &Base<'_>) -> Result<PathBuf, HarnessError> {
    if let Some(file) = kept(base.name)? {
        return Ok(file);
    }
    let (suite, packages, cache) = (suite()?, base.packages.join(","), cache("roots"));
    let file = cache.join(format!("{suite}_{}.tar", base.name));
    eprintln!("making a Debian {suite} with {packages} (once)");
    std::fs::create_dir_all(&cache).map_err(io_error("make", &cache))?;
    // Renamed when complete, so that half of it is never used.
    let work = cache.join(format!(".{}-{suite}.tar", std::process::id()));
    let mut mmdebstrap = Command::new(crate::doctor::need("mmdebstrap")?);
    mmdebstrap.args(["--quiet", "--variant=minbase", &format!("--include={packages}")]);
    mmdebstrap.args(base.hook.map(|hook| format!("--customize-hook={}", hook.display())));
    let made = output_within(mmdebstrap.arg(&suite).arg(&work), MAKING);
    let moved = made.and_then(|_| std::fs::rename(&work, &file).map_err(io_error("make", &file)));
    let _ = std::fs::remove_file(&work);
    moved.map(|()| file)
}

/// This machine's, or the one that `LATCHKEY_DEBIAN` names.
fn suite() -> Result<String, HarnessError> {
    std::env::var("LATCHKEY_DEBIAN").or_else(|_| this_suite())
}

fn this_suite() -> Result<String, HarnessError> {
    let path = Path::new("/etc/os-release");
    let release = std::fs::read_to_string(path).map_err(io_error("read", path))?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    suite.map(str::to_owned).ok_or_else(|| HarnessError::Unusable("/etc/os-release has no VERSION_CODENAME".into()))
}

//! Programs and kernel modules that a node of Kubernetes needs: from the version table, or from the root.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use latchkey_kubernetes::{Component, InstallPath, Role, Roles};

use super::error::KubernetesError;
use crate::tree::{Entry, EntryKind, Tree};

/// Where programs are looked for in a root.
const PATH: [&str; 4] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
const IN_PATH: &str = "/usr/sbin, /usr/bin or /usr/local";
/// Where network plugins are: as Debian packages them, and as they come themselves.
const CNI: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];
/// Programs of a release of Kubernetes, which a root has none of that gets one.
const OF_A_RELEASE: [&str; 2] = ["kubelet", "kubectl"];
/// What makes the network of pods until an add-on does.
const PLUGINS: [&str; 4] = ["bridge", "host-local", "loopback", "portmap"];
/// Programs that only a root brings: who needs them, and what to do for them in Debian.
const TOOLS: [(&str, &str, &str); 8] = [
    ("mount", "the kubelet", "add a package that has it (Debian: mount)"),
    ("umount", "the kubelet", "add a package that has it (Debian: mount)"),
    ("losetup", "kubeadm", "add a package that has it (Debian: mount)"),
    ("cp", "kubeadm", "add a package that has it (Debian: coreutils)"),
    ("ip", "the network of pods", "add a package that has it (Debian: iproute2)"),
    ("iptables", "the network of pods", "add a package that has it (Debian: iptables)"),
    ("conntrack", "kube-proxy", "add a package that has it (Debian: conntrack)"),
    ("modprobe", "the network of pods", "add a package that has it (Debian: kmod)"),
];
/// Modules of the kernel.
const MODULES: [&str; 2] = ["overlay", "br_netfilter"];
/// With which the file system of container images is mounted.
const LOOP: &str = "loop";
/// Debian's has 10 KB.
const MAX_BUILT_IN: u64 = 1 << 20;

/// Where the programs are that units and configurations name.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(super) kubelet: String,
    pub(super) containerd: String,
    /// Whether the root brings the container runtime, and its unit.
    pub(super) containerd_of_root: bool,
    pub(super) runc: String,
    /// The directory of the network plugins.
    pub(super) cni: String,
}

impl Programs {
    /// In the table's components, or else in the root, or else in the directory `fetched`, where nodes get what the image lacks. There
    /// the kubelet and kubectl are in any case.
    pub(super) fn find<'a>(
        components: impl Iterator<Item = &'a Component>,
        fetched: Option<&str>,
        root: &Tree,
        roles: &Roles,
    ) -> Result<Self, KubernetesError> {
        let brought: Vec<&str> = components.flat_map(Component::paths).map(InstallPath::as_str).collect();
        let of_table = |name: &str| {
            let found = brought.iter().find(|path| path.rsplit('/').next() == Some(name));
            found.map(|path| (*path).to_owned())
        };
        let program = |what: &'static str, user, package| {
            let of_root = || in_root(root, &PATH, what).map(|directory| format!("{directory}/{what}"));
            of_table(what)
                .or_else(|| of_root().filter(|_| fetched.is_none() || !OF_A_RELEASE.contains(&what)))
                .or_else(|| fetched.map(|place| format!("{place}/{what}")))
                .ok_or(KubernetesError::NoProgram { what, places: IN_PATH, user, package })
        };
        let runtime = "add a package that has it (Debian: containerd), or name it in the version table";
        program("containerd-shim-runc-v2", "containerd", runtime)?;
        if roles.iter().any(|role| role == Role::ControlPlane) {
            program("kubectl", "the first boot of a control plane", "name it in the version table")?;
        }
        let whole = |directory: &&&str| {
            let has = |name: &&&str| {
                brought.contains(&format!("{directory}/{name}").as_str())
                    || is_program(root, &format!("{directory}/{name}"))
            };
            PLUGINS.iter().all(|name| has(&name))
        };
        let cni = CNI.iter().find(whole).copied().or(fetched).ok_or(KubernetesError::NoProgram {
            what: "bridge, host-local, loopback and portmap together",
            places: "/usr/lib/cni or /opt/cni/bin",
            user: "the network of pods",
            package: "add a package that has them (Debian: containernetworking-plugins), or name them in the version table",
        })?;
        Ok(Self {
            kubelet: program("kubelet", "a node", "name it in the version table")?,
            containerd: program("containerd", "the kubelet", runtime)?,
            containerd_of_root: of_table("containerd").is_none() && in_root(root, &PATH, "containerd").is_some(),
            runc: program(
                "runc",
                "containerd",
                "add a package that has it (Debian: runc), or name it in the version table",
            )?,
            cni: cni.to_owned(),
        })
    }

    /// What only a root brings.
    pub(super) fn check(&self, root: &Tree) -> Result<(), KubernetesError> {
        for (what, user, package) in TOOLS {
            if in_root(root, &PATH, what).is_none() {
                return Err(KubernetesError::NoProgram { what, places: IN_PATH, user, package });
            }
        }
        if !is_program(root, "/lib/systemd/systemd") && !is_program(root, "/usr/lib/systemd/systemd") {
            let remedy = "give a root that systemd runs";
            return Err(KubernetesError::NoFile { path: "/usr/lib/systemd/systemd", user: "a node", remedy });
        }
        let units = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
        let unit = |directory: &str| root.find(format!("{directory}/containerd.service").as_bytes()).is_some();
        if self.containerd_of_root && !units.into_iter().any(unit) {
            let remedy = "add it to the root, or name containerd in the version table, which brings a unit";
            return Err(KubernetesError::NoFile { path: "containerd.service", user: "the root's containerd", remedy });
        }
        if root.at(b"etc/resolv.conf").is_none() {
            let remedy = "put one into the root, or a link to where one is made at boot";
            return Err(KubernetesError::NoFile { path: "/etc/resolv.conf", user: "every pod", remedy });
        }
        Ok(())
    }
}

/// Whether the root has the kernel's modules, or the kernel has them built in, as the list beside its modules says.
pub(super) fn modules(
    root: &Tree,
    kernel: &str,
    modules: &Path,
    container_images: bool,
) -> Result<(), KubernetesError> {
    let mut built_in = String::new();
    // Not every kernel comes with the list.
    if let Ok(file) = File::open(modules.join("modules.builtin")) {
        drop(file.take(MAX_BUILT_IN).read_to_string(&mut built_in));
    }
    let directory = format!("/lib/modules/{kernel}");
    let here = root.find(directory.as_bytes()).map(|(path, _)| [path.as_slice(), b"/"].concat());
    for name in MODULES.into_iter().chain(container_images.then_some(LOOP)) {
        let file = format!("/{name}.ko");
        let is_it = |path: &[u8]| {
            let (last, start) =
                (path.rsplit(|byte| *byte == b'/').next().unwrap_or_default(), file.trim_start_matches('/'));
            here.as_ref().is_some_and(|here| path.starts_with(here)) && last.starts_with(start.as_bytes())
        };
        if !built_in.lines().any(|line| line.ends_with(&file)) && !root.iter().any(|(path, _)| is_it(path)) {
            return Err(KubernetesError::NoModule { name, kernel: kernel.to_owned() });
        }
    }
    Ok(())
}

fn in_root(root: &Tree, directories: &[&'static str], name: &str) -> Option<&'static str> {
    directories.iter().copied().find(|directory| is_program(root, &format!("{directory}/{name}")))
}

fn is_program(root: &Tree, path: &str) -> bool {
    matches!(root.find(path.as_bytes()), Some((_, Entry { mode, what: EntryKind::File(..) })) if mode & 0o111 != 0)
}

//! Units and configuration of a node of Kubernetes.

use serde::Deserialize;

use super::fetched;
use super::programs::Programs;
use crate::systemd::{Addition, AdditionKind};
use crate::tree::Tree;

const SYSTEM: &str = "usr/lib/systemd/system";
const CONTAINERD: &str = include_str!("../../kubernetes/containerd.service");
const CONTAINERD_DROP_IN: &str = include_str!("../../kubernetes/containerd-drop-in.conf");
const CONTAINERD_CONFIG: &str = include_str!("../../kubernetes/containerd.toml");
const KUBELET: &str = include_str!("../../kubernetes/kubelet.service");
const KUBEADM: &str = include_str!("../../kubernetes/10-kubeadm.conf");
const SYSCTL: &str = include_str!("../../kubernetes/sysctl.conf");
const MODULES: &str = include_str!("../../kubernetes/modules-load.conf");
const BRIDGE: &str = include_str!("../../kubernetes/99-latchkey-bridge.conflist");
const POD_NETWORK: &str = include_str!("../../kubernetes/pod-network");
const POD_NETWORK_PATH: &str = include_str!("../../kubernetes/latchkey-pod-network.path");
const POD_NETWORK_SERVICE: &str = include_str!("../../kubernetes/latchkey-pod-network.service");
const ENROL_SERVICE: &str = include_str!("../../kubernetes/latchkey-enrol.service");
const CERTIFICATES_SERVICE: &str = include_str!("../../kubernetes/latchkey-certificates.service");
const CERTIFICATES_TIMER: &str = include_str!("../../kubernetes/latchkey-certificates.timer");
const CERTIFICATES_AFTER_START: &str = include_str!("../../kubernetes/latchkey-certificates-after-start.timer");
const STORE_MOUNT: &str = include_str!("../../kubernetes/usr-lib-latchkey-containers.mount");
const STORE_SERVICE: &str = include_str!("../../kubernetes/latchkey-container-images.service");
const STORE_DROP_IN: &str = include_str!("../../kubernetes/containerd-images.conf");
const STORE_MODULES: &str = include_str!("../../kubernetes/modules-load-images.conf");
const STORE_SCRIPT: &str = include_str!("../../kubernetes/container-images");
/// The file system with the container images; it is mounted at the same path without its ending.
pub(super) const STORE: &str = "usr/lib/latchkey/containers.squashfs";
/// What tells it from another one.
pub(super) const STORE_ID: &str = "usr/lib/latchkey/containers.id";
/// Where the container runtime looks for the network of pods: it takes the first file by name.
const NETWORKS: &str = "etc/cni/net.d";

/// What makes the network of pods, in a root that has none of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PodNetwork {
    /// A bridge on each node, until an add-on writes its configuration: pods of one node reach each other.
    #[default]
    Bridge,
    /// flannel's daemon, from `charts/flannel`: a node is ready when that has leased addresses, and no pod is on another network.
    Flannel,
}

/// What is added to a root besides the components.
pub(super) fn files(pause: &str, programs: &Programs, root: &Tree, network: PodNetwork) -> Vec<Addition> {
    let filled = |text: &str| {
        text.replace("@CONTAINERD@", &programs.containerd)
            .replace("@KUBELET@", &programs.kubelet)
            .replace("@RUNC@", &programs.runc)
            .replace("@CNI@", &programs.cni)
            .replace("@PAUSE@", pause)
    };
    let file = |path: &str, text: &str| Addition {
        path: path.to_owned(),
        what: AdditionKind::File(0o644, filled(text).into_bytes()),
    };
    let unit = |name: &str, text: &str| file(&format!("{SYSTEM}/{name}"), text);
    let mut files = vec![
        file("usr/lib/latchkey/containerd.toml", CONTAINERD_CONFIG),
        file("usr/lib/modules-load.d/latchkey-kubernetes.conf", MODULES),
        file("usr/lib/sysctl.d/90-latchkey-kubernetes.conf", SYSCTL),
        unit("kubelet.service", KUBELET),
        unit("kubelet.service.d/10-kubeadm.conf", KUBEADM),
        // Also where the root has no container images: the one before may have had some.
        unit("latchkey-container-images.service", STORE_SERVICE),
        unit("containerd.service.d/60-latchkey-images.conf", STORE_DROP_IN),
        Addition {
            path: "usr/lib/latchkey/container-images".to_owned(),
            what: AdditionKind::File(0o755, STORE_SCRIPT.as_bytes().to_vec()),
        },
        Addition { path: "etc/kubernetes/manifests".to_owned(), what: AdditionKind::Directory },
    ];
    // One that is a component comes up with the kubelet, when it is verified.
    if !programs.containerd.starts_with(fetched::PLACE) {
        files.push(Addition {
            path: format!("{SYSTEM}/multi-user.target.wants/containerd.service"),
            what: AdditionKind::Link("../containerd.service".to_owned()),
        });
    }
    if programs.containerd_of_root {
        files.push(unit("containerd.service.d/50-latchkey.conf", CONTAINERD_DROP_IN));
    } else {
        files.push(unit("containerd.service", CONTAINERD));
    }
    if !has_network(root) {
        files.extend(pod_network(network));
    }
    files
}

/// What registers the cluster that a control plane founded.
pub(super) fn enrolment() -> Vec<Addition> {
    let name = "latchkey-enrol.service";
    vec![
        Addition {
            path: format!("{SYSTEM}/{name}"),
            what: AdditionKind::File(0o644, ENROL_SERVICE.as_bytes().to_vec()),
        },
        Addition {
            path: format!("{SYSTEM}/multi-user.target.wants/{name}"),
            what: AdditionKind::Link(format!("../{name}")),
        },
    ]
}

/// What renews the certificates of a control plane that is not restarted for months.
pub(super) fn certificates() -> Vec<Addition> {
    let unit = |name: &str, text: &str| Addition {
        path: format!("{SYSTEM}/{name}"),
        what: AdditionKind::File(0o644, text.as_bytes().to_vec()),
    };
    let timers = [
        ("latchkey-certificates.timer", CERTIFICATES_TIMER),
        ("latchkey-certificates-after-start.timer", CERTIFICATES_AFTER_START),
    ];
    let mut files = vec![unit("latchkey-certificates.service", CERTIFICATES_SERVICE)];
    for (name, text) in timers {
        files.push(unit(name, text));
        files.push(Addition {
            path: format!("{SYSTEM}/timers.target.wants/{name}"),
            what: AdditionKind::Link(format!("../{name}")),
        });
    }
    files
}

fn pod_network(network: PodNetwork) -> Vec<Addition> {
    let file = |path: &str, mode, text: &str| Addition {
        path: path.to_owned(),
        what: AdditionKind::File(mode, text.as_bytes().to_vec()),
    };
    let mut files = vec![
        file("usr/lib/latchkey/pod-network", 0o755, POD_NETWORK),
        file(&format!("{SYSTEM}/latchkey-pod-network.path"), 0o644, POD_NETWORK_PATH),
        file(&format!("{SYSTEM}/latchkey-pod-network.service"), 0o644, POD_NETWORK_SERVICE),
    ];
    for unit in ["latchkey-pod-network.path", "latchkey-pod-network.service"] {
        files.push(Addition {
            path: format!("{SYSTEM}/multi-user.target.wants/{unit}"),
            what: AdditionKind::Link(format!("../{unit}")),
        });
    }
    if network == PodNetwork::Bridge {
        files.push(file(&format!("{NETWORKS}/99-latchkey-bridge.conflist"), 0o644, BRIDGE));
    }
    files
}

/// What container images of the root need, besides these themselves and what makes them known to the container runtime.
pub(super) fn container_store() -> Vec<Addition> {
    let file = |path: &str, text: &str| Addition {
        path: path.to_owned(),
        what: AdditionKind::File(0o644, text.as_bytes().to_vec()),
    };
    vec![
        file(&format!("{SYSTEM}/usr-lib-latchkey-containers.mount"), STORE_MOUNT),
        file("usr/lib/modules-load.d/latchkey-images.conf", STORE_MODULES),
        Addition { path: STORE.trim_end_matches(".squashfs").to_owned(), what: AdditionKind::Directory },
    ]
}

/// Whether the root says what the network of pods is.
fn has_network(root: &Tree) -> bool {
    let read = |name: &[u8]| [&b".conf"[..], b".conflist", b".json"].iter().any(|ending| name.ends_with(ending));
    root.names(NETWORKS.as_bytes()).into_iter().any(read)
}

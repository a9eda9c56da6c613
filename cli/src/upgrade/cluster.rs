//! How the nodes of a cluster stand to the version that it goes to: read off the cluster each time, and noted nowhere else.

use serde::{Deserialize, Serialize};

use crate::api_server::KubernetesNode;
use crate::stock::{Conditions, Kubectl, Scope, StockError, Version};

/// On nodes that this command cordoned: the version that they go to.
pub(super) const MARK: &str = "latchkey.dev/upgrade";
/// What a control plane's agent writes when kubeadm is done.
const UPGRADED: &str = "latchkey.dev/kubernetes";
const NAMESPACE: &str = "kube-system";
/// kubeadm's label for static pods of control planes.
const LABEL: &str = "tier=control-plane";
const ETCD: &str = "etcd";
/// Those that have Kubernetes' own version.
const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Where a cluster goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// `1.35`.
    pub(super) minor: String,
    /// What the version table has of it.
    pub(super) exact: Version,
}

impl Target {
    pub(super) fn is_of(&self, version: Version) -> bool {
        (version.major, version.minor) == (self.exact.major, self.exact.minor)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    ControlPlane,
    Worker,
}

impl Role {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
        }
    }
}

#[derive(Deserialize)]
struct Pod {
    metadata: PodMetadata,
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct PodMetadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    node_name: String,
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    image: String,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    conditions: Conditions,
}

/// A node, and on a control plane what runs there.
pub(super) struct Machine {
    pub(super) node: KubernetesNode,
    pub(super) role: Role,
    pods: Vec<StaticPod>,
}

struct StaticPod {
    component: String,
    version: Option<Version>,
    is_ready: bool,
}

/// What the cluster shows.
pub(super) struct Cluster {
    /// Control planes first, each kind by name: the order in which they go.
    pub(super) machines: Vec<Machine>,
}

impl Cluster {
    pub(super) async fn look(kubectl: &Kubectl) -> Result<Self, StockError> {
        let nodes: Vec<KubernetesNode> = kubectl.list("nodes", Scope::Cluster).await?;
        let pods: Vec<Pod> = kubectl.labelled("pods", Scope::Namespace(NAMESPACE), LABEL).await?;
        Ok(Self::of(nodes, &pods))
    }

    fn of(nodes: Vec<KubernetesNode>, pods: &[Pod]) -> Self {
        let machine = |node: KubernetesNode| {
            let role = if node.is_control_plane() { Role::ControlPlane } else { Role::Worker };
            let pods = pods.iter().filter_map(|pod| static_pod(pod, node.name())).collect();
            Machine { node, role, pods }
        };
        let mut machines: Vec<Machine> = nodes.into_iter().map(machine).collect();
        machines.sort_by(|a, b| (a.role, a.node.name()).cmp(&(b.role, b.node.name())));
        Self { machines }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.node.name() == name)
    }

    pub(super) fn control_planes(&self) -> impl Iterator<Item = &Machine> {
        self.machines.iter().filter(|machine| machine.role == Role::ControlPlane)
    }
}

/// kubeadm's static pods have the name of their component and of their node; what is called otherwise is none.
fn static_pod(pod: &Pod, node: &str) -> Option<StaticPod> {
    let [container] = &pod.spec.containers[..] else { return None };
    let component = container.name.clone();
    let known = component == ETCD || COMPONENTS.contains(&&*component);
    if !known || pod.spec.node_name != node || pod.metadata.name != format!("{component}-{node}") {
        return None;
    }
    let version = container.image.rsplit_once(':').and_then(|(_, tag)| tag.parse().ok());
    Some(StaticPod { component, version, is_ready: pod.status.conditions.is_true("Ready") })
}

impl Machine {
    pub(super) fn name(&self) -> &str {
        self.node.name()
    }

    pub(super) fn kubelet(&self) -> Option<Version> {
        self.node.kubelet().parse().ok()
    }

    pub(super) fn api_server(&self) -> Option<Version> {
        self.pods.iter().find(|pod| pod.component == "kube-apiserver")?.version
    }

    /// Whether this command cordoned it for this upgrade. A node can write its own annotations, so a mark changes nothing of whose turn
    /// it is beyond the nodes of its role.
    pub(super) fn is_marked(&self, target: &Target) -> bool {
        self.node.annotation(MARK) == Some(&*target.minor)
    }

    /// Whether the machine was restarted into the version.
    pub(super) fn has(&self, target: &Target) -> bool {
        self.kubelet().is_some_and(|kubelet| target.is_of(kubelet))
    }

    /// What it does not do well, whatever its version; a control plane counts for the others.
    pub(super) fn ails(&self) -> Option<String> {
        if !self.node.is_ready() {
            return Some("it is not ready".to_owned());
        }
        let pod = self.pods.iter().find(|pod| !pod.is_ready)?;
        Some(format!("its {} is not ready", pod.component))
    }

    /// What is still missing until it is a node of the version; nothing if it is one.
    pub(super) fn lacks(&self, target: &Target) -> Option<String> {
        if !self.has(target) {
            return Some(format!("its kubelet is {}", shown(self.node.kubelet())));
        }
        if self.role == Role::ControlPlane {
            for component in COMPONENTS {
                let pod = self.pods.iter().find(|pod| pod.component == component);
                match pod.map(|pod| pod.version) {
                    Some(Some(version)) if target.is_of(version) => {}
                    Some(Some(version)) => return Some(format!("its {component} is {version}")),
                    Some(None) => return Some(format!("what its {component} is cannot be read")),
                    None => return Some(format!("its {component} does not run")),
                }
            }
        }
        if let Some(ails) = self.ails() {
            return Some(ails);
        }
        let upgraded = || self.node.annotation(UPGRADED)?.parse().ok();
        (self.role == Role::ControlPlane && !upgraded().is_some_and(|version| target.is_of(version)))
            .then(|| "kubeadm is not done there".to_owned())
    }
}

fn shown(version: &str) -> &str {
    if version.is_empty() { "unknown" } else { version }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target { minor: "1.35".into(), exact: "1.35.1".parse().unwrap() }
    }

    fn node(name: &str, more: &str) -> KubernetesNode {
        let text = r#"{"metadata": {"name": "NAME", "labels": {"node-role.kubernetes.io/control-plane": ""},
            "annotations": {"latchkey.dev/kubernetes": "v1.35.1"}}, "spec": {},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.35.1"}}}"#;
        let (before, after) = more.split_once('>').unwrap_or_default();
        assert!(text.contains(before), "{before}");
        serde_json::from_str(&text.replace(before, after).replace("NAME", name)).unwrap()
    }

    fn pod(component: &str, node: &str, tag: &str, ready: &str) -> Pod {
        let text = format!(
            r#"{{"metadata": {{"name": "{component}-{node}"}}, "spec": {{"nodeName": "{node}", "containers":
            [{{"name": "{component}", "image": "r:5000/{component}:{tag}"}}]}},
            "status": {{"conditions": [{{"type": "Ready", "status": "{ready}"}}]}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn pods(node: &str) -> Vec<Pod> {
        COMPONENTS.map(|component| pod(component, node, "v1.35.0", "True")).into_iter().collect()
    }

    fn lacks(more: &str, pods: &[Pod]) -> Option<String> {
        Cluster::of(vec![node("a", more)], pods).machines[0].lacks(&target())
    }

    #[test]
    fn a_control_plane_is_done_when_all_of_it_has_the_version_and_kubeadm_said_so() {
        assert_eq!(lacks("", &pods("a")), None);
        for (more, what) in [
            ("v1.35.1\"}}>v1.34.4\"}}", "its kubelet is v1.34.4"),
            ("v1.35.1\"}}>\"}}", "its kubelet is unknown"),
            ("\"True\">\"False\"", "it is not ready"),
            ("latchkey.dev/kubernetes>other", "kubeadm is not done there"),
        ] {
            assert_eq!(lacks(more, &pods("a")).as_deref(), Some(what), "{more}");
        }
        assert_eq!(lacks("", &pods("b")).unwrap(), "its kube-apiserver does not run");
        let mut old = pods("a");
        old[1] = pod("kube-controller-manager", "a", "v1.34.4", "True");
        assert_eq!(lacks("", &old).unwrap(), "its kube-controller-manager is 1.34.4");
        old[1] = pod("kube-controller-manager", "a", "latest", "True");
        assert_eq!(lacks("", &old).unwrap(), "what its kube-controller-manager is cannot be read");
        let mut stuck = pods("a");
        stuck.push(pod("etcd", "a", "3.6.5-0", "False"));
        assert_eq!(lacks("", &stuck).unwrap(), "its etcd is not ready");
    }

    #[test]
    fn control_planes_come_first_and_a_worker_needs_its_kubelet_alone() {
        let worker = r#""node-role.kubernetes.io/control-plane": "">"other": """#;
        let nodes = vec![node("a", worker), node("z", ""), node("c", "")];
        let cluster = Cluster::of(nodes, &[]);
        assert_eq!(cluster.machines.iter().map(Machine::name).collect::<Vec<_>>(), ["c", "z", "a"]);
        assert_eq!(cluster.find("a").unwrap().lacks(&target()), None);
    }
}

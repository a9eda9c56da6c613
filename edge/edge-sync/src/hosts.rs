//! Nodes of Kubernetes as the hosts of a status.
//!
//! Whoever writes a Node chooses its texts: a kubelet its versions, an administrator labels and taints. So each text has a length,
//! and no control characters.

use std::sync::Arc;

use latchkey_factory_plus::cluster::Host;
use latchkey_kubernetes_client::kube::api::ObjectMeta;
use serde::Deserialize;

use crate::kinds::read_only;

/// A Node, of which only what a host needs is read.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// Name and labels.
    pub metadata: ObjectMeta,
    /// What somebody wants of it.
    #[serde(default)]
    pub spec: Spec,
    /// What its kubelet says of it.
    #[serde(default)]
    pub status: State,
}

read_only!(Node, ClusterResourceScope, "", "v1", "Node", "nodes");

/// What somebody wants of a node.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Spec {
    /// What keeps pods away.
    #[serde(default)]
    pub taints: Vec<Taint>,
}

/// What keeps pods away from a node.
#[derive(Clone, Debug, Deserialize)]
pub struct Taint {
    /// What it is about.
    pub key: String,
    /// Which of its kind.
    #[serde(default)]
    pub value: Option<String>,
}

/// What a kubelet says of its node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// How it does.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// What it is.
    #[serde(default)]
    pub node_info: NodeInfo,
}

/// One thing of how a node does.
#[derive(Clone, Debug, Deserialize)]
pub struct Condition {
    /// Of what.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

/// What a machine is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    /// Such as `v1.34.4`.
    pub kubelet_version: String,
    /// Such as `amd64`.
    pub architecture: String,
    /// Such as `Debian GNU/Linux 13 (trixie)`.
    pub os_image: String,
}

/// The most machines that are reported; Kubernetes' own limit is 5000.
pub const MOST: usize = 5000;
/// The most that all hosts have as JSON, in bytes: the configuration database takes entries of 1 MiB.
const LARGEST: usize = 800 << 10;
/// Longest text of a host, in characters.
const LONGEST: usize = 253;

const HOSTNAME: &str = "kubernetes.io/hostname";
/// kubeadm gives them no value, k3s `true`: that a label is there is what counts.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
const SPECIALISED: &str = "factoryplus.app.amrc.co.uk/specialised";

/// A node as a host; `None` where it has no name.
pub fn host_of(node: &Node) -> Option<Host> {
    let labels = node.metadata.labels.as_ref();
    let label = |name: &str| labels.and_then(|labels| labels.get(name));
    let named = label(HOSTNAME).filter(|name| !name.is_empty()).or(node.metadata.name.as_ref());
    let hostname = text(named?);
    Some(Host {
        hostname: Some(hostname).filter(|hostname| !hostname.is_empty())?,
        control_plane: CONTROL_PLANE.iter().any(|name| label(name).is_some()),
        k8s_version: text(&node.status.node_info.kubelet_version),
        arch: text(&node.status.node_info.architecture),
        specialised: node
            .spec
            .taints
            .iter()
            .find(|taint| taint.key == SPECIALISED)
            .and_then(|taint| taint.value.as_deref().map(text)),
        os_version: Some(text(&node.status.node_info.os_image)),
        ready: Some(node.status.conditions.iter().any(|it| it.kind == "Ready" && it.status == "True")),
    })
}

/// The hosts in the order in which they are reported, and how many are left out because the entry would be too large.
pub fn reported<'a>(hosts: impl IntoIterator<Item = &'a Arc<Host>>) -> (Vec<Arc<Host>>, usize) {
    let mut hosts: Vec<_> = hosts.into_iter().map(Arc::clone).collect();
    hosts.sort_by(|one, other| one.hostname.cmp(&other.hostname));
    let (mut bytes, all) = (0, hosts.len());
    let size = |host: &Host| serde_json::to_string(host).map_or(0, |text| text.len() + 1);
    let room = hosts.iter().take_while(|host| {
        bytes += size(host);
        bytes <= LARGEST
    });
    let fit = room.count();
    hosts.truncate(fit);
    (hosts, all - fit)
}

fn text(text: &str) -> String {
    latchkey_reason::printable(text).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn host(node: Value) -> Option<Host> {
        host_of(&serde_json::from_value(node).unwrap())
    }

    fn labelled(labels: &Value) -> Host {
        host(json!({"metadata": {"name": "n", "labels": labels}, "spec": {}})).unwrap()
    }

    #[test]
    fn a_node_is_reported_by_its_seven_fields() {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "m-1", "labels": {"kubernetes.io/hostname": "m1", CONTROL_PLANE[0]: ""}},
            "spec": {"taints": [{"key": "other", "effect": "NoSchedule"}, {"key": SPECIALISED, "value": "gpu", "effect": "NoSchedule"}]},
            "status": {
                "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.34.4", "architecture": "amd64", "osImage": "Debian", "bootID": "x"},
            },
        });
        let wanted = json!({
            "hostname": "m1", "control_plane": true, "k8s_version": "v1.34.4", "arch": "amd64", "specialised": "gpu",
            "os_version": "Debian", "ready": true,
        });
        assert_eq!(serde_json::to_value(host(node).unwrap()).unwrap(), wanted);
    }

    #[test]
    fn a_control_plane_is_one_of_kubeadm_and_of_k3s() {
        for (labels, control_plane) in [
            (json!({CONTROL_PLANE[0]: ""}), true),
            (json!({CONTROL_PLANE[0]: "true"}), true),
            (json!({CONTROL_PLANE[1]: "true"}), true),
            (json!({"node-role.kubernetes.io/worker": ""}), false),
            (json!({}), false),
        ] {
            assert_eq!(labelled(&labels).control_plane, control_plane, "{labels}");
        }
    }

    #[test]
    fn a_node_that_says_little_is_a_host_that_is_not_ready() {
        let bare = labelled(&json!({}));
        assert_eq!((bare.hostname.as_str(), bare.ready, bare.specialised), ("n", Some(false), None));
        let unknown = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": SPECIALISED}]},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        let unknown = host(unknown).unwrap();
        assert_eq!((unknown.ready, unknown.specialised), (Some(false), None));
        assert_eq!(host(json!({"metadata": {}, "spec": {}})), None);
    }

    #[test]
    fn machines_are_reported_in_order_and_as_many_as_fit_an_entry() {
        let hosts: Vec<Arc<Host>> = (0..MOST)
            .rev()
            .map(|number| {
                let long = "\\".repeat(200);
                let node =
                    json!({"metadata": {"name": format!("m{number:05}")}, "status": {"nodeInfo": {"osImage": long}}});
                Arc::new(host(node).unwrap())
            })
            .collect();
        let (few, left_out) = reported(&hosts[..3]);
        let names: Vec<&str> = few.iter().map(|host| host.hostname.as_str()).collect();
        assert_eq!((names.as_slice(), left_out), (["m04997", "m04998", "m04999"].as_slice(), 0));
        let (many, left_out) = reported(&hosts);
        assert_eq!(many.len() + left_out, MOST);
        let bytes = serde_json::to_string(&many.iter().map(|host| &**host).collect::<Vec<_>>()).unwrap().len();
        assert!(many[0].hostname == "m00000" && (LARGEST - 1000..LARGEST + 2).contains(&bytes), "{bytes}");
    }

    proptest! {
        #[test]
        fn whatever_a_node_says_is_short_and_has_no_control_characters(
            said in "\\PC{0,8}[\\x00-\\x1f]{0,4}.{0,600}", name in ".{0,400}",
        ) {
            let node = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": said}},
                "spec": {"taints": [{"key": SPECIALISED, "value": said}]},
                "status": {"nodeInfo": {"kubeletVersion": said, "architecture": said, "osImage": said}},
            });
            if let Some(host) = host(node) {
                prop_assert!(!host.hostname.is_empty());
                let more = [host.specialised.unwrap(), host.os_version.unwrap()];
                for text in [host.hostname, host.k8s_version, host.arch].iter().chain(&more) {
                    prop_assert!(text.chars().count() <= LONGEST && !text.chars().any(char::is_control));
                }
            }
        }
    }
}

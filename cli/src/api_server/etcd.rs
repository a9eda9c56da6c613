//! The members of the cluster's etcd, where kubeadm runs it on the control planes: asked of the etcdctl in etcd's own image, by
//! `kubectl exec` into the pod of another control plane. So whoever may do that in the cluster may take a member out, and this
//! command needs neither etcd's authority nor a way to its ports.

use latchkey_cluster_store::NodeRecord;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

use super::ApiServer;
use crate::codes::CommandCode;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::stock::{Conditions, Scope};

const NAMESPACE: &str = "kube-system";
/// "kubeadm.kubernetes.io/etcd.advertise-client-urls": where kubeadm's etcd takes clients.
const CLIENT_URLS: &str = "kubeadm.kubernetes.io/etcd.advertise-client-urls";
/// Where kubeadm has etcd's authority and a client's certificate, in the pod as on the node.
const CERTIFICATES: &str = "/etc/kubernetes/pki/etcd";

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
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    node_name: String,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    conditions: Conditions,
}

/// What `etcdctl member list --write-out=json` prints.
#[derive(Deserialize)]
struct Members {
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    #[serde(rename = "ID")]
    id: u64,
    /// Empty until it has started once.
    #[serde(default)]
    name: String,
    #[serde(default, rename = "peerURLs")]
    peer_urls: Vec<String>,
}

/// A pod of etcd that is ready, and where its etcd takes clients.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Etcd {
    pod: String,
    client_url: String,
}

impl ApiServer {
    /// The etcd of a control plane that stays when this machine goes.
    pub(super) async fn etcd_beside(&self, record: &NodeRecord) -> Result<Etcd, CommandError> {
        let pods: Vec<Pod> = self.kubectl().list("pods", Scope::Namespace(NAMESPACE)).await?;
        other(&pods, record.name.as_str()).ok_or_else(|| {
            let what = format!("{} is a control plane, and no etcd of another one is ready", record.name);
            let failure = CommandError::new(Exit::Usage, CommandCode::ControlPlaneStays, what);
            failure.fix(CommandCode::ControlPlaneStays.remedy())
        })
    }

    /// Takes this machine's member out; there may be none.
    pub(super) async fn leave_etcd(&self, etcd: &Etcd, record: &NodeRecord) -> Result<(), CommandError> {
        let Members { members } =
            self.kubectl().exec(NAMESPACE, &etcd.pod, &etcdctl(etcd, &["member", "list"])).await?;
        let joins = self.joining().await? == Some(record.ek_sha256.to_string());
        for id in members_of(&members, record, joins) {
            let id = format!("{id:x}");
            let _: Members =
                self.kubectl().exec(NAMESPACE, &etcd.pod, &etcdctl(etcd, &["member", "remove", &id])).await?;
        }
        Ok(())
    }
}

fn other(pods: &[Pod], node: &str) -> Option<Etcd> {
    let label = |pod: &Pod, name: &str| pod.metadata.labels.get(name).cloned().unwrap_or_default();
    let is_etcd = |pod: &&Pod| label(pod, "component") == "etcd" && label(pod, "tier") == "control-plane";
    let is_ready = |pod: &&Pod| pod.status.conditions.is_true("Ready");
    // Static pods have their node's name; what is called otherwise is none of kubeadm's.
    let is_static =
        |pod: &&Pod| !pod.spec.node_name.is_empty() && pod.metadata.name == format!("etcd-{}", pod.spec.node_name);
    let others =
        pods.iter().filter(is_etcd).filter(is_ready).filter(is_static).filter(|pod| pod.spec.node_name != node);
    let mut usable = others.filter_map(|pod| {
        let client_url = pod.metadata.annotations.get(CLIENT_URLS).filter(|url| url.starts_with("https://"))?.clone();
        Some(Etcd { pod: pod.metadata.name.clone(), client_url })
    });
    usable.next()
}

/// The member of this machine's name. One that has never started has none: it is this machine's by its address, or because the turn
/// to join is this machine's (`joins`), as one control plane has it at a time. etcd takes no other new member while it waits for that
/// one.
fn members_of(members: &[Member], record: &NodeRecord, joins: bool) -> Vec<u64> {
    let at_address = |url: &String| record.addresses.iter().any(|address| host_of(url) == Some(*address));
    let is_ours = |member: &&Member| match &*member.name {
        "" => joins || member.peer_urls.iter().any(at_address),
        name => name == record.name.as_str(),
    };
    members.iter().filter(is_ours).map(|member| member.id).collect()
}

/// Of `https://10.0.0.1:2380` or `https://[fd00::1]:2380`.
fn host_of(url: &str) -> Option<IpAddr> {
    let host = url.strip_prefix("https://")?.rsplit_once(':')?.0;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn etcdctl(etcd: &Etcd, words: &[&str]) -> Vec<String> {
    let flags = [
        "etcdctl".to_owned(),
        "--write-out=json".to_owned(),
        format!("--endpoints={}", etcd.client_url),
        format!("--cacert={CERTIFICATES}/ca.crt"),
        format!("--cert={CERTIFICATES}/healthcheck-client.crt"),
        format!("--key={CERTIFICATES}/healthcheck-client.key"),
    ];
    flags.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_attestation::EkDigest;
    use latchkey_cluster_store::Role;

    /// etcd's pod of a control plane, as kubectl prints it, and in it one text for another.
    fn pod(node: &str, [before, after]: [&str; 2]) -> Pod {
        let text = r#"{
            "metadata": {
                "name": "etcd-NODE", "labels": {"component": "etcd", "tier": "control-plane"},
                "annotations": {"CLIENT_URLS": "https://10.0.0.2:2379"}
            },
            "spec": {"nodeName": "NODE"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}
        }"#;
        assert!(text.contains(before), "{before}");
        let text =
            text.replace(before, after).replace("NODE", node).replace("\"CLIENT_URLS\"", &format!("\"{CLIENT_URLS}\""));
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_etcd_that_is_asked_is_ready_and_not_the_one_that_goes() {
        let good = pod("cp-2", ["", ""]);
        let pods = [
            pod("cp-1", ["", ""]),
            pod("cp-3", ["True", "False"]),
            pod("cp-4", [r#", "tier": "control-plane""#, ""]),
            pod("cp-5", ["etcd-NODE", "--kubeconfig=x"]),
            pod("cp-6", [r#""CLIENT_URLS": "https://10.0.0.2:2379""#, ""]),
        ];
        assert_eq!(other(&pods, "cp-1"), None);
        let all: Vec<Pod> = pods.into_iter().chain([good]).collect();
        let found = other(&all, "cp-1").unwrap();
        assert_eq!((&*found.pod, &*found.client_url), ("etcd-cp-2", "https://10.0.0.2:2379"));
    }

    #[test]
    fn a_member_goes_by_its_name_or_if_it_never_started_by_its_address() {
        // As etcdctl 3.6 prints it.
        let text = r#"{"header":{"cluster_id":1,"member_id":2,"raft_term":3},"members":[
            {"ID":13803658152347727308,"name":"cp-1","peerURLs":["https://10.0.0.1:2380"],"clientURLs":["https://10.0.0.1:2379"]},
            {"ID":2,"name":"cp-2","peerURLs":["https://10.0.0.2:2380"]},
            {"ID":3,"peerURLs":["https://10.0.0.3:2380"],"isLearner":true},
            {"ID":4,"peerURLs":["https://[fd00::4]:2380"],"isLearner":true}]}"#;
        let Members { members } = serde_json::from_str(text).unwrap();
        let record = |name: &str, address: &str| {
            let (ek, disk) = (
                EkDigest::from_hex(&"f1".repeat(32)).unwrap(),
                "0a0a0a0a-0000-4000-8000-000000000001".parse().unwrap(),
            );
            let record = NodeRecord::first(ek, name.parse().unwrap(), Role::ControlPlane, disk, 1, 1);
            NodeRecord { addresses: vec![address.parse().unwrap()], ..record }
        };
        assert_eq!(members_of(&members, &record("cp-1", "10.0.0.2"), false), [13_803_658_152_347_727_308]);
        assert_eq!(members_of(&members, &record("cp-3", "10.0.0.3"), false), [3]);
        assert_eq!(members_of(&members, &record("cp-4", "fd00::4"), false), [4]);
        assert!(members_of(&members, &record("cp-9", "10.0.0.30"), false).is_empty());
        assert_eq!(members_of(&members, &record("cp-9", "10.0.0.30"), true), [3, 4]);
        // A join that was cut long ago: the turn is another's by now, and the new members may be.
        let cut = NodeRecord { joining_since: Some(1), ..record("cp-9", "10.0.0.30") };
        assert!(members_of(&members, &cut, false).is_empty());
    }

    /// The pod is found, and its members asked, by these words of kubeadm's.
    #[test]
    #[ignore = "needs the real kubeadm: ./dev e2e api-server"]
    fn kubeadm_s_etcd_is_known_by_what_is_looked_for() {
        let directory = tempfile::tempdir().unwrap();
        let configuration = directory.path().join("configuration");
        let version = latchkey_api_server_rig::VERSION;
        let documents = format!(
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n\
             localAPIEndpoint: {{advertiseAddress: 192.0.2.7}}\n\
             nodeRegistration: {{name: cp-1, criSocket: 'unix:///none'}}\n---\n\
             apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: {version}\n"
        );
        std::fs::write(&configuration, documents).unwrap();
        let mut kubeadm = std::process::Command::new(latchkey_api_server_rig::program("kubeadm"));
        kubeadm.args(["init", "phase", "etcd", "local", "--dry-run", "--config"]).arg(&configuration);
        let ran = latchkey_test_support::output(&mut kubeadm).unwrap();
        let manifest = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let client_url = format!("{CLIENT_URLS}: https://192.0.2.7:2379");
        let mounted = format!("mountPath: {CERTIFICATES}");
        for wanted in ["component: etcd", "tier: control-plane", "name: etcd", &client_url, &mounted] {
            assert!(
                manifest.lines().any(|line| line.trim_start_matches(['\t', ' ', '-']) == wanted),
                "{wanted}: {manifest}"
            );
        }
    }
}

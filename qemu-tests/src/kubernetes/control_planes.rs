//! Several control planes: whom etcd counts, and asking one of the API servers.

use serde_json::Value;

use super::{API_SERVER, Site};
use crate::error::HarnessError;
use crate::vm::Vm;

/// Where kubeadm has etcd's authority and a client's certificate.
const CERTIFICATES: &str = "/etc/kubernetes/pki/etcd";

/// A member of etcd.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EtcdMember {
    /// Its node's name; empty if it never started.
    pub name: String,
    /// Whether it has no vote.
    pub is_learner: bool,
}

impl EtcdMember {
    /// A member with a vote.
    pub fn voter(name: &str) -> Self {
        Self { name: name.to_owned(), is_learner: false }
    }
}

impl Site {
    /// What stock kubectl prints, as the operator, by the API server of this control plane.
    pub fn ask_at(&self, node: &Vm, arguments: &[&str]) -> Result<String, HarnessError> {
        let address = node.address(API_SERVER).map(|address| address.to_string()).unwrap_or_default();
        let server = format!("https://{address}");
        let by = ["--server", &server, "--tls-server-name", "kubernetes", "--request-timeout", "30s"];
        self.ask(&[&by[..], arguments].concat())
    }

    /// The members of etcd, by etcd's own client in the pod of this node.
    pub fn etcd_members(&self, node: &str) -> Result<Vec<EtcdMember>, HarnessError> {
        etcd_members(node, &mut |arguments| self.ask(arguments))
    }
}

/// The members of etcd, by etcd's own client in the pod of this node, in order of their names; `kubectl` calls it.
pub fn etcd_members(
    node: &str,
    kubectl: &mut dyn FnMut(&[&str]) -> Result<String, HarnessError>,
) -> Result<Vec<EtcdMember>, HarnessError> {
    let pod = format!("etcd-{node}");
    let flags = [
        "--write-out=json".to_owned(),
        "--endpoints=https://127.0.0.1:2379".to_owned(),
        format!("--cacert={CERTIFICATES}/ca.crt"),
        format!("--cert={CERTIFICATES}/healthcheck-client.crt"),
        format!("--key={CERTIFICATES}/healthcheck-client.key"),
    ];
    let called = ["--namespace", "kube-system", "exec", &pod, "--", "etcdctl"];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let printed = kubectl(&[&called[..], &flags, &["member", "list"]].concat())?;
    let listed: Value = serde_json::from_str(&printed)
        .map_err(|error| HarnessError::Unusable(format!("etcdctl prints {printed:?}: {error}")))?;
    let member = |member: &Value| EtcdMember {
        name: member["name"].as_str().unwrap_or_default().to_owned(),
        is_learner: member["isLearner"].as_bool().unwrap_or_default(),
    };
    let mut members: Vec<EtcdMember> = listed["members"].as_array().into_iter().flatten().map(member).collect();
    members.sort();
    Ok(members)
}

//! What kubeadm leaves open and a cluster of ours does not.
//!
//! | kubeadm | here |
//! |---|---|
//! | the API server does not verify kubelets | kubelets ask for serving certificates, and it verifies them |
//! | anonymous requests reach every path, and RBAC decides | they reach the paths of probes alone |
//! | whoever holds a bootstrap token gets a node's certificate, whatever its name | nobody until it is approved |
//! | a bootstrap token for a day | none |
//! | everybody can read `cluster-info` | nobody but members |

use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where the static pods of kubeadm see the CA, and the node has it.
const CA: &str = "/etc/kubernetes/pki/ca.crt";

/// `AuthenticationConfiguration` of the API server: kubelets and balancers probe without credentials, and nobody else comes without
/// (Kubernetes, "Authenticating", "Anonymous authenticator configuration"). Served since 1.32.
pub(super) const AUTHENTICATION: &[u8] = br#"{
  "apiVersion": "apiserver.config.k8s.io/v1beta1",
  "kind": "AuthenticationConfiguration",
  "anonymous": {"enabled": true, "conditions": [{"path": "/livez"}, {"path": "/readyz"}, {"path": "/healthz"}]}
}
"#;

/// What kubeadm's phase `bootstrap-token` makes and nobody may have: a rule of kube-controller-manager that approves each node's
/// certificate, and the anonymous right to read `cluster-info`. What renews a node's own certificate stays.
pub(super) const UNWANTED: &[u8] = br#"{
  "apiVersion": "v1",
  "kind": "List",
  "items": [
    {
      "apiVersion": "rbac.authorization.k8s.io/v1",
      "kind": "ClusterRoleBinding",
      "metadata": {"name": "kubeadm:node-autoapprove-bootstrap"}
    },
    {
      "apiVersion": "rbac.authorization.k8s.io/v1",
      "kind": "RoleBinding",
      "metadata": {"name": "kubeadm:bootstrap-signer-clusterinfo", "namespace": "kube-public"}
    }
  ]
}
"#;

/// The files that the API server reads, in kubeadm's directory: its pod sees them at the same place.
pub(super) fn directory(kubernetes: &Path) -> PathBuf {
    kubernetes.join("latchkey")
}

/// Of these the file with [`AUTHENTICATION`].
pub(super) fn authentication(kubernetes: &Path) -> PathBuf {
    directory(kubernetes).join("authentication.json")
}

/// `extraArgs` and `extraVolumes` of kubeadm's `apiServer`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Extra {
    extra_args: [Argument; 2],
    extra_volumes: [Volume; 1],
}

/// An argument of a component, as kubeadm takes it.
#[derive(Serialize)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: &'static str,
    host_path: String,
    mount_path: String,
    read_only: bool,
    path_type: &'static str,
}

impl Extra {
    /// For the API servers of a cluster whose nodes have kubeadm's files at `kubernetes`.
    pub(super) fn new(kubernetes: &Path) -> Self {
        let directory = directory(kubernetes).display().to_string();
        let authentication = authentication(kubernetes).display().to_string();
        Self {
            extra_args: [
                Argument { name: "kubelet-certificate-authority", value: CA.into() },
                Argument { name: "authentication-config", value: authentication },
            ],
            extra_volumes: [Volume {
                name: "latchkey",
                host_path: directory.clone(),
                mount_path: directory,
                read_only: true,
                path_type: "Directory",
            }],
        }
    }
}

/// The cluster's `KubeletConfiguration`; kubelets that join get it from the cluster.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Kubelet {
    #[serde(rename = "serverTLSBootstrap")]
    server_tls_bootstrap: bool,
    authentication: Authentication,
    read_only_port: u16,
}

#[derive(Serialize)]
struct Authentication {
    anonymous: Enabled,
}

#[derive(Serialize)]
struct Enabled {
    enabled: bool,
}

/// "serverTLSBootstrap enables server certificate bootstrap"; a read-only port of 0 is none (`KubeletConfiguration`).
pub(super) const KUBELET: Kubelet = Kubelet {
    server_tls_bootstrap: true,
    authentication: Authentication { anonymous: Enabled { enabled: false } },
    read_only_port: 0,
};

//! What a cluster of ours has otherwise than kubeadm leaves it.
//!
//! | kubeadm | here |
//! |---|---|
//! | the API server does not verify kubelets | kubelets ask for serving certificates, and it verifies them |
//! | anonymous requests, Secrets in etcd, no audit log, privileged pods | see [`api_server`](super::api_server) |
//! | components show profiles of themselves | they do not |
//! | they end themselves when the API server does not answer for 10 s | for 30 s |
//! | the controller manager asks the API server 20 times a second | 500 times, as many certificates may be asked for at once |
//! | kubelets take weak ciphers, pods without a limit of processes, and no seccomp profile | see [`Kubelet`] |
//! | whoever holds a bootstrap token gets a node's certificate, whatever its name | nobody until it is approved |
//! | a node renews its certificate, whoever was shut out | not until it is approved |
//! | a bootstrap token for a day | none |
//! | everybody can read `cluster-info` | nobody but members |

use serde::Serialize;

/// What kubeadm's phase `bootstrap-token` makes and nobody may have: the rules of kube-controller-manager that approve each node's
/// certificate and its renewals, whoever was shut out since, and the anonymous right to read `cluster-info`.
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
      "kind": "ClusterRoleBinding",
      "metadata": {"name": "kubeadm:node-autoapprove-certificate-rotation"}
    },
    {
      "apiVersion": "rbac.authorization.k8s.io/v1",
      "kind": "RoleBinding",
      "metadata": {"name": "kubeadm:bootstrap-signer-clusterinfo", "namespace": "kube-public"}
    }
  ]
}
"#;

/// Suites of TLS 1.2, the recommended ones of RFC 9325, section 4.2. Those of TLS 1.3 cannot be chosen.
pub(super) const CIPHER_SUITES: [&str; 4] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
];

/// An argument of a component, as kubeadm takes it.
#[derive(Serialize)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl Argument {
    pub(super) fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into() }
    }
}

/// kubeadm's `controllerManager` and `scheduler`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Component {
    extra_args: Vec<Argument>,
}

impl Component {
    /// One that tells nobody where it spends its time, and what it holds; and that stays the leader while the API server does not
    /// answer for half a minute ("the duration that the acting master will retry refreshing leadership before giving up"; 10 s by
    /// default). On a slow disk or processor it would end itself and start anew, which costs the API server more than it lacked.
    /// Another control plane takes over 40 s, and not 15 s, after the last sign of it.
    pub(super) fn scheduler() -> Self {
        let extra_args = vec![
            Argument::new("profiling", "false"),
            Argument::new("leader-elect-lease-duration", "40s"),
            Argument::new("leader-elect-renew-deadline", "30s"),
            Argument::new("leader-elect-retry-period", "5s"),
        ];
        Self { extra_args }
    }

    /// The same, that may also ask the API server 500 times a second, which the API server evens out among all who ask. By its default
    /// of 20 it issues 23 certificates a second, and machines of a site that start together wait for theirs.
    pub(super) fn controller_manager() -> Self {
        let mut component = Self::scheduler();
        component.extra_args.extend([Argument::new("kube-api-qps", "500"), Argument::new("kube-api-burst", "500")]);
        component
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
    tls_cipher_suites: [&'static str; 4],
    seccomp_default: bool,
    pod_pids_limit: u32,
}

#[derive(Serialize)]
struct Authentication {
    anonymous: Enabled,
}

#[derive(Serialize)]
struct Enabled {
    enabled: bool,
}

/// "serverTLSBootstrap enables server certificate bootstrap"; a read-only port of 0 is none; seccompDefault "enables the use of
/// `RuntimeDefault` as the default seccomp profile"; podPidsLimit "is the maximum number of PIDs in any pod"
/// (`KubeletConfiguration`). A node has 32 768 and more.
pub(super) const KUBELET: Kubelet = Kubelet {
    server_tls_bootstrap: true,
    authentication: Authentication { anonymous: Enabled { enabled: false } },
    read_only_port: 0,
    tls_cipher_suites: CIPHER_SUITES,
    seccomp_default: true,
    pod_pids_limit: 4096,
};

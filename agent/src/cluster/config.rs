//! kubeadm's configuration, `kubeadm.k8s.io/v1beta4`.
//!
//! Written as JSON, which is YAML, so that no name or address can break out of its place. Field names and meaning: the
//! Kubernetes reference "kubeadm Configuration (v1beta4)". What is not written is kubeadm's default, the kubelet's cgroup
//! driver (systemd) included; [`secure_defaults`](super::secure_defaults) has what differs from it for security.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;

use latchkey_api::v1::{ClusterJoin, ClusterSettings};
use latchkey_node_config::Endpoint;
use serde::Serialize;
use zeroize::Zeroizing;

use super::api_server::Extra;
use super::secure_defaults::{Argument, Component, KUBELET};
use super::{Member, StepCode, StepError, balancer};
use crate::lifecycle::NodeRole;

const API: &str = "kubeadm.k8s.io/v1beta4";
const KUBELET_API: &str = "kubelet.config.k8s.io/v1beta1";
/// Where containerd listens unless it is told otherwise.
const CRI_SOCKET: &str = "unix:///run/containerd/containerd.sock";
/// "`BindPort` sets the secure port for the API Server to bind to. Defaults to 6443." (`APIEndpoint`)
pub(super) const API_SERVER_PORT: u16 = 6443;
/// Of the cluster's authorities, components and service accounts. kubeadm would make RSA keys of 2048 bits: each handshake of a server
/// costs many times as much with them, and the API server alone serves hundreds while it starts.
const KEYS: &str = "ECDSA-P256";
/// Images may be in the root.
const PULL_POLICY: &str = "IfNotPresent";
/// Slow machines, and images that are unpacked first: kubeadm would give them 4 minutes.
const TIMEOUTS: Timeouts = Timeouts {
    control_plane_component_health_check: "10m0s",
    kubernetes_api_call: "5m0s",
    etcd_api_call: "5m0s",
    upgrade_manifests: "10m0s",
};
/// For what ends within seconds, or not at all.
const ETCD_BRIEFLY: Timeouts = Timeouts { etcd_api_call: "30s", ..TIMEOUTS };
/// The files came with the ticket, over the attested channel.
const FILES_ARE_THERE: [&str; 1] = ["control-plane-prepare/download-certs"];
/// What is done once etcd knows this node: the phases of `kubeadm join` before `etcd-join`, and that one.
const BEFORE_ETCD: [&str; 4] = ["preflight", "control-plane-prepare", "check-etcd", "kubelet-start"];
const WITH_ETCD: [&str; 5] = ["preflight", "control-plane-prepare", "check-etcd", "kubelet-start", "etcd-join"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a, T: Serialize> {
    api_version: &'a str,
    kind: &'a str,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Init<'a> {
    node_registration: Registration<'a>,
    #[serde(rename = "localAPIEndpoint", skip_serializing_if = "Option::is_none")]
    local_api_endpoint: Option<LocalEndpoint>,
    timeouts: Timeouts,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cluster<'a> {
    #[serde(rename = "clusterName")]
    name: &'a str,
    kubernetes_version: &'a str,
    encryption_algorithm: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    control_plane_endpoint: &'a str,
    api_server: ApiServer<'a>,
    controller_manager: Component,
    scheduler: Component,
    networking: Networking<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiServer<'a> {
    #[serde(rename = "certSANs", skip_serializing_if = "<[_]>::is_empty")]
    cert_sans: &'a [String],
    #[serde(flatten)]
    extra: Extra,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Networking<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pod_subnet: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    service_subnet: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Join<'a> {
    node_registration: Registration<'a>,
    discovery: Discovery<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    control_plane: Option<ControlPlane>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skip_phases: &'a [&'a str],
    timeouts: Timeouts,
}

#[derive(Serialize)]
struct ControlPlane {
    #[serde(rename = "localAPIEndpoint", skip_serializing_if = "Option::is_none")]
    local_api_endpoint: Option<LocalEndpoint>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LocalEndpoint {
    advertise_address: IpAddr,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reset<'a> {
    cri_socket: &'a str,
    force: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Registration<'a> {
    name: &'a str,
    cri_socket: &'a str,
    image_pull_policy: &'a str,
    /// "If this field is unset, i.e. nil, it will be defaulted with a control-plane taint for control-plane nodes." (`NodeRegistrationOptions`)
    #[serde(skip_serializing_if = "Option::is_none")]
    taints: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kubelet_extra_args: Vec<Argument>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Discovery<'a> {
    file: DiscoveryFile<'a>,
}

#[derive(Serialize)]
struct DiscoveryFile<'a> {
    #[serde(rename = "kubeConfigPath")]
    path: &'a Path,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Timeouts {
    control_plane_component_health_check: &'static str,
    #[serde(rename = "kubernetesAPICall")]
    kubernetes_api_call: &'static str,
    #[serde(rename = "etcdAPICall")]
    etcd_api_call: &'static str,
    upgrade_manifests: &'static str,
}

#[derive(Serialize)]
struct Upgrade<'a> {
    apply: Apply<'a>,
    node: UpgradeNode<'a>,
    timeouts: Timeouts,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Apply<'a> {
    kubernetes_version: &'a str,
    image_pull_policy: &'a str,
    ignore_preflight_errors: [&'a str; 1],
    skip_phases: [&'a str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpgradeNode<'a> {
    image_pull_policy: &'a str,
}

/// `InitConfiguration`, `ClusterConfiguration` and `KubeletConfiguration`, of checked settings. `version` is that of the
/// cluster; `directory` is where kubeadm keeps its files, `logs` where API servers write what was done. With a balancer, that is
/// how all nodes find the API servers: kubeadm puts its address into the certificate of each.
pub(super) fn init(
    member: &Member,
    settings: &ClusterSettings,
    with_balancer: bool,
    version: &str,
    directory: &Path,
    logs: &Path,
) -> Result<Zeroizing<Vec<u8>>, StepError> {
    let endpoint = &settings.control_plane_endpoint;
    let own = with_balancer.then(|| local_address(endpoint)).flatten();
    let own = own.map(|advertise_address| LocalEndpoint { advertise_address });
    let init = Init {
        node_registration: registration(member, endpoint, settings.untainted),
        local_api_endpoint: own.or_else(|| local_endpoint(endpoint)),
        timeouts: TIMEOUTS,
    };
    let cluster = Cluster {
        name: if member.cluster_name.is_empty() { "kubernetes" } else { &member.cluster_name },
        kubernetes_version: version,
        encryption_algorithm: KEYS,
        control_plane_endpoint: if with_balancer { balancer::ADDRESS } else { endpoint },
        api_server: ApiServer { cert_sans: &settings.apiserver_cert_sans, extra: Extra::new(directory, logs) },
        controller_manager: Component::controller_manager(),
        scheduler: Component::scheduler(),
        networking: Networking { pod_subnet: &settings.pod_cidr, service_subnet: &settings.service_cidr },
    };
    let documents = [
        document(API, "InitConfiguration", init)?,
        document(API, "ClusterConfiguration", cluster)?,
        document(KUBELET_API, "KubeletConfiguration", KUBELET)?,
    ];
    Ok(Zeroizing::new(documents.each_ref().map(|text| text.as_slice()).join(&b"\n---\n"[..])))
}

/// How much of a join is still to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phases {
    All,
    /// What follows when the kubelet has asked for its certificate. If etcd has given this node its vote already, `briefly` says so.
    FromEtcd {
        briefly: bool,
    },
    /// What follows when etcd has given this node its vote.
    AfterEtcd,
}

/// `JoinConfiguration`, of a checked ticket; `discovery` is the file that [`discovery`](super::discovery) makes of it.
pub(super) fn join(
    member: &Member,
    ticket: &ClusterJoin,
    discovery: &Path,
    phases: Phases,
) -> Result<Zeroizing<Vec<u8>>, StepError> {
    let control_plane = member.role != NodeRole::Worker;
    let endpoint = &ticket.api_server_endpoint;
    document(
        API,
        "JoinConfiguration",
        Join {
            node_registration: registration(member, endpoint, control_plane && ticket.untainted),
            discovery: Discovery { file: DiscoveryFile { path: discovery } },
            control_plane: control_plane.then(|| ControlPlane { local_api_endpoint: local_endpoint(endpoint) }),
            skip_phases: match phases {
                Phases::FromEtcd { .. } => &BEFORE_ETCD,
                Phases::AfterEtcd => &WITH_ETCD,
                Phases::All if control_plane => &FILES_ARE_THERE,
                Phases::All => &[],
            },
            timeouts: if matches!(phases, Phases::FromEtcd { briefly: true }) { ETCD_BRIEFLY } else { TIMEOUTS },
        },
    )
}

/// `ResetConfiguration`: without it kubeadm asks on the terminal, and looks for a container runtime.
pub(super) fn reset() -> Result<Zeroizing<Vec<u8>>, StepError> {
    document(API, "ResetConfiguration", Reset { cri_socket: CRI_SOCKET, force: true })
}

/// `UpgradeConfiguration` for `kubeadm upgrade apply` and `kubeadm upgrade node`. Left out of kubeadm's work is the phase that would
/// give bootstrap tokens and nodes the rights back that [`UNWANTED`](super::secure_defaults::UNWANTED) names, and the check that runs
/// a job on any node: with the new release's image, which nodes of the old one may have nowhere to get from.
pub(super) fn upgrade(version: &str) -> Result<Zeroizing<Vec<u8>>, StepError> {
    let apply = Apply {
        kubernetes_version: version,
        image_pull_policy: PULL_POLICY,
        ignore_preflight_errors: ["CreateJob"],
        skip_phases: ["bootstrap-token"],
    };
    let node = UpgradeNode { image_pull_policy: PULL_POLICY };
    document(API, "UpgradeConfiguration", Upgrade { apply, node, timeouts: TIMEOUTS })
}

/// For `kubeadm certs`, which otherwise asks the cluster. It takes names and addresses from the certificates there are; an address of
/// its own it looks for unless it has one, so it gets one that is for documentation (RFC 5737).
pub(super) fn certificates(version: &str) -> String {
    format!(
        r#"{{"apiVersion": "{API}", "kind": "InitConfiguration", "localAPIEndpoint": {{"advertiseAddress": "192.0.2.1"}}}}
---
{{"apiVersion": "{API}", "kind": "ClusterConfiguration", "kubernetesVersion": "{version}", "encryptionAlgorithm": "{KEYS}"}}
"#
    )
}

/// The kubelet serves where the report says it: two answers to one question would be a certificate that nobody approves.
fn registration<'a>(member: &'a Member, endpoint: &str, untainted: bool) -> Registration<'a> {
    let node_ip = local_address(endpoint).map(|address| Argument { name: "node-ip", value: address.to_string() });
    Registration {
        name: &member.node_name,
        cri_socket: CRI_SOCKET,
        image_pull_policy: PULL_POLICY,
        taints: untainted.then_some([]),
        kubelet_extra_args: node_ip.into_iter().collect(),
    }
}

/// The address by which the rest of the cluster reaches this node: the one it would use itself to reach `endpoint`, or, where that
/// is a name or empty, everybody else. kubeadm and kubelet would take that of the default route in any case, which may be another
/// network, or missing.
pub(super) fn local_address(endpoint: &str) -> Option<IpAddr> {
    /// For documentation (RFC 5737), and so behind the default route.
    const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let said = Endpoint::of_api_server_or(endpoint, API_SERVER_PORT);
    let address = said.as_ref().and_then(Endpoint::address).unwrap_or(ELSEWHERE);
    let any: SocketAddr = match address {
        IpAddr::V4(_) => ([0; 4], 0).into(),
        IpAddr::V6(_) => ([0; 16], 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    // Sends nothing; the kernel picks route and source address.
    socket.connect((address, said.map_or(API_SERVER_PORT, |said| said.port))).ok()?;
    let local = socket.local_addr().ok()?.ip();
    let link_local = matches!(local, IpAddr::V6(address) if address.is_unicast_link_local());
    (!local.is_loopback() && !local.is_unspecified() && !link_local).then_some(local)
}

/// Where the API server of a control plane listens that reaches the others by `endpoint`, if kubeadm is told so.
pub(super) fn local_api_server(endpoint: &str) -> Option<SocketAddr> {
    local_endpoint(endpoint).map(|local| SocketAddr::new(local.advertise_address, API_SERVER_PORT))
}

/// For a name kubeadm's choice it is: it resolves names itself.
fn local_endpoint(endpoint: &str) -> Option<LocalEndpoint> {
    Endpoint::of_api_server_or(endpoint, API_SERVER_PORT)?.address()?;
    local_address(endpoint).map(|advertise_address| LocalEndpoint { advertise_address })
}

fn document(api_version: &str, kind: &str, body: impl Serialize) -> Result<Zeroizing<Vec<u8>>, StepError> {
    serde_json::to_vec_pretty(&Document { api_version, kind, body })
        .map(Zeroizing::new)
        .map_err(|e| StepError::new(StepCode::Input, e.to_string()))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;

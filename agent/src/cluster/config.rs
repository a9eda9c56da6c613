//! kubeadm's configuration, `kubeadm.k8s.io/v1beta4`.
//!
//! Written as JSON, which is YAML, so that no name or address can break out of its place. Field names and meaning: the
//! Kubernetes reference "kubeadm Configuration (v1beta4)".

use latchkey_api::v1::{ClusterJoin, ClusterSettings};
use serde::Serialize;
use zeroize::Zeroizing;

use super::{Member, StepError};
use crate::life::NodeRole;

const API: &str = "kubeadm.k8s.io/v1beta4";

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
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cluster<'a> {
    #[serde(rename = "clusterName")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kubernetes_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    control_plane_endpoint: &'a str,
    api_server: ApiServer<'a>,
    networking: Networking<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiServer<'a> {
    #[serde(rename = "certSANs")]
    cert_sans: &'a [String],
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
    control_plane: Option<Empty>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skip_phases: &'a [&'a str],
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Registration<'a> {
    name: &'a str,
    cri_socket: &'a str,
    image_pull_policy: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Discovery<'a> {
    bootstrap_token: BootstrapToken<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BootstrapToken<'a> {
    token: &'a str,
    api_server_endpoint: &'a str,
    ca_cert_hashes: &'a [String],
}

fn registration(member: &Member) -> Registration<'_> {
    Registration {
        name: &member.node_name,
        cri_socket: "unix:///run/containerd/containerd.sock",
        image_pull_policy: "IfNotPresent",
    }
}

/// `InitConfiguration` and `ClusterConfiguration`.
pub(super) fn init(member: &Member, settings: &ClusterSettings) -> Result<Zeroizing<Vec<u8>>, StepError> {
    let init = Init { node_registration: registration(member) };
    let cluster = Cluster {
        name: if member.cluster_name.is_empty() { "kubernetes" } else { &member.cluster_name },
        kubernetes_version: &settings.kubernetes_version,
        control_plane_endpoint: &settings.control_plane_endpoint,
        api_server: ApiServer { cert_sans: &settings.apiserver_cert_sans },
        networking: Networking { pod_subnet: &settings.pod_cidr, service_subnet: &settings.service_cidr },
    };
    let mut text = document("InitConfiguration", init)?;
    text.extend_from_slice(b"\n---\n");
    text.extend_from_slice(&document("ClusterConfiguration", cluster)?);
    Ok(text)
}

/// `JoinConfiguration`. A ticket without token or CA pin is refused: kubeadm would then trust whoever answers.
pub(super) fn join(member: &Member, ticket: &ClusterJoin) -> Result<Zeroizing<Vec<u8>>, StepError> {
    if ticket.bootstrap_token.is_empty() || ticket.api_server_endpoint.is_empty() || ticket.ca_cert_hashes.is_empty() {
        return Err(StepError::new(
            "ticket-incomplete",
            "the join ticket lacks the API server's endpoint, a bootstrap token or the CA's hash; \
             use a join service with the Kubernetes back-end",
        ));
    }
    let control_plane = matches!(member.role, NodeRole::ControlPlane | NodeRole::First);
    document(
        "JoinConfiguration",
        Join {
            node_registration: registration(member),
            discovery: Discovery {
                bootstrap_token: BootstrapToken {
                    token: &ticket.bootstrap_token,
                    api_server_endpoint: &ticket.api_server_endpoint,
                    ca_cert_hashes: &ticket.ca_cert_hashes,
                },
            },
            control_plane: control_plane.then_some(Empty {}),
            // The files came with the ticket, over the attested channel.
            skip_phases: if control_plane { &["control-plane-prepare/download-certs"] } else { &[] },
        },
    )
}

fn document(kind: &str, body: impl Serialize) -> Result<Zeroizing<Vec<u8>>, StepError> {
    serde_json::to_vec_pretty(&Document { api_version: API, kind, body })
        .map(Zeroizing::new)
        .map_err(|e| StepError::new("step-input", e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(role: NodeRole) -> Member {
        Member {
            node_name: "edge-1".into(),
            role,
            cluster_id: "00".repeat(32),
            cluster_name: "plant".into(),
            disk: "/dev/mapper/state".into(),
        }
    }

    fn ticket() -> ClusterJoin {
        let mut ticket = ClusterJoin::default();
        ticket.api_server_endpoint = "10.0.0.1:6443".into();
        ticket.bootstrap_token = "abcdef.0123456789abcdef".into();
        ticket.ca_cert_hashes = vec![format!("sha256:{}", "ab".repeat(32))];
        ticket
    }

    #[test]
    fn a_hostile_name_stays_in_its_place() {
        let mut settings = ClusterSettings { pod_cidr: "10.244.0.0/16".into(), ..ClusterSettings::default() };
        settings.apiserver_cert_sans = vec!["x\"\n---\nkind: Evil".into()];
        let text = init(&member(NodeRole::First), &settings).unwrap();
        let documents = std::str::from_utf8(&text).unwrap().split("\n---\n").collect::<Vec<_>>();
        assert_eq!(documents.len(), 2);
        let cluster: serde_json::Value = serde_json::from_str(documents[1]).unwrap();
        assert_eq!(cluster["apiServer"]["certSANs"][0], "x\"\n---\nkind: Evil");
        assert_eq!(cluster["networking"]["podSubnet"], "10.244.0.0/16");
        assert!(cluster.get("kubernetesVersion").is_none());
    }

    #[test]
    fn a_worker_joins_as_a_worker_and_a_control_plane_uses_the_files_of_its_ticket() {
        let worker: serde_json::Value =
            serde_json::from_slice(&join(&member(NodeRole::Worker), &ticket()).unwrap()).unwrap();
        assert!(worker.get("controlPlane").is_none() && worker.get("skipPhases").is_none());
        let control: serde_json::Value =
            serde_json::from_slice(&join(&member(NodeRole::ControlPlane), &ticket()).unwrap()).unwrap();
        assert_eq!(control["skipPhases"][0], "control-plane-prepare/download-certs");
        assert!(control["controlPlane"].is_object());
    }

    #[test]
    fn a_ticket_without_a_ca_pin_is_refused() {
        let mut ticket = ticket();
        ticket.ca_cert_hashes.clear();
        assert_eq!(join(&member(NodeRole::Worker), &ticket).unwrap_err().code, "ticket-incomplete");
    }
}

//! The entries about edge clusters, field by field.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ClusterName, Uuid};

/// An entry of the application [`EDGE_CLUSTER_CONFIGURATION`](crate::uuids::application::EDGE_CLUSTER_CONFIGURATION): what
/// somebody wants a cluster to be. Writing one makes the cluster, deleting it ends the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The entry of the application "Helm chart template" that is deployed to the cluster.
    pub chart: Uuid,
    /// The name of the cluster, for its life.
    pub name: ClusterName,
    /// The namespace of the edge cluster that the chart is deployed to.
    pub namespace: String,
    /// Whether Flux's own manifests stay out of the repository, because somebody else keeps Flux up to date.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bare: bool,
    /// Helm values, merged over those of the chart's template; a null takes a chart's default away.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
}

impl Configuration {
    /// The Helm values of a cluster to which somebody else brings Sealed Secrets, too.
    pub fn bare_values() -> Map<String, Value> {
        Map::from_iter([("sealedSecrets".to_owned(), serde_json::json!({ "enabled": false }))])
    }
}

/// An entry of the application [`EDGE_CLUSTER_STATUS`](crate::uuids::application::EDGE_CLUSTER_STATUS): what the edge says of
/// itself. There is one once the cluster was bootstrapped. Fields that are not known here are left alone: edges of other
/// versions write it, too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The machines of the cluster.
    #[serde(default)]
    pub hosts: Vec<Host>,
    /// The X.509 certificate, as PEM, that secrets for this cluster are sealed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeseal_cert: Option<String>,
    /// When the edge wrote this last: milliseconds since 1970, by the edge's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<u64>,
    /// Rises with each change that the edge tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// What does not work at the edge, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// A machine of an edge cluster, as its Kubernetes node says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The host name that Kubernetes knows it by.
    pub hostname: String,
    /// Whether it runs the control plane.
    pub control_plane: bool,
    /// The version of its kubelet.
    pub k8s_version: String,
    /// Its processor's architecture, such as `amd64`.
    pub arch: String,
    /// The value of its taint `factoryplus.app.amrc.co.uk/specialised`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub specialised: Option<String>,
    /// Its operating system, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// Whether it is ready to run pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
}

/// An entry of the application [`EDGE_CLUSTER_REGISTRATION`](crate::uuids::application::EDGE_CLUSTER_REGISTRATION): which machine
/// registered a cluster, what it ran, and by whose word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// The TPM's endorsement key: SHA-256 of its public area, in hexadecimal.
    pub ek_sha256: String,
    /// The image that the machine proved to run.
    pub image: RegisteredImage,
    /// SHA-256 over the policy and the manifests that it was judged by, in hexadecimal.
    pub policy_sha256: String,
    /// By whose word.
    pub by: RegisteredBy,
    /// When: seconds since 1970.
    pub at: u64,
}

/// The image of a machine that registered a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisteredImage {
    /// The manifest that has it.
    pub manifest: String,
    /// The manifest's revision.
    pub serial: u64,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The type of machine.
    pub machine: String,
}

/// By whose word a machine registered a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegisteredBy {
    /// An invitation: SHA-256 of its token, in hexadecimal.
    Invitation(String),
    /// A rule of the enrol service, by its name.
    Rule(String),
    /// The operator, who admitted the machine while it waited: the UUID of that word.
    Operator(Uuid),
}

/// An entry of the application [`SPARKPLUG_ADDRESS`](crate::uuids::application::SPARKPLUG_ADDRESS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SparkplugAddress {
    /// The Sparkplug group.
    pub group_id: String,
    /// The node in it; none where the group itself is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

/// An entry of the application [`GIT_REPOSITORY_CONFIGURATION`](crate::uuids::application::GIT_REPOSITORY_CONFIGURATION).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitRepository {
    /// `GROUP/REPOSITORY`, the path that people clone it by.
    pub path: String,
}

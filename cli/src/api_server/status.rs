//! What the API server shows of a cluster's machines, beside their records.

use std::collections::BTreeMap;

use latchkey_cluster_store::objects::{NAMESPACE, NODE};
use serde::{Deserialize, Serialize};

use super::ApiServer;
use super::machines::resource;
use crate::error::CommandError;
use crate::stock::{Conditions, Scope};

/// The `Lease` of the control plane that joins.
const JOINING: &str = "latchkey";

/// What was last seen of a machine. For people: nothing is decided by it, and it may be some minutes old.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Seen {
    pub(crate) image: String,
    pub(crate) version: String,
    pub(crate) last_attestation: Option<String>,
}

/// Kubernetes' own object of a node.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct KubernetesNode {
    metadata: Named,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Clone, Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    conditions: Conditions,
    node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    kubelet_version: String,
}

impl KubernetesNode {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether its kubelet is there, as far as the cluster knows.
    pub(crate) fn is_ready(&self) -> bool {
        self.status.conditions.is_true("Ready")
    }

    pub(crate) fn kubelet(&self) -> &str {
        &self.status.node_info.kubelet_version
    }
}

#[derive(Deserialize)]
struct SeenObject {
    metadata: Named,
    #[serde(default)]
    status: Option<Seen>,
}

#[derive(Deserialize)]
struct Lease {
    #[serde(default)]
    spec: LeaseSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
}

/// A certificate by which somebody is known to the API server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClientCertificate {
    /// Whose.
    pub(crate) of: String,
    /// Seconds since the Unix epoch; nothing if it cannot be read.
    pub(crate) ends: Option<u64>,
}

impl ApiServer {
    /// What was last seen of machines, by their TPMs.
    pub(crate) async fn seen(&self) -> Result<BTreeMap<String, Seen>, CommandError> {
        let objects: Vec<SeenObject> = self.kubectl().list(&resource(NODE), Scope::Cluster).await?;
        Ok(objects.into_iter().filter_map(|object| Some((object.metadata.name, object.status?))).collect())
    }

    pub(crate) async fn kubernetes_nodes(&self) -> Result<Vec<KubernetesNode>, CommandError> {
        Ok(self.kubectl().list("nodes", Scope::Cluster).await?)
    }

    /// The TPM of the control plane that joins, if one does.
    pub(crate) async fn joining(&self) -> Result<Option<String>, CommandError> {
        let lease: Option<Lease> =
            self.kubectl().get("leases.coordination.k8s.io", Scope::Namespace(NAMESPACE), JOINING).await?;
        Ok(lease.and_then(|lease| lease.spec.holder_identity).filter(|holder| !holder.is_empty()))
    }
}

//! What the API server shows of a cluster's machines, beside their records.

use std::collections::BTreeMap;

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::objects::{CLUSTER_MAP, NAMESPACE, NODE, status_object};
use latchkey_cluster_store::{KubernetesFile, NextComponents, Reported};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::machines::resource;
use super::{ApiServer, Maps as _, malformed};
use crate::error::CommandError;
use crate::seen::Seen;
use crate::stock::{Conditions, Scope, StockCode};

/// kubeadm's label for control planes.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// What nodes that join hear of the cluster, in its document.
const DESCRIPTION: &str = "kubernetes.json";
/// The `Lease` of the control plane that joins.
const JOINING: &str = "latchkey";
const LEASES: &str = "leases.coordination.k8s.io";

/// Kubernetes' own object of a node.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct KubernetesNode {
    metadata: NodeMetadata,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeMetadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    resource_version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
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
    #[serde(rename = "bootID")]
    boot_id: String,
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

    /// Another one after each boot; empty where the kubelet did not say.
    pub(crate) fn boot_id(&self) -> &str {
        &self.status.node_info.boot_id
    }

    pub(crate) fn is_control_plane(&self) -> bool {
        self.metadata.labels.contains_key(CONTROL_PLANE)
    }

    /// Whether no pods come to it any more.
    pub(crate) fn is_cordoned(&self) -> bool {
        self.spec.unschedulable
    }

    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name).map(String::as_str)
    }

    /// Which state of the object this is.
    pub(crate) fn revision(&self) -> &str {
        &self.metadata.resource_version
    }
}

#[derive(Deserialize)]
struct SeenObject {
    metadata: Named,
    #[serde(default)]
    status: Option<Seen>,
}

#[derive(Serialize, Deserialize)]
struct Lease {
    metadata: Revision,
    #[serde(default)]
    spec: LeaseSpec,
}

/// A change of an object that somebody else changed is refused.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Revision {
    resource_version: String,
}

#[derive(Default, Serialize, Deserialize)]
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
    pub(crate) async fn seen_of_all(&self) -> Result<BTreeMap<EkDigest, Seen>, CommandError> {
        let objects: Vec<SeenObject> = self.kubectl().list(&resource(NODE), Scope::Cluster).await?;
        let seen = |object: SeenObject| Some((EkDigest::from_hex(&object.metadata.name)?, object.status?));
        Ok(objects.into_iter().filter_map(seen).collect())
    }

    /// Writes what was seen of a machine on record.
    pub(crate) async fn show_status(
        &self,
        ek: EkDigest,
        status: &latchkey_cluster_store::NodeStatus,
    ) -> Result<(), CommandError> {
        let document = status_object(&ek, status).to_string();
        Ok(self.kubectl().replace_all::<IgnoredAny>(document.as_bytes(), "status").await.map(drop)?)
    }

    pub(crate) async fn kubernetes_nodes(&self) -> Result<Vec<KubernetesNode>, CommandError> {
        Ok(self.kubectl().list("nodes", Scope::Cluster).await?)
    }

    /// What the machine of this name reported last; nothing where the cluster's records are not in its API server.
    pub(crate) async fn last_report(&self, node: &str) -> Option<Reported> {
        let (records, _) = self.records().await.ok()?;
        records.into_iter().find(|record| record.name.as_str() == node)?.reported
    }

    /// What the cluster says of itself to nodes that join; nothing where its documents are elsewhere.
    pub(crate) async fn described(&self) -> Result<Option<KubernetesFile>, CommandError> {
        let Some(text) = self.data_if_any(CLUSTER_MAP).await?.remove(DESCRIPTION) else { return Ok(None) };
        KubernetesFile::parse(text.as_bytes()).map(Some).map_err(|error| malformed(CLUSTER_MAP, &error))
    }

    /// Lets control planes that start again get these components from now on, where nodes get theirs by a list.
    pub(crate) async fn begins_to_go_to(&self, minor: &str, list: &str) -> Result<bool, CommandError> {
        let next = NextComponents { kubernetes_version: minor.to_owned(), component_list: list.to_owned() };
        let change = |file: &mut KubernetesFile| {
            file.next = Some(&next).filter(|next| next.kubernetes_version != file.kubernetes_version).cloned();
        };
        self.describe(change).await
    }

    /// Lets all nodes hear of another minor version from now on, and of another list of components where there is one.
    pub(crate) async fn goes_to(&self, minor: &str, list: Option<&str>) -> Result<bool, CommandError> {
        let change = |file: &mut KubernetesFile| {
            minor.clone_into(&mut file.kubernetes_version);
            file.component_list = list.map(str::to_owned).filter(|_| file.component_list.is_some());
            file.next = None;
        };
        self.describe(change).await
    }

    /// Changes what the cluster says of itself, where it does. Whether something is another.
    async fn describe(&self, change: impl Fn(&mut KubernetesFile)) -> Result<bool, CommandError> {
        if self.described().await?.is_none() {
            return Ok(false);
        }
        let changed = |data: &mut super::Data| {
            let text = data.get(DESCRIPTION).map(String::as_bytes).unwrap_or_default();
            let mut file = KubernetesFile::parse(text).map_err(|error| malformed(CLUSTER_MAP, &error))?;
            let before = file.clone();
            change(&mut file);
            if file == before {
                return Ok(false);
            }
            data.insert(DESCRIPTION.to_owned(), file.to_json());
            Ok(true)
        };
        self.change(CLUSTER_MAP, changed).await
    }

    /// Gives back the turn of a control plane that joins, if this machine has it.
    pub(crate) async fn end_turn(&self, ek: EkDigest) -> Result<(), CommandError> {
        let known: Option<Lease> = self.kubectl().get(LEASES, Scope::Namespace(NAMESPACE), JOINING).await?;
        let Some(lease) = known.filter(|lease| lease.spec.holder_identity == Some(ek.to_string())) else {
            return Ok(());
        };
        let spec = LeaseSpec { holder_identity: Some(String::new()) };
        match self.kubectl().change(LEASES, Scope::Namespace(NAMESPACE), JOINING, &Lease { spec, ..lease }).await {
            // Somebody else has it by now.
            Err(error) if error.is(StockCode::Conflict) => Ok(()),
            done => Ok(done?),
        }
    }

    /// The TPM of the control plane that joins, if one does.
    pub(crate) async fn joining(&self) -> Result<Option<String>, CommandError> {
        let lease: Option<Lease> = self.kubectl().get(LEASES, Scope::Namespace(NAMESPACE), JOINING).await?;
        Ok(lease.and_then(|lease| lease.spec.holder_identity).filter(|holder| !holder.is_empty()))
    }
}

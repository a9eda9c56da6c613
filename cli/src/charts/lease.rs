//! The `Lease` that says who works on a cluster's charts, and which releases are in work.

use std::collections::BTreeMap;

use latchkey_attestation::reference::format_rfc3339;
use serde::{Deserialize, Serialize};

use crate::error::CommandError;
use crate::stock::{Kubectl, Scope, StockCode, StockError};
use crate::trust::now;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "latchkey-charts";
/// Where the releases stand that are in work: JSON, from `namespace/name` to the revision before.
const IN_WORK: &str = "latchkey.dev/in-work";

/// Releases in work: `namespace/name` to the newest revision before the work was begun.
pub(super) type InWork = BTreeMap<String, u64>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lease {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder_identity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_duration_seconds: Option<u64>,
    /// For whoever looks at it; nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    renew_time: Option<String>,
}

impl Lease {
    /// The lease as it is in the cluster.
    pub(super) async fn read(kubectl: &Kubectl) -> Result<Option<Self>, StockError> {
        kubectl.get("leases.coordination.k8s.io", Scope::Namespace(NAMESPACE), NAME).await
    }

    /// One that this run holds for so many seconds, or nobody's. Without a version it is one that is made.
    pub(super) fn new(holder: Option<(&str, u64)>, in_work: &InWork, version: Option<String>) -> Self {
        let spec = holder.map_or_else(Spec::default, |(holder, seconds)| Spec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(format_rfc3339(now()).replace('Z', ".000000Z")),
        });
        let mut annotations = BTreeMap::new();
        if !in_work.is_empty() {
            // Names and numbers are always JSON.
            annotations.insert(IN_WORK.to_owned(), serde_json::to_string(in_work).unwrap_or_default());
        }
        let metadata =
            Metadata { name: NAME.into(), namespace: NAMESPACE.into(), resource_version: version, annotations };
        Self { api_version: "coordination.k8s.io/v1".into(), kind: "Lease".into(), metadata, spec }
    }

    /// Writes it: what the API server made of it.
    pub(super) async fn write(&self, kubectl: &Kubectl) -> Result<Self, WriteError> {
        let json = serde_json::to_vec(self)
            .map_err(|error| WriteError::Failed(CommandError::local(StockCode::Malformed, error.to_string())))?;
        let written = match self.metadata.resource_version {
            None => kubectl.create(&json).await,
            Some(_) => kubectl.replace(&json).await,
        };
        written.map_err(|error| {
            let taken = [StockCode::Conflict, StockCode::ObjectExists, StockCode::ObjectMissing];
            if taken.into_iter().any(|code| error.is(code)) {
                WriteError::Changed(error)
            } else {
                WriteError::Failed(error.into())
            }
        })
    }

    pub(super) fn holder(&self) -> Option<&str> {
        self.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    pub(super) fn version(&self) -> String {
        self.metadata.resource_version.clone().unwrap_or_default()
    }

    /// What is in work; nothing where it cannot be read, so that nothing is decided by it.
    pub(super) fn in_work(&self) -> InWork {
        let text = self.metadata.annotations.get(IN_WORK);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// Why a lease was not written.
pub(super) enum WriteError {
    /// The lease is not the one that was read any more.
    Changed(StockError),
    Failed(CommandError),
}

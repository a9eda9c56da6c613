//! A `Lease` that says who works on something of a cluster, and how far that is.

use std::collections::BTreeMap;
use std::time::Duration;

use latchkey_attestation::reference::format_rfc3339;
use serde::{Deserialize, Serialize};

use super::About;
use crate::clock::now;
use crate::error::CommandError;
use crate::stock::{Kubectl, Scope, StockCode, StockError};

const NAMESPACE: &str = "kube-system";
/// No work is waited for any longer.
const LONGEST: Duration = Duration::from_hours(24);

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
    pub(super) async fn read(kubectl: &Kubectl, about: &About) -> Result<Option<Self>, StockError> {
        kubectl.get("leases.coordination.k8s.io", Scope::Namespace(NAMESPACE), about.lease).await
    }

    /// One that this run holds for so long, or nobody's. Without a version it is one that is made.
    pub(super) fn new(
        about: &About,
        holder: Option<(&str, Duration)>,
        note: Option<String>,
        version: Option<String>,
    ) -> Self {
        let spec = holder.map_or_else(Spec::default, |(holder, held)| Spec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(held.as_secs()),
            renew_time: Some(format_rfc3339(now()).replace('Z', ".000000Z")),
        });
        let annotations = note.map(|note| (about.note.to_owned(), note)).into_iter().collect();
        let (name, namespace) = (about.lease.to_owned(), NAMESPACE.to_owned());
        let metadata = Metadata { name, namespace, resource_version: version, annotations };
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

    /// For how long it is held once it was written; `None` where it does not say.
    pub(super) fn held(&self) -> Option<Duration> {
        self.spec.lease_duration_seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST))
    }

    /// How far the work is, as its holder wrote it.
    pub(super) fn note(&self, about: &About) -> Option<&str> {
        self.metadata.annotations.get(about.note).map(String::as_str)
    }
}

/// Why a lease was not written.
pub(super) enum WriteError {
    /// The lease is not the one that was read any more.
    Changed(StockError),
    Failed(CommandError),
}

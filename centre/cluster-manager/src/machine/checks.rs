//! Whether a configuration can be carried out.

use latchkey_factory_plus::cluster::Configuration;
use latchkey_factory_plus::{ClusterName, Uuid};
use serde::Deserialize as _;
use serde_json::Value;

use super::{NameRefusal, Names, SetupStatus};
use latchkey_factory_plus::kubernetes_names::is_kubernetes_label;

/// The most bytes of a configuration, as JSON.
pub const MAX_CONFIGURATION: usize = 256 << 10;

/// Why a configuration is not carried out. What runs already is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is larger than [`MAX_CONFIGURATION`].
    #[error("the configuration has {0} bytes")]
    TooLarge(usize),
    /// It has another shape than a configuration.
    #[error("the configuration cannot be read: {0}")]
    Shape(String),
    /// The namespace's name is none, or Kubernetes' own.
    #[error("the namespace {0:?} cannot be deployed to")]
    Namespace(String),
    /// The name is taken.
    #[error("the name is refused: {0}")]
    Name(#[from] NameRefusal),
    /// The name was another one.
    #[error("the cluster is called {was}, and cannot be renamed to {now}: its principals carry its name")]
    Renamed {
        /// Its name.
        was: ClusterName,
        /// What it is to be called.
        now: ClusterName,
    },
    /// The namespace was another one.
    #[error("the cluster is deployed to the namespace {was}, and cannot be moved to {now}: its credentials lie there")]
    Moved {
        /// Its namespace.
        was: String,
        /// Where it is to be.
        now: String,
    },
}

impl Refusal {
    /// How to mend it.
    pub fn fix(&self) -> String {
        match self {
            Self::TooLarge(_) => format!("make its values smaller: {MAX_CONFIGURATION} bytes at most"),
            Self::Shape(_) => {
                "write an object with chart (a UUID), name, namespace, and optionally bare and values".into()
            }
            Self::Namespace(_) => {
                "name a namespace with lower-case letters, digits and hyphens, at most 63, not beginning with kube-"
                    .into()
            }
            Self::Name(NameRefusal::Held { .. }) => {
                "choose another name, or wait: it is set up by itself when the name is free".into()
            }
            Self::Name(_) => "choose another name".into(),
            Self::Renamed { was, .. } => {
                format!("write the name {was} again; for another name, decommission this cluster and make a new one")
            }
            Self::Moved { was, .. } => {
                format!(
                    "write the namespace {was} again; for another one, decommission this cluster and make a new one"
                )
            }
        }
    }

    /// Whether another cluster's end could mend it.
    pub(super) const fn is_name(&self) -> bool {
        matches!(self, Self::Name(_))
    }
}

/// The configuration that an entry says, if it can be carried out for a cluster with this status.
pub(super) fn check(
    cluster: Uuid,
    entry: &Value,
    status: Option<&SetupStatus>,
    names: &Names,
) -> Result<Configuration, Refusal> {
    let size = entry.to_string().len();
    if size > MAX_CONFIGURATION {
        return Err(Refusal::TooLarge(size));
    }
    let wanted = Configuration::deserialize(entry).map_err(|error| Refusal::Shape(error.to_string()))?;
    if !is_kubernetes_label(&wanted.namespace) || wanted.namespace.starts_with("kube-") {
        return Err(Refusal::Namespace(wanted.namespace));
    }
    let Some(spec) = status.and_then(|status| status.spec.as_ref()) else {
        return names.refusal(cluster, &wanted.name).map_or(Ok(wanted), |refusal| Err(refusal.into()));
    };
    if spec.name != wanted.name {
        return Err(Refusal::Renamed { was: spec.name.clone(), now: wanted.name });
    }
    // Once it was ready, an edge may have its secrets in that namespace.
    let bootstrapped = status.is_some_and(|status| status.generation > 0);
    if bootstrapped && spec.namespace != wanted.namespace {
        return Err(Refusal::Moved { was: spec.namespace.clone(), now: wanted.namespace });
    }
    Ok(wanted)
}

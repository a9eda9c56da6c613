//! Which cluster this is.

use latchkey_factory_plus::kubernetes_names::is_kubernetes_label;
use latchkey_factory_plus::{ClusterName, Uuid};
use serde::Deserialize;

/// Which cluster this is, as the centre knows it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSection {
    /// The cluster's object in the configuration database.
    pub uuid: Uuid,
    /// Its name.
    pub name: ClusterName,
}

/// The namespace that the edge's programs and deployments live in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Namespace(String);

/// A text is no namespace.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no namespace; lower-case letters, digits and inner hyphens make one, at most 63")]
pub struct NamespaceError(String);

impl Namespace {
    /// As Kubernetes knows it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Namespace {
    type Error = NamespaceError;

    fn try_from(text: String) -> Result<Self, NamespaceError> {
        if is_kubernetes_label(&text) { Ok(Self(text)) } else { Err(NamespaceError(text.chars().take(80).collect())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_elsewhere_is_no_namespace() {
        assert_eq!(Namespace::try_from("fplus-edge".to_owned()).unwrap().as_str(), "fplus-edge");
        for bad in ["", "A", "a.b", "-a", "a/b", "a\n"] {
            assert!(Namespace::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}

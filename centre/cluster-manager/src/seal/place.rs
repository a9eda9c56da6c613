//! Which key of which secret.

use latchkey_factory_plus::kubernetes_names::{is_kubernetes_label, is_kubernetes_subdomain};

use crate::manifests::SECRETS;

/// The longest key of a secret.
const LONGEST_KEY: usize = 253;

/// A key of a secret in a namespace: all three are names that Kubernetes allows, so none leads out of its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    namespace: String,
    name: String,
    key: String,
}

/// A part of a path that is no name of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The namespace.
    #[error("{0:?} is no namespace: lower-case letters, digits and inner hyphens, at most 63, make one")]
    Namespace(String),
    /// The secret's name.
    #[error("{0:?} is no secret's name: lower-case letters, digits, inner hyphens and dots, at most 253, make one")]
    Name(String),
    /// The key.
    #[error("{0:?} is no key of a secret: letters, digits, hyphens, dots and underscores, at most 253, make one")]
    Key(String),
}

impl Place {
    /// A place, of parts of a path after percent-decoding.
    pub fn new(namespace: &str, name: &str, key: &str) -> Result<Self, PlaceError> {
        if !is_kubernetes_label(namespace) {
            return Err(PlaceError::Namespace(shortened(namespace)));
        }
        if !is_kubernetes_subdomain(name) {
            return Err(PlaceError::Name(shortened(name)));
        }
        if !is_key(key) {
            return Err(PlaceError::Key(shortened(key)));
        }
        Ok(Self { namespace: namespace.into(), name: name.into(), key: key.into() })
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The secret's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key in the secret.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The file in the cluster's repository.
    pub fn path(&self) -> String {
        format!("{SECRETS}/{}/{}.yaml", self.namespace, self.name)
    }

    /// What a sealed value is bound to.
    pub(super) fn label(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

fn is_key(key: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(inner) && key != "." && !key.starts_with("..")
}

/// What an error shows of something that somebody sent.
fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_KEY).collect()
}

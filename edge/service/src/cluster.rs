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

/// The Kerberos realm of the centre.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Realm(String);

/// A text is no realm.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no realm; one is written like FACTORY.EXAMPLE")]
pub struct RealmError(String);

/// The namespace that the edge's programs and deployments live in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Namespace(String);

/// A text is no namespace.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no namespace; lower-case letters, digits and inner hyphens make one, at most 63")]
pub struct NamespaceError(String);

/// The longest realm, in bytes: that of a DNS name.
const LONGEST_REALM: usize = 253;

impl Realm {
    /// As it is written behind the `@` of a principal.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Realm {
    type Error = RealmError;

    fn try_from(text: String) -> Result<Self, RealmError> {
        let of_realm = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-' || byte == b'_';
        let is_realm = !text.is_empty() && text.len() <= LONGEST_REALM && text.bytes().all(of_realm);
        if is_realm { Ok(Self(text)) } else { Err(RealmError(text.chars().take(60).collect())) }
    }
}

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
    fn what_means_something_elsewhere_is_no_realm_and_no_namespace() {
        assert_eq!(Realm::try_from("FACTORY.EXAMPLE".to_owned()).unwrap().as_str(), "FACTORY.EXAMPLE");
        assert_eq!(Namespace::try_from("fplus-edge".to_owned()).unwrap().as_str(), "fplus-edge");
        for bad in ["", "A@B", "A/B", "A B", "A\nB", "$(x)", &"A".repeat(254)] {
            assert!(Realm::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
        for bad in ["", "A", "a.b", "-a", "a/b", "a\n"] {
            assert!(Namespace::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}

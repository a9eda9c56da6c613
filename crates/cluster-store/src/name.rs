//! Names of nodes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// RFC 1123 section 2.1 and RFC 1035 section 2.3.4: "names 255 octets or less" on the wire, 253 characters as text.
const MAX_NAME: usize = 253;
/// RFC 1035 section 2.3.4: "labels 63 octets or less".
const MAX_LABEL: usize = 63;

/// A node's name: an RFC 1123 subdomain in lower case, as Kubernetes wants node names; dots are allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

impl NodeName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = NodeNameError;

    fn from_str(text: &str) -> Result<Self, NodeNameError> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let label = |label: &str| {
            (1..=MAX_LABEL).contains(&label.len())
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if text.len() <= MAX_NAME && text.split('.').all(label) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NodeNameError)
        }
    }
}

impl TryFrom<String> for NodeName {
    type Error = NodeNameError;

    fn try_from(text: String) -> Result<Self, NodeNameError> {
        text.parse()
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Not a [`NodeName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a node name: expected lower-case letters, digits, `-` and dots, at most 253 characters (RFC 1123)")]
pub struct NodeNameError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_names_are_names_and_others_are_not() {
        for good in ["edge-1", "edge-1.plant.example", "a", "0", &"a".repeat(63)] {
            assert!(good.parse::<NodeName>().is_ok(), "{good}");
        }
        for bad in ["", ".", "a.", "-a", "a-", "A", "a_b", "a b", "a/b", "..", &"a".repeat(64), &["a"; 130].join(".")] {
            assert_eq!(bad.parse::<NodeName>(), Err(NodeNameError), "{bad}");
        }
    }
}

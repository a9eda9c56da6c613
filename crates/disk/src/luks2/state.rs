//! What a node must remember across boots, and which changes of it are allowed.

use core::fmt;
use core::str::FromStr;
use latchkey_keys::ClusterId;
use serde::{Deserialize, Serialize};

/// The node's facts as the state disk keeps them. Not secret: they stand in the header in clear, under a MAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// What the node is in its cluster. Never changes.
    pub role: Role,
    /// The name the cluster knows it by. Never changes.
    pub node_name: NodeName,
    /// The cluster it belongs to, and the value it locks PCR 15 with. Never changes.
    pub cluster_id: ClusterId,
    /// The salt `cluster_id` was derived with. Never changes.
    pub measurement_salt: [u8; 32],
    /// How far the first bootstrap came.
    pub phase: Phase,
    /// Grows with each ticket; an old disk put back shows an old epoch. Never falls.
    pub epoch: u64,
    /// How many bootstraps of this disk were begun. Never falls.
    pub attempt: u32,
}

impl NodeState {
    /// Whether `next` may replace this state: who the node is stays, the phase and the counters only grow.
    ///
    /// # Errors
    /// The first field that breaks the rule.
    pub fn check_successor(&self, next: &Self) -> Result<(), StateError> {
        let same = [
            (self.role == next.role, "role"),
            (self.node_name == next.node_name, "node_name"),
            (self.cluster_id == next.cluster_id, "cluster_id"),
            (self.measurement_salt == next.measurement_salt, "measurement_salt"),
        ];
        if let Some((_, field)) = same.into_iter().find(|(same, _)| !same) {
            return Err(StateError::Changed(field));
        }
        let grows = [
            (self.phase <= next.phase, "phase"),
            (self.epoch <= next.epoch, "epoch"),
            (self.attempt <= next.attempt, "attempt"),
        ];
        grows.into_iter().find(|(grows, _)| !grows).map_or(Ok(()), |(_, field)| Err(StateError::WentBack(field)))
    }
}

/// What a node is in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The control-plane node that was initialised.
    First,
    /// A control-plane node that joined.
    ControlPlane,
    /// A worker.
    Worker,
}

impl Role {
    /// The name in the token, and the byte string under the MAC.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
        }
    }
}

/// How far the first bootstrap came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The disk is there; the cluster step has not succeeded yet. Only such a disk may be reset.
    Formatted,
    /// The node is part of its cluster.
    Bootstrapped,
}

impl Phase {
    /// The name in the token, and the byte string under the MAC.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Formatted => "formatted",
            Self::Bootstrapped => "bootstrapped",
        }
    }
}

/// A node's name: 1 to 253 of `a-z 0-9 - .`, beginning and ending with a letter or digit (a DNS subdomain, RFC 1123).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(String);

impl NodeName {
    /// Longest name, in bytes.
    pub const MAX: usize = 253;
    /// Longest label, the part between two dots, in bytes.
    pub const MAX_LABEL: usize = 63;

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = StateError;

    fn from_str(text: &str) -> Result<Self, StateError> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let label = |label: &str| {
            (1..=Self::MAX_LABEL).contains(&label.len())
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if text.len() <= Self::MAX && text.split('.').all(label) {
            Ok(Self(text.to_owned()))
        } else {
            Err(StateError::NodeName)
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a node state is not acceptable. The caller is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Not a DNS subdomain.
    #[error("the node's name is not a DNS subdomain: a-z, 0-9, - and ., at most 253")]
    NodeName,
    /// A fact about who the node is would change.
    #[error("the node's {0} cannot change")]
    Changed(&'static str),
    /// A phase or counter would fall.
    #[error("the node's {0} cannot go back")]
    WentBack(&'static str),
    /// A disk cannot begin as bootstrapped.
    #[error("a new disk begins in phase `formatted`")]
    NotFormatted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_are_dns_subdomains() {
        for good in ["a", "node-1", "n1.edge.example", "0"] {
            assert_eq!(good.parse::<NodeName>().unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", ".a", "a.", "A", "a_b", "a b", "a/../b", "ä", &"a".repeat(254)] {
            assert_eq!(bad.parse::<NodeName>(), Err(StateError::NodeName), "{bad:?}");
        }
    }
}

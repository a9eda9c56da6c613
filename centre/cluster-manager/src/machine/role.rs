//! The accounts of an edge cluster.

use latchkey_factory_plus::ClusterName;
use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::{Uuid, uuids};

/// What runs at an edge with an account of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Flux: pulls the cluster's repository.
    Flux,
    /// The operator that makes principals for what is deployed to the edge.
    KrbKeys,
    /// Edge Sync: reports hosts, deploys charts.
    Sync,
    /// Edge Monitor: a Sparkplug node.
    Monitor,
}

impl Role {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 4] = [Self::Flux, Self::KrbKeys, Self::Sync, Self::Monitor];

    /// The word for it in principals and in the setup status.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Flux => "flux",
            Self::KrbKeys => "krbkeys",
            Self::Sync => "sync",
            Self::Monitor => "monitor",
        }
    }

    /// Its principal: `op1ROLE/NAME@REALM`.
    pub fn principal(self, name: &ClusterName, realm: &str) -> String {
        format!("op1{}/{name}@{realm}", self.word())
    }

    /// What people call its account.
    pub fn title(self, name: &ClusterName) -> String {
        format!("Edge {}: {name}", self.word())
    }

    /// The grant it holds for its own cluster; all others are those of its class.
    pub(super) fn grant(self, account: Uuid, cluster: Uuid) -> Option<Grant> {
        let permission = match self {
            Self::Flux => uuids::permission::GIT_PULL,
            Self::Sync => uuids::permission::WRITE_EDGE_CLUSTER_STATUS,
            Self::KrbKeys | Self::Monitor => return None,
        };
        Some(Grant { principal: account, permission, target: cluster, plural: false })
    }

    /// Its node in the cluster's Sparkplug group.
    pub(super) const fn node(self) -> Option<&'static str> {
        match self {
            Self::Monitor => Some("Monitor"),
            _ => None,
        }
    }
}

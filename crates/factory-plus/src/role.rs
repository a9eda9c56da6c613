//! The accounts of an edge cluster.

use crate::grants::Grant;
use crate::{ClusterName, Realm, Upn, Uuid, uuids};

/// The first part of the UPN of what is deployed to an edge: `nd1/CLUSTER/NAME@REALM`.
pub const NODE_ACCOUNT: &str = "nd1";

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

    /// The word for it in the setup status.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Flux => "flux",
            Self::KrbKeys => "krbkeys",
            Self::Sync => "sync",
            Self::Monitor => "monitor",
        }
    }

    /// The first part of its UPN.
    pub const fn account(self) -> &'static str {
        match self {
            Self::Flux => "op1flux",
            Self::KrbKeys => "op1krbkeys",
            Self::Sync => "op1sync",
            Self::Monitor => "op1monitor",
        }
    }

    /// The role of an account, by the first part of its UPN.
    pub fn of_account(account: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.account() == account)
    }

    /// What Kerberos calls it: `op1ROLE/NAME@REALM`.
    pub fn upn(self, name: &ClusterName, realm: &Realm) -> Upn {
        Upn::of_account(self, name, realm)
    }

    /// What people call its account.
    pub fn title(self, name: &ClusterName) -> String {
        format!("Edge {}: {name}", self.word())
    }

    /// The grant it holds for its own cluster; all others are those of its class.
    pub fn grant(self, account: Uuid, cluster: Uuid) -> Option<Grant> {
        let permission = match self {
            Self::Flux => uuids::permission::GIT_PULL,
            Self::Sync => uuids::permission::WRITE_EDGE_CLUSTER_STATUS,
            Self::KrbKeys | Self::Monitor => return None,
        };
        Some(Grant { principal: account, permission, target: cluster, plural: false })
    }

    /// Its node in the cluster's Sparkplug group.
    pub const fn node(self) -> Option<&'static str> {
        match self {
            Self::Monitor => Some("Monitor"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_account_has_a_upn_however_long_its_parts_are() {
        let realm: Realm = "R".repeat(128).parse().unwrap();
        let name: ClusterName = "a".repeat(31).parse().unwrap();
        for role in Role::ALL {
            let upn = role.upn(&name, &realm);
            assert_eq!(upn.as_str().parse::<Upn>().as_ref(), Ok(&upn));
        }
        let upn = Role::KrbKeys.upn(&"North".parse().unwrap(), &"EXAMPLE.ORG".parse().unwrap());
        assert_eq!(upn.as_str(), "op1krbkeys/North@EXAMPLE.ORG");
    }
}

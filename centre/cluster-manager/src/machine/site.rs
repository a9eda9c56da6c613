//! What a site's set-up says to its cluster manager.

use crate::manifests::Repositories;
use latchkey_factory_plus::{Realm, Role, Uuid};
use serde::{Deserialize, Serialize};

/// What is the same for all clusters of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The Kerberos realm.
    pub realm: Realm,
    /// What Sparkplug groups begin with: `PREFIX-NAME`.
    pub prefix: String,
    /// The classes that accounts and clusters become members of.
    pub classes: Classes,
    /// Where repositories are.
    pub repositories: Repositories,
    /// How long nobody gets the name of a cluster that was decommissioned, in milliseconds: a ticket or a token of one of its
    /// accounts would be good for the account of the same name.
    pub names_held_ms: u64,
}

/// Classes that a site's set-up made: each is a role, and gives its members their grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Classes {
    /// Repositories of clusters; the clusters themselves are its members.
    pub cluster: Uuid,
    /// "Edge flux".
    pub flux: Uuid,
    /// "Edge krbkeys".
    pub krbkeys: Uuid,
    /// "Edge sync".
    pub sync: Uuid,
    /// "Edge monitor".
    pub monitor: Uuid,
}

impl Classes {
    /// The class of a role's accounts.
    pub const fn of(&self, role: Role) -> Uuid {
        match role {
            Role::Flux => self.flux,
            Role::KrbKeys => self.krbkeys,
            Role::Sync => self.sync,
            Role::Monitor => self.monitor,
        }
    }
}

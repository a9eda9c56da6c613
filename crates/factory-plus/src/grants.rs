//! Permissions and access control lists, as services ask the authorisation service for them.

use serde::{Deserialize, Serialize};

use crate::{Uuid, uuids};

/// One line of an access control list: a permission, and the one target it holds for.
///
/// The authorisation service has resolved classes, groups and special targets already; what is left is compared exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The permission.
    pub permission: Uuid,
    /// What it holds for; [`uuids::special::WILDCARD`] is everything.
    pub target: Uuid,
}

/// Whether a list lets its principal do what `permission` is about to `target`: it names both, or the permission for everything.
pub fn allows(list: &[Access], permission: Uuid, target: Uuid) -> bool {
    list.iter()
        .any(|held| held.permission == permission && (held.target == target || held.target == uuids::special::WILDCARD))
}

/// A grant, as it is made: of a permission, for a target, to a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Who holds it: a principal, or a class of principals.
    pub principal: Uuid,
    /// A permission, or a class of permissions.
    pub permission: Uuid,
    /// What it holds for; see [`uuids::special`] for targets that mean several.
    pub target: Uuid,
    /// Whether the target is a class, and its members are meant.
    pub plural: bool,
}

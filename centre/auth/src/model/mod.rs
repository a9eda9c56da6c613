//! What the service keeps: identities and grants.
//!
//! Nothing here changes itself: a write is asked for with a witness of [`crate::rights`], answers what it would change, and
//! is [applied](Model::apply) once that is on the disk.

mod grants;
mod identities;

use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::{Upn, Uuid};
use serde::{Deserialize, Serialize};

use crate::objects::Part;
use crate::rights::{MayGrant, MayName, MayRevoke, MayUnname};

pub use grants::Grants;
pub use identities::{Identities, Kind, UnknownKind};

/// One change of what is kept; a write is one or several of them, all or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// A principal is known by this Kerberos name from now on.
    Name {
        /// The principal.
        principal: Uuid,
        /// Its name.
        name: Upn,
    },
    /// A principal has no Kerberos name any more.
    Unname {
        /// The principal.
        principal: Uuid,
    },
    /// A grant holds from now on, in the place of what was known by this UUID.
    Grant {
        /// What the grant is known by.
        uuid: Uuid,
        /// The grant.
        grant: Grant,
    },
    /// A grant ends.
    Revoke {
        /// What the grant was known by.
        uuid: Uuid,
    },
}

impl Change {
    /// Ends a grant.
    pub fn revoke(may: &MayRevoke) -> Self {
        Self::Revoke { uuid: may.uuid() }
    }

    /// What the change changes of access lists, in a model that has not seen it yet.
    pub(crate) fn parts(&self, model: &Model) -> Vec<Part> {
        let held = |uuid| model.grants.read(uuid).map(|grant| Part::Held(grant.principal));
        match self {
            Self::Name { .. } | Self::Unname { .. } => Vec::new(),
            Self::Grant { uuid, grant } => held(*uuid).into_iter().chain([Part::Held(grant.principal)]).collect(),
            Self::Revoke { uuid } => held(*uuid).into_iter().collect(),
        }
    }

    /// The names that mean somebody else then.
    pub(crate) fn names(&self, model: &Model) -> Vec<Upn> {
        match self {
            Self::Name { principal, name } => {
                model.identities.name_of(*principal).cloned().into_iter().chain([name.clone()]).collect()
            }
            Self::Unname { principal } => model.identities.name_of(*principal).cloned().into_iter().collect(),
            Self::Grant { .. } | Self::Revoke { .. } => Vec::new(),
        }
    }
}

/// Why a write that is allowed is not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// A principal has one name of a kind.
    #[error("the principal {principal} is {name} already; delete that identity first")]
    OtherName {
        /// The principal.
        principal: Uuid,
        /// What it is called now.
        name: Upn,
    },
    /// A name is one principal's.
    #[error("{name} is another principal's name; delete that identity first")]
    Taken {
        /// The name.
        name: Upn,
    },
    /// Two grants that say the same.
    #[error("the grant {uuid} says the same already")]
    SameGrant {
        /// What the other one is known by.
        uuid: Uuid,
    },
}

/// Identities and grants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    identities: Identities,
    grants: Grants,
}

impl Model {
    /// Who is called what.
    pub fn identities(&self) -> &Identities {
        &self.identities
    }

    /// Who was granted what.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Names a principal: what changes, or nothing where it is called so already.
    ///
    /// # Errors
    /// [`Conflict::OtherName`], [`Conflict::Taken`].
    pub fn name(&self, may: MayName) -> Result<Option<Change>, Conflict> {
        let (principal, name) = may.into_parts();
        match (self.identities.name_of(principal), self.identities.principal_of(&name)) {
            (Some(held), _) if *held == name => Ok(None),
            (Some(held), _) => Err(Conflict::OtherName { principal, name: held.clone() }),
            (None, Some(_)) => Err(Conflict::Taken { name }),
            (None, None) => Ok(Some(Change::Name { principal, name })),
        }
    }

    /// Takes a principal's name away: what changes, or nothing where it has none.
    pub fn unname(&self, may: &MayUnname) -> Option<Change> {
        let principal = may.principal();
        self.identities.name_of(principal).map(|_| Change::Unname { principal })
    }

    /// Makes a grant, which is known by `fresh` then, unless one that says the same is there: which, and what changes.
    pub fn grant(&self, may: &MayGrant, fresh: Uuid) -> (Uuid, Option<Change>) {
        let grant = *may.grant();
        match self.grants.find(&grant) {
            Some(uuid) => (uuid, None),
            None => (fresh, Some(Change::Grant { uuid: fresh, grant })),
        }
    }

    /// Puts a grant in the place of the one that is known by `uuid`.
    ///
    /// # Errors
    /// [`Conflict::SameGrant`].
    pub fn replace(&self, uuid: Uuid, may: &MayGrant) -> Result<Option<Change>, Conflict> {
        let grant = *may.grant();
        match self.grants.find(&grant) {
            Some(same) if same == uuid => Ok(None),
            Some(same) => Err(Conflict::SameGrant { uuid: same }),
            None => Ok(Some(Change::Grant { uuid, grant })),
        }
    }

    /// Does a change. One that was made for this model breaks nothing; of one that was not, what contradicts is left out.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Name { principal, name } => self.identities.insert(*principal, name.clone()),
            Change::Unname { principal } => self.identities.remove(*principal),
            Change::Grant { uuid, grant } => self.grants.insert(*uuid, *grant),
            Change::Revoke { uuid } => self.grants.remove(*uuid),
        }
    }
}

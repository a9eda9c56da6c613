//! Which principal is called what.

use std::collections::BTreeMap;
use std::str::FromStr;

use latchkey_factory_plus::{Upn, Uuid};

/// A kind of identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The name of a Kerberos principal.
    Kerberos,
}

/// A word that is no kind of identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is one kind of identity: kerberos")]
pub struct UnknownKind;

impl Kind {
    /// The word for it in paths and bodies.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kerberos => "kerberos",
        }
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        if word == Self::Kerberos.word() { Ok(Self::Kerberos) } else { Err(UnknownKind) }
    }
}

/// Names of principals: one name for a principal, and one principal for a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identities {
    names: BTreeMap<Uuid, Upn>,
    principals: BTreeMap<Upn, Uuid>,
}

impl Identities {
    /// What a principal is called.
    pub fn name_of(&self, principal: Uuid) -> Option<&Upn> {
        self.names.get(&principal)
    }

    /// Who is called so.
    pub fn principal_of(&self, name: &Upn) -> Option<Uuid> {
        self.principals.get(name).copied()
    }

    /// All of them, by principal.
    pub fn all(&self) -> impl Iterator<Item = (Uuid, &Upn)> {
        self.names.iter().map(|(principal, name)| (*principal, name))
    }

    pub(super) fn insert(&mut self, principal: Uuid, name: Upn) {
        self.remove(principal);
        if let Some(other) = self.principals.insert(name.clone(), principal) {
            self.names.remove(&other);
        }
        self.names.insert(principal, name);
    }

    pub(super) fn remove(&mut self, principal: Uuid) {
        if let Some(name) = self.names.remove(&principal) {
            self.principals.remove(&name);
        }
    }
}

//! Who was granted what, before classes and special targets mean anything.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::{Uuid, uuids};

/// Grants: no two say the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    known: BTreeMap<Uuid, Grant>,
    same: BTreeMap<Grant, Uuid>,
    held: BTreeMap<Uuid, BTreeSet<Uuid>>,
}

impl Grants {
    /// The grant that is known by a UUID.
    pub fn read(&self, uuid: Uuid) -> Option<&Grant> {
        self.known.get(&uuid)
    }

    /// What a grant that says this is known by.
    pub fn find(&self, grant: &Grant) -> Option<Uuid> {
        self.same.get(grant).copied()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (Uuid, &Grant)> {
        self.known.iter().map(|(uuid, grant)| (*uuid, grant))
    }

    /// Those that name this principal, or this class of principals.
    pub fn held_by(&self, holder: Uuid) -> impl Iterator<Item = (Uuid, &Grant)> {
        let uuids = self.held.get(&holder).into_iter().flatten();
        uuids.filter_map(|uuid| Some((*uuid, self.known.get(uuid)?)))
    }

    /// Everything in grants that may be a class, so that its members count.
    pub fn classes(&self) -> BTreeSet<Uuid> {
        let named = self.same.keys().flat_map(|grant| {
            [Some(grant.principal), Some(grant.permission), grant.plural.then_some(grant.target)].into_iter().flatten()
        });
        let always = [uuids::class::PRINCIPAL, uuids::class::PERMISSION];
        named.chain(always).filter(|uuid| *uuid != uuids::special::MINE && *uuid != uuids::special::WILDCARD).collect()
    }

    pub(super) fn insert(&mut self, uuid: Uuid, grant: Grant) {
        self.remove(uuid);
        if let Some(same) = self.same.get(&grant).copied() {
            self.remove(same);
        }
        self.known.insert(uuid, grant);
        self.same.insert(grant, uuid);
        self.held.entry(grant.principal).or_default().insert(uuid);
    }

    pub(super) fn remove(&mut self, uuid: Uuid) {
        let Some(grant) = self.known.remove(&uuid) else { return };
        self.same.remove(&grant);
        if let Some(held) = self.held.get_mut(&grant.principal) {
            held.remove(&uuid);
            if held.is_empty() {
                self.held.remove(&grant.principal);
            }
        }
    }
}

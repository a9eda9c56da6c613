//! Classes, their members, and who owns what, as the configuration database tells them.
//!
//! Members are the derived ones: those of subclasses are among them. So nothing here, nor what is made of it, follows a chain,
//! and a circle of classes is the configuration database's matter alone.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_factory_plus::{Uuid, uuids};

/// Something that access lists are made of; see [`crate::lists`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The grants that name this principal or class.
    Held(Uuid),
    /// The members of this class.
    Members(Uuid),
    /// What this object is a member of, and what it owns.
    Object(Uuid),
}

/// What is known of objects. Of classes that nobody told about there are no members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    members: BTreeMap<Uuid, BTreeSet<Uuid>>,
    classes: BTreeMap<Uuid, BTreeSet<Uuid>>,
    owners: BTreeMap<Uuid, Uuid>,
    owned: BTreeMap<Uuid, BTreeSet<Uuid>>,
}

impl Objects {
    /// The members of a class.
    pub fn members(&self, class: Uuid) -> impl Iterator<Item = Uuid> {
        self.members.get(&class).into_iter().flatten().copied()
    }

    /// Whether an object is a member of a class.
    pub fn is_member(&self, class: Uuid, object: Uuid) -> bool {
        self.members.get(&class).is_some_and(|members| members.contains(&object))
    }

    /// The classes that an object is a member of.
    pub fn classes_of(&self, object: Uuid) -> impl Iterator<Item = Uuid> {
        self.classes.get(&object).into_iter().flatten().copied()
    }

    /// Whether anything was told of an object.
    pub fn knows(&self, object: Uuid) -> bool {
        self.classes.contains_key(&object) || self.owners.contains_key(&object)
    }

    /// Who owns an object.
    pub fn owner(&self, object: Uuid) -> Option<Uuid> {
        self.owners.get(&object).copied()
    }

    /// What a principal owns.
    pub fn owned_by(&self, owner: Uuid) -> impl Iterator<Item = Uuid> {
        self.owned.get(&owner).into_iter().flatten().copied()
    }

    /// Says who the members of a class are now. Gives what that changes.
    pub fn set_members(&mut self, class: Uuid, members: BTreeSet<Uuid>) -> Vec<Part> {
        let before = self.members.remove(&class).unwrap_or_default();
        let mut parts = Vec::new();
        for gone in before.difference(&members) {
            take(&mut self.classes, *gone, class);
            parts.push(Part::Object(*gone));
        }
        for new in members.difference(&before) {
            self.classes.entry(*new).or_default().insert(class);
            parts.push(Part::Object(*new));
        }
        if !parts.is_empty() {
            parts.push(Part::Members(class));
        }
        if !members.is_empty() {
            self.members.insert(class, members);
        }
        parts
    }

    /// Says who owns an object now; nobody, where the owner is none or [`uuids::special::UNOWNED`]. Gives what that changes.
    pub fn set_owner(&mut self, object: Uuid, owner: Option<Uuid>) -> Vec<Part> {
        let owner = owner.filter(|owner| *owner != uuids::special::UNOWNED);
        let before = match owner {
            Some(owner) => self.owners.insert(object, owner),
            None => self.owners.remove(&object),
        };
        if before == owner {
            return Vec::new();
        }
        if let Some(before) = before {
            take(&mut self.owned, before, object);
        }
        if let Some(owner) = owner {
            self.owned.entry(owner).or_default().insert(object);
        }
        before.into_iter().chain(owner).map(Part::Object).collect()
    }
}

/// Takes a value out of the set below a key, and the set when nothing is left in it.
fn take(sets: &mut BTreeMap<Uuid, BTreeSet<Uuid>>, key: Uuid, value: Uuid) {
    if let Some(set) = sets.get_mut(&key) {
        set.remove(&value);
        if set.is_empty() {
            sets.remove(&key);
        }
    }
}

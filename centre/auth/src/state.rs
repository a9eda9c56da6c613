//! Everything that is known: identities and grants that are durable, classes and owners, and the lists made of them.

use std::collections::BTreeSet;

use latchkey_factory_plus::{Upn, Uuid};

use crate::expand::{List, NoList};
use crate::lists::Lists;
use crate::model::{Change, Model};
use crate::objects::{Objects, Part};
use crate::rights::{Rights, Rules};

/// What may be different after a change. Who watches something of it looks again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// Whose lists.
    pub lists: BTreeSet<Uuid>,
    /// Which names mean somebody else.
    pub names: BTreeSet<Upn>,
}

/// What is known now.
#[derive(Debug)]
pub struct State {
    rules: Rules,
    model: Model,
    objects: Objects,
    lists: Lists,
}

impl State {
    /// What is known when nothing is known of objects yet.
    pub fn new(rules: Rules, model: Model) -> Self {
        Self { rules, model, objects: Objects::default(), lists: Lists::default() }
    }

    /// Realms, and who is root.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Identities and grants.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Classes and owners.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The access list of a principal.
    ///
    /// # Errors
    /// [`NoList`].
    pub fn list(&mut self, principal: Uuid) -> Result<List, NoList> {
        self.lists.list(self.model.grants(), &self.objects, principal)
    }

    /// The rights of a caller whose name was proven. Who is called by no identity, or is no principal any more, has none.
    ///
    /// # Errors
    /// [`NoList::TooLong`].
    pub fn rights(&mut self, caller: Upn) -> Result<Rights, NoList> {
        let principal = self.model.identities().principal_of(&caller);
        let list = match principal.map(|principal| self.list(principal)) {
            Some(Ok(list)) => list,
            None | Some(Err(NoList::NoPrincipal)) => List::default(),
            Some(Err(too_long)) => return Err(too_long),
        };
        Ok(Rights::of(&self.rules, caller, principal, list))
    }

    /// Whether [`Touched`] would tell of a change of this principal's list.
    pub fn keeps(&self, principal: Uuid) -> bool {
        self.lists.keeps(principal)
    }

    /// Does a change that is durable.
    pub fn apply(&mut self, change: &Change) -> Touched {
        let (parts, names) = (change.parts(&self.model), change.names(&self.model));
        self.model.apply(change);
        Touched { names: names.into_iter().collect(), ..self.touch(&parts) }
    }

    /// Says who the members of a class are.
    pub fn set_members(&mut self, class: Uuid, members: BTreeSet<Uuid>) -> Touched {
        let parts = self.objects.set_members(class, members);
        self.touch(&parts)
    }

    /// Says who owns an object.
    pub fn set_owner(&mut self, object: Uuid, owner: Option<Uuid>) -> Touched {
        let parts = self.objects.set_owner(object, owner);
        self.touch(&parts)
    }

    fn touch(&mut self, parts: &[Part]) -> Touched {
        Touched { lists: self.lists.touch(parts), names: BTreeSet::new() }
    }
}

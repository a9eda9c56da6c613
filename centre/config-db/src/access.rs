//! Who may do what. An operation is executed only as a [`Permitted`] one, and only this module makes those.

use std::sync::Arc;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::grants::{Access, allows};
use latchkey_factory_plus::uuids::application::WRITE_SCOPE;
use latchkey_factory_plus::uuids::special::MINE;

use crate::{Model, Refusal};

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Option<Uuid>,
    rights: Rights,
}

#[derive(Debug, Clone)]
enum Rights {
    Everything,
    Listed(Arc<[Access]>),
}

impl Caller {
    /// The root principal: it passes every check, and has no UUID.
    pub const fn root() -> Self {
        Self { principal: None, rights: Rights::Everything }
    }

    /// A principal, by its UUID if it has one, with its access list.
    pub const fn of(principal: Option<Uuid>, access: Arc<[Access]>) -> Self {
        Self { principal, rights: Rights::Listed(access) }
    }

    /// Whether this is the root principal.
    pub const fn is_root(&self) -> bool {
        matches!(self.rights, Rights::Everything)
    }

    /// The principal's UUID.
    pub const fn principal(&self) -> Option<Uuid> {
        self.principal
    }

    /// Whether the caller holds a permission for a target, or for everything that it owns, and owns the target. What was created a
    /// moment ago is in no access list yet.
    pub fn may_in(&self, model: &Model, need: Need) -> bool {
        let owns =
            || self.principal.is_some() && model.object(need.target).map(|object| object.owner) == self.principal;
        self.may(need) || (owns() && self.may(Need { target: MINE, ..need }))
    }

    /// Whether the caller's access list has a permission for a target.
    pub fn may(&self, need: Need) -> bool {
        match &self.rights {
            Rights::Everything => true,
            Rights::Listed(access) => allows(access, need.permission, need.target),
        }
    }
}

/// A permission, and what it must be held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The permission.
    pub permission: Uuid,
    /// The target; [`WILDCARD`](latchkey_factory_plus::uuids::special::WILDCARD) where it must be held for everything.
    pub target: Uuid,
}

/// What an operation needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// All of these.
    pub all: Vec<Need>,
    /// Or, for writing the entry of an application about an object: the permission that the application's entry of
    /// [`WRITE_SCOPE`] names, held for the object.
    pub or_scope: Option<(Uuid, Uuid)>,
    /// Or this, if the operation would change nothing.
    pub or_unchanged: Option<Need>,
}

impl Needs {
    /// All of these, and nothing will do instead.
    pub fn all(needs: impl IntoIterator<Item = (Uuid, Uuid)>) -> Self {
        let all = needs.into_iter().map(|(permission, target)| Need { permission, target }).collect();
        Self { all, or_scope: None, or_unchanged: None }
    }

    /// The first one that the caller lacks, who may own what it is about.
    pub fn lacking_in(&self, model: &Model, caller: &Caller) -> Option<Need> {
        self.all.iter().copied().find(|need| !caller.may_in(model, *need))
    }

    /// The first one that the caller's access list lacks.
    pub fn lacking(&self, caller: &Caller) -> Option<Need> {
        self.all.iter().copied().find(|need| !caller.may(*need))
    }
}

/// What has needs: reads, writes and subscriptions.
pub trait Needing {
    /// What its caller must hold.
    fn needs(&self) -> Needs;
}

/// An operation whose caller may do it: the witness without which nothing is executed.
#[derive(Debug)]
pub struct Permitted<'a, T> {
    operation: &'a T,
    caller: &'a Caller,
    /// Why it may change nothing, if it may not.
    unchanged_for_lack_of: Option<Need>,
}

impl<'a, T: Needing> Permitted<'a, T> {
    /// Checks what the operation needs.
    pub fn check(model: &Model, caller: &'a Caller, operation: &'a T) -> Result<Self, Refusal> {
        let needs = operation.needs();
        let Some(lacking) = needs.lacking_in(model, caller) else {
            return Ok(Self { operation, caller, unchanged_for_lack_of: None });
        };
        if needs.or_scope.is_some_and(|(application, object)| holds_scope(model, caller, application, object)) {
            return Ok(Self { operation, caller, unchanged_for_lack_of: None });
        }
        if needs.or_unchanged.is_some_and(|need| caller.may(need)) {
            return Ok(Self { operation, caller, unchanged_for_lack_of: Some(lacking) });
        }
        Err(Refusal::Forbidden(lacking))
    }
}

impl<'a, T> Permitted<'a, T> {
    /// What may be done.
    pub const fn operation(&self) -> &'a T {
        self.operation
    }

    /// Who may do it.
    pub const fn caller(&self) -> &'a Caller {
        self.caller
    }

    /// Refuses where the operation changes something that the caller may only leave as it is.
    pub fn change(&self) -> Result<(), Refusal> {
        self.unchanged_for_lack_of.map_or(Ok(()), |lacking| Err(Refusal::Forbidden(lacking)))
    }

    /// Refuses where the caller lacks what only the operation's content shows to be needed.
    pub fn also(&self, needs: impl IntoIterator<Item = (Uuid, Uuid)>) -> Result<(), Refusal> {
        self.change()?;
        Needs::all(needs).lacking(self.caller).map_or(Ok(()), |lacking| Err(Refusal::Forbidden(lacking)))
    }
}

/// Whether an application names a permission for single objects, and the caller holds it for this one.
fn holds_scope(model: &Model, caller: &Caller, application: Uuid, object: Uuid) -> bool {
    model
        .entry(WRITE_SCOPE, application)
        .and_then(|entry| serde_json::from_str::<Uuid>(entry.json.text()).ok())
        .is_some_and(|permission| caller.may_in(model, Need { permission, target: object }))
}

//! Objects, members and subclasses.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::special::UNOWNED;

use super::Transaction;
use crate::access::Permitted;
use crate::model::special::{is_immutable, root_of_rank};
use crate::operation::{Outcome, Refusal, Write};
use crate::{Depth, Entry, Object};

pub(super) fn create(
    transaction: &mut Transaction<'_>,
    permitted: &Permitted<'_, Write>,
    class: Uuid,
    uuid: Option<Uuid>,
) -> Result<Outcome, Refusal> {
    let rank = rank_of_members(transaction, class)?;
    let owner = owner_of_new(transaction, permitted)?;
    let uuid = uuid.unwrap_or_else(Uuid::random);
    if let Some(found) = transaction.model().object(uuid) {
        if found.class != class {
            return Err(Refusal::Conflict(format!("{uuid} is there already, of the class {}", found.class)));
        }
        transaction.set_object(uuid, Object { deleted: false, ..found })?;
        return registration(transaction, uuid).map(Outcome::ObjectExisted);
    }
    add(transaction, uuid, Object { class, rank, owner, deleted: false, etag: Uuid::NIL })?;
    registration(transaction, uuid).map(Outcome::ObjectCreated)
}

/// Adds an object to its primary class, and a class to the root class of its rank.
pub(super) fn add(transaction: &mut Transaction<'_>, uuid: Uuid, object: Object) -> Result<(), Refusal> {
    transaction.set_object(uuid, object)?;
    transaction.set_member(object.class, uuid, true);
    if let Some(root) = root_of_rank(object.rank) {
        transaction.set_subclass(root, uuid, true);
    }
    Ok(())
}

/// The rank that a class's members have.
pub(super) fn rank_of_members(transaction: &Transaction<'_>, class: Uuid) -> Result<u8, Refusal> {
    let found = transaction.model().object(class);
    let found = found.ok_or_else(|| Refusal::Conflict(format!("there is no class {class}")))?;
    found.rank.checked_sub(1).ok_or_else(|| Refusal::Conflict(format!("{class} is no class: its rank is 0")))
}

/// The caller; nobody, where that is root.
pub(super) fn owner_of_new<T>(transaction: &Transaction<'_>, permitted: &Permitted<'_, T>) -> Result<Uuid, Refusal> {
    match permitted.caller().principal() {
        None if permitted.caller().is_root() => Ok(UNOWNED),
        None => Err(Refusal::NoPrincipal),
        Some(owner) if transaction.model().object(owner).is_some() => Ok(owner),
        Some(owner) => Err(Refusal::Conflict(format!("there is no object {owner} that could be the owner"))),
    }
}

fn registration(transaction: &Transaction<'_>, uuid: Uuid) -> Result<Entry, Refusal> {
    transaction.object("object", uuid).map(|object| object.registration(uuid))
}

pub(super) fn delete(transaction: &mut Transaction<'_>, object: Uuid) -> Result<Outcome, Refusal> {
    transaction.object("object", object)?;
    if is_immutable(object) {
        return Err(Refusal::Immutable(object));
    }
    let model = transaction.model();
    let mut dependent: Vec<Uuid> = model.members(object, Depth::Direct).into_iter().collect();
    dependent.extend(model.subclasses(object, Depth::Direct));
    dependent.extend(model.objects_of(object));
    dependent.extend(model.depend_on(object));
    dependent.sort_unstable();
    dependent.dedup();
    if !dependent.is_empty() {
        return Err(Refusal::InUse(dependent));
    }
    let (classes, above): (Vec<Uuid>, _) =
        (model.classes_of(object).collect(), model.superclasses(object, Depth::Direct));
    for application in model.applications_about(object) {
        transaction.remove_entry(application, object);
    }
    for class in classes {
        transaction.set_member(class, object, false);
    }
    for class in above {
        transaction.set_subclass(class, object, false);
    }
    transaction.remove_object(object);
    Ok(Outcome::Done)
}

pub(super) fn add_member(
    transaction: &mut Transaction<'_>,
    permitted: &Permitted<'_, Write>,
    class: Uuid,
    member: Uuid,
) -> Result<Outcome, Refusal> {
    both(transaction, class, member)?;
    if transaction.model().is_direct_member(class, member) {
        return Ok(Outcome::Done);
    }
    permitted.change()?;
    join(transaction, class, member)?;
    Ok(Outcome::Done)
}

/// A class gets a member of the rank below its own.
pub(super) fn join(transaction: &mut Transaction<'_>, class: Uuid, member: Uuid) -> Result<(), Refusal> {
    let (upper, lower) = (known(transaction, class)?, known(transaction, member)?);
    if lower.rank + 1 != upper.rank {
        return Err(Refusal::Conflict(format!(
            "{member} of rank {} cannot be a member of {class} of rank {}: a member is one rank below its class",
            lower.rank, upper.rank
        )));
    }
    transaction.set_member(class, member, true);
    Ok(())
}

pub(super) fn remove_member(
    transaction: &mut Transaction<'_>,
    permitted: &Permitted<'_, Write>,
    class: Uuid,
    member: Uuid,
) -> Result<Outcome, Refusal> {
    let (_, object) = both(transaction, class, member)?;
    if !transaction.model().is_direct_member(class, member) {
        return Ok(Outcome::Done);
    }
    permitted.change()?;
    if object.class == class {
        return Err(Refusal::Conflict(format!("{class} is the primary class of {member}, which stays a member of it")));
    }
    transaction.set_member(class, member, false);
    Ok(Outcome::Done)
}

pub(super) fn add_subclass(transaction: &mut Transaction<'_>, class: Uuid, subclass: Uuid) -> Result<Outcome, Refusal> {
    both(transaction, class, subclass)?;
    narrow(transaction, class, subclass)?;
    Ok(Outcome::Done)
}

/// A class gets a subclass of its own rank, without a circle.
pub(super) fn narrow(transaction: &mut Transaction<'_>, class: Uuid, subclass: Uuid) -> Result<(), Refusal> {
    let (upper, lower) = (known(transaction, class)?, known(transaction, subclass)?);
    if lower.rank != upper.rank || lower.rank == 0 {
        return Err(Refusal::Conflict(format!(
            "{subclass} of rank {} cannot be a subclass of {class} of rank {}: both are classes of one rank",
            lower.rank, upper.rank
        )));
    }
    if class == subclass || transaction.model().is_subclass(subclass, class) {
        return Err(Refusal::Conflict(format!("{class} is a subclass of {subclass} already, or the same")));
    }
    transaction.set_subclass(class, subclass, true);
    Ok(())
}

pub(super) fn remove_subclass(
    transaction: &mut Transaction<'_>,
    class: Uuid,
    subclass: Uuid,
) -> Result<Outcome, Refusal> {
    both(transaction, class, subclass)?;
    transaction.set_subclass(class, subclass, false);
    Ok(Outcome::Done)
}

fn both(transaction: &Transaction<'_>, class: Uuid, object: Uuid) -> Result<(Object, Object), Refusal> {
    Ok((transaction.object("class", class)?, transaction.object("object", object)?))
}

/// An object that a body names.
fn known(transaction: &Transaction<'_>, uuid: Uuid) -> Result<Object, Refusal> {
    transaction.model().object(uuid).ok_or_else(|| Refusal::Conflict(format!("there is no object {uuid}")))
}

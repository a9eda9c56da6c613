//! The access list of a principal: what its grants and those of its classes come to.

use std::collections::BTreeSet;
use std::sync::Arc;

use latchkey_factory_plus::grants::{Access, Grant};
use latchkey_factory_plus::{Uuid, uuids};

use crate::model::Grants;
use crate::objects::{Objects, Part};

/// The most lines of a list. Groups of permissions for classes of targets multiply; no service wants to read more.
pub const LONGEST: usize = 50_000;

/// An access list, in order, each line once.
pub type List = Arc<[Access]>;

/// Why there is no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoList {
    /// The configuration database knows no principal of this UUID.
    #[error("there is no principal of this UUID in the configuration database")]
    NoPrincipal,
    /// More than [`LONGEST`] lines.
    #[error("the access list of this principal has more than {LONGEST} lines; grant fewer targets, or the wildcard")]
    TooLong,
}

/// Makes the list of `principal`. `parts` gets what it is made of: as long as none of these changes, the list does not.
///
/// * A grant holds for the principal that it names, or for all members of the class that it names.
/// * Its permission is a member of the class of permissions, or a group: then all members of the group are meant. A UUID that
///   is neither means nothing.
/// * Its target is itself, or with `plural` the members of the class. `Self` is the principal, `Mine` is everything that it
///   owns, and itself: the configuration database knows of an object's owner before this service does. The wildcard stays
///   what it is.
///
/// # Errors
/// [`NoList`].
pub fn list(grants: &Grants, objects: &Objects, principal: Uuid, parts: &mut BTreeSet<Part>) -> Result<List, NoList> {
    parts.insert(Part::Object(principal));
    if !objects.is_member(uuids::class::PRINCIPAL, principal) {
        return Err(NoList::NoPrincipal);
    }
    let mut lines = BTreeSet::new();
    for holder in std::iter::once(principal).chain(objects.classes_of(principal)) {
        parts.insert(Part::Held(holder));
        for (_, grant) in grants.held_by(holder) {
            add(&mut lines, objects, principal, grant, parts)?;
        }
    }
    Ok(lines.into_iter().collect())
}

fn add(
    lines: &mut BTreeSet<Access>,
    objects: &Objects,
    principal: Uuid,
    grant: &Grant,
    parts: &mut BTreeSet<Part>,
) -> Result<(), NoList> {
    parts.extend([Part::Object(grant.permission), Part::Members(grant.permission)]);
    for permission in permissions(objects, grant.permission) {
        let mut line = |target| {
            lines.insert(Access { permission, target });
            if lines.len() > LONGEST { Err(NoList::TooLong) } else { Ok(()) }
        };
        match grant.target {
            uuids::special::MINE => {
                std::iter::once(uuids::special::MINE).chain(objects.owned_by(principal)).try_for_each(&mut line)?;
            }
            class if grant.plural => {
                parts.insert(Part::Members(class));
                objects.members(class).map(|target| own(target, principal)).try_for_each(&mut line)?;
            }
            target => line(own(target, principal))?,
        }
    }
    Ok(())
}

/// A target, where `Self` is the principal.
fn own(target: Uuid, principal: Uuid) -> Uuid {
    if target == uuids::special::SELF { principal } else { target }
}

/// The permissions that a UUID in a grant means: itself, or the members of the group that it is.
pub fn permissions(objects: &Objects, permission: Uuid) -> impl Iterator<Item = Uuid> {
    let single = objects.is_member(uuids::class::PERMISSION, permission).then_some(permission);
    let group = single.is_none().then(|| objects.members(permission));
    single.into_iter().chain(group.into_iter().flatten())
}

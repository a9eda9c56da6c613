//! Registrations: entries that are made of objects, and whose writing changes the object.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::permission::{GIVE_TO, TAKE_FROM, WRITE_MEMBERS, WRITE_MEMBERSHIPS};
use serde::Deserialize;

use super::{Transaction, object};
use crate::access::Permitted;
use crate::operation::{Refusal, Write};
use crate::{Json, Object};

/// The form of a registration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Registration {
    uuid: Uuid,
    class: Uuid,
    rank: u8,
    owner: Uuid,
    deleted: bool,
    #[serde(rename = "strict")]
    _strict: Option<bool>,
}

/// Changes the object as a registration says. Beyond the application's own permission, a new owner needs the rights to take
/// from the old and to give to the new one, and a new class those over both memberships: whoever could choose an object's class
/// otherwise would choose its roles.
pub(super) fn write(
    transaction: &mut Transaction<'_>,
    permitted: &Permitted<'_, Write>,
    uuid: Uuid,
    json: &Json,
) -> Result<(), Refusal> {
    let wanted: Registration = serde_json::from_str(json.text())
        .map_err(|error| Refusal::Invalid(format!("a registration has uuid, class, rank, owner, deleted: {error}")))?;
    let before = transaction.object("object", uuid)?;
    if wanted.uuid != uuid {
        return Err(Refusal::Conflict(format!("an object's UUID does not change, and this one's is {uuid}")));
    }
    if wanted.rank != before.rank {
        return Err(Refusal::Conflict(format!("an object's rank does not change, and this one's is {}", before.rank)));
    }
    if wanted.owner != before.owner {
        permitted.also([(TAKE_FROM, before.owner), (GIVE_TO, wanted.owner)])?;
        if transaction.model().object(wanted.owner).is_none() {
            return Err(Refusal::Conflict(format!("there is no object {} that could be the owner", wanted.owner)));
        }
    }
    if wanted.class != before.class {
        permitted.also([(WRITE_MEMBERS, before.class), (WRITE_MEMBERS, wanted.class), (WRITE_MEMBERSHIPS, uuid)])?;
        object::join(transaction, wanted.class, uuid)?;
        transaction.set_member(before.class, uuid, false);
    }
    let Registration { class, owner, deleted, .. } = wanted;
    transaction.set_object(uuid, Object { class, owner, deleted, ..before })
}

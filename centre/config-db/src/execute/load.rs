//! Dumps, loaded.

use std::collections::BTreeMap;

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::INFO;
use serde_json::json;

use super::{Transaction, entry, object};
use crate::access::Permitted;
use crate::dump::ObjectDump;
use crate::model::special::root_of_rank;
use crate::operation::{Outcome, Preconditions, Refusal, Write};
use crate::schema::Schemas;
use crate::{Depth, Dump, Json, Object};

/// Objects at once; then names and entries one by one. What contradicts an entry that is there (409) is passed over, as the
/// contract says; any other refusal ends the load.
pub(super) fn load(
    transaction: &mut Transaction<'_>,
    schemas: &mut Schemas,
    permitted: &Permitted<'_, Write>,
    dump: &Dump,
) -> Result<Outcome, Refusal> {
    let begun = transaction.savepoint();
    if let Err(refusal) = load_objects(transaction, permitted, dump) {
        transaction.roll_back(begun);
        return Err(refusal);
    }
    let none = Preconditions::default();
    for (uuid, object) in dump.objects.values().flatten() {
        if let Some(name) = &object.name {
            let patch = Json::of(&json!({ "name": name }));
            tolerate(transaction, |transaction| {
                entry::patch(transaction, schemas, permitted, INFO, *uuid, &patch, &none)
            })?;
        }
    }
    for (application, entries) in &dump.configs {
        for (about, value) in entries {
            let value = Json::of(value);
            tolerate(transaction, |transaction| {
                entry::put(transaction, schemas, permitted, *application, *about, &value, &none)
            })?;
        }
    }
    Ok(Outcome::Loaded)
}

fn tolerate(
    transaction: &mut Transaction<'_>,
    write: impl FnOnce(&mut Transaction<'_>) -> Result<Outcome, Refusal>,
) -> Result<(), Refusal> {
    let begun = transaction.savepoint();
    match write(transaction) {
        Ok(_) => Ok(()),
        Err(refusal) => {
            transaction.roll_back(begun);
            if refusal.status() == 409 { Ok(()) } else { Err(refusal) }
        }
    }
}

fn load_objects(
    transaction: &mut Transaction<'_>,
    permitted: &Permitted<'_, Write>,
    dump: &Dump,
) -> Result<(), Refusal> {
    create(transaction, permitted, &dump.objects)?;
    let listed =
        || dump.objects.iter().flat_map(|(class, objects)| objects.iter().map(move |(uuid, of)| (*class, *uuid, of)));
    for (class, uuid, of) in listed() {
        place(transaction, class, uuid, of)?;
    }
    for (_, uuid, of) in listed() {
        if let Some(base) = of.powerset_of {
            object::join(transaction, uuid, base)?;
        }
        if let Some(members) = &of.members {
            for gone in transaction.model().members(uuid, Depth::Direct) {
                transaction.set_member(uuid, gone, members.contains(&gone));
            }
            members.iter().try_for_each(|member| object::join(transaction, uuid, *member))?;
        }
    }
    match listed().find(|(class, uuid, _)| !transaction.model().is_member(*class, *uuid)) {
        Some((class, uuid, _)) => {
            Err(Refusal::Conflict(format!("{uuid} would not be a member of its primary class {class}")))
        }
        None => Ok(()),
    }
}

/// Creates what is not there yet, classes before their members; what is there keeps its owner.
fn create(
    transaction: &mut Transaction<'_>,
    permitted: &Permitted<'_, Write>,
    objects: &BTreeMap<Uuid, BTreeMap<Uuid, ObjectDump>>,
) -> Result<(), Refusal> {
    let mut waiting: Vec<_> = objects.iter().collect();
    while !waiting.is_empty() {
        let (ready, later): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(class, _)| transaction.model().object(**class).is_some());
        if ready.is_empty() {
            let missing: Vec<String> = later.iter().map(|(class, _)| class.to_string()).collect();
            return Err(Refusal::Conflict(format!("there are no classes {}", missing.join(", "))));
        }
        for (class, members) in ready {
            let rank = object::rank_of_members(transaction, *class)?;
            for uuid in members.keys() {
                create_one(transaction, permitted, *class, rank, *uuid)?;
            }
        }
        waiting = later;
    }
    Ok(())
}

fn create_one(
    transaction: &mut Transaction<'_>,
    permitted: &Permitted<'_, Write>,
    class: Uuid,
    rank: u8,
    uuid: Uuid,
) -> Result<(), Refusal> {
    match transaction.model().object(uuid) {
        None => {
            let owner = object::owner_of_new(transaction, permitted)?;
            object::add(transaction, uuid, Object { class, rank, owner, deleted: false, etag: Uuid::NIL })
        }
        // The top of all ranks is its own class.
        Some(found) if found.rank == rank || uuid == class => {
            transaction.set_object(uuid, Object { class, deleted: false, ..found })
        }
        Some(found) => Err(Refusal::Conflict(format!(
            "{uuid} has the rank {}; as a member of {class} it would have {rank}, and a rank does not change",
            found.rank
        ))),
    }
}

/// Gives an object exactly the memberships and superclasses that the dump says.
fn place(transaction: &mut Transaction<'_>, class: Uuid, uuid: Uuid, of: &ObjectDump) -> Result<(), Refusal> {
    let wanted = of.member_of.clone().unwrap_or_else(|| vec![class]);
    let before: Vec<Uuid> = transaction.model().classes_of(uuid).collect();
    for gone in before.into_iter().filter(|before| !wanted.contains(before)) {
        transaction.set_member(gone, uuid, false);
    }
    for class in wanted {
        if class != uuid {
            object::join(transaction, class, uuid)?;
        }
    }
    let rank = transaction.object("object", uuid)?.rank;
    let root = root_of_rank(rank).filter(|root| *root != uuid);
    let wanted = of.subclass_of.clone().unwrap_or_else(|| root.into_iter().collect());
    let before = transaction.model().superclasses(uuid, Depth::Direct);
    for gone in before.into_iter().filter(|before| !wanted.contains(before)) {
        transaction.set_subclass(gone, uuid, false);
    }
    for above in wanted {
        if !transaction.model().is_direct_subclass(above, uuid) {
            object::narrow(transaction, above, uuid)?;
        }
    }
    Ok(())
}

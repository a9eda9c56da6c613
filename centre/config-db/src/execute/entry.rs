//! Entries: put, patched, deleted.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::uuids::application::{CONFIG_SCHEMA, REGISTRATION, WRITE_SCOPE};
use latchkey_sorted_json::MergeError;

use super::{Transaction, registration};
use crate::access::Permitted;
use crate::operation::{Outcome, Preconditions, Refusal, Write};
use crate::schema::{Schemas, check, compile};
use crate::{DEEPEST_JSON, Json, LONGEST_JSON};

pub(super) fn put(
    transaction: &mut Transaction<'_>,
    schemas: &mut Schemas,
    permitted: &Permitted<'_, Write>,
    application: Uuid,
    object: Uuid,
    json: &Json,
    preconditions: &Preconditions,
) -> Result<Outcome, Refusal> {
    let before = found(transaction, application, object, preconditions)?;
    if before.as_ref() == Some(json) {
        return Ok(Outcome::Done);
    }
    set(transaction, schemas, permitted, application, object, json.clone())?;
    Ok(if before.is_some() { Outcome::Done } else { Outcome::Created })
}

pub(super) fn patch(
    transaction: &mut Transaction<'_>,
    schemas: &mut Schemas,
    permitted: &Permitted<'_, Write>,
    application: Uuid,
    object: Uuid,
    json: &Json,
    preconditions: &Preconditions,
) -> Result<Outcome, Refusal> {
    let before = found(transaction, application, object, preconditions)?;
    let after = Json::merged(before.as_ref(), json).map_err(|error| match error {
        MergeError::PatchIsNoObject => Refusal::Invalid(error.to_string()),
        MergeError::ValueIsNoObject => Refusal::Conflict(error.to_string()),
    })?;
    if before.as_ref() == Some(&after) {
        return Ok(Outcome::Done);
    }
    if after.text().len() > LONGEST_JSON {
        return Err(Refusal::Invalid(format!("the merged entry would be longer than {LONGEST_JSON} bytes")));
    }
    set(transaction, schemas, permitted, application, object, after)?;
    Ok(Outcome::Done)
}

pub(super) fn delete(
    transaction: &mut Transaction<'_>,
    permitted: &Permitted<'_, Write>,
    application: Uuid,
    object: Uuid,
    preconditions: &Preconditions,
) -> Result<Outcome, Refusal> {
    let before = found(transaction, application, object, preconditions)?;
    if before.is_none() {
        return Err(Refusal::Missing { what: "entry about", uuid: object });
    }
    permitted.change()?;
    if application == REGISTRATION {
        return Err(Refusal::Immutable(object));
    }
    transaction.remove_entry(application, object);
    Ok(Outcome::Done)
}

/// The value before, of an application and an object that are there, if the preconditions hold.
fn found(
    transaction: &Transaction<'_>,
    application: Uuid,
    object: Uuid,
    preconditions: &Preconditions,
) -> Result<Option<Json>, Refusal> {
    if !transaction.model().is_application(application) {
        return Err(Refusal::Missing { what: "application", uuid: application });
    }
    transaction.object("object", object)?;
    let entry = transaction.model().entry(application, object);
    if !preconditions.hold(entry.as_ref().map(|entry| entry.etag)) {
        return Err(Refusal::Precondition);
    }
    Ok(entry.map(|entry| entry.json))
}

/// Writes a value that is another one than before.
fn set(
    transaction: &mut Transaction<'_>,
    schemas: &mut Schemas,
    permitted: &Permitted<'_, Write>,
    application: Uuid,
    object: Uuid,
    json: Json,
) -> Result<(), Refusal> {
    permitted.change()?;
    if json.depth() > DEEPEST_JSON {
        return Err(Refusal::Invalid(format!(
            "an entry has at most {DEEPEST_JSON} arrays and objects within each other"
        )));
    }
    schemas.check(transaction.model(), application, &json)?;
    match application {
        REGISTRATION => return registration::write(transaction, permitted, object, &json),
        CONFIG_SCHEMA => check_schema(transaction, object, &json)?,
        WRITE_SCOPE => check_scope(&json)?,
        _ => {}
    }
    transaction.set_entry(application, object, json)
}

/// A schema must be one, and allow all entries that are there.
fn check_schema(transaction: &Transaction<'_>, application: Uuid, json: &Json) -> Result<(), Refusal> {
    if application == REGISTRATION {
        return Err(Refusal::Conflict("the form of registrations is fixed".into()));
    }
    let schema = compile(json)?;
    for (object, entry) in transaction.model().entries_of(application) {
        check(&schema, &entry.json.value()).map_err(|error| {
            Refusal::Conflict(format!("the entry about {object} would no longer be allowed: {error}"))
        })?;
    }
    Ok(())
}

fn check_scope(json: &Json) -> Result<(), Refusal> {
    let refused =
        |error| Refusal::Invalid(format!("a write scope is the UUID of a permission, as a JSON string: {error}"));
    serde_json::from_str::<Uuid>(json.text()).map(drop).map_err(refused)
}

//! How the model is kept: one row for each [`Mutation`]'s place.

use latchkey_factory_plus::Uuid;
use latchkey_group_commit::Change;
use serde::{Deserialize, Serialize};

use super::{Entry, Mutation, Object};
use crate::Json;

/// The tables of the database; keys are UUIDs, one behind the other.
pub(crate) const TABLES: &[&str] = &[OBJECTS, MEMBERS, SUBCLASSES, ENTRIES];

const OBJECTS: &str = "objects";
const MEMBERS: &str = "members";
const SUBCLASSES: &str = "subclasses";
const ENTRIES: &str = "entries";

/// An object's row, as JSON. Its key is the object.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectRow {
    class: Uuid,
    rank: u8,
    owner: Uuid,
    deleted: bool,
    etag: Uuid,
}

/// Reads and writes rows.
#[derive(Debug)]
pub(crate) struct Row;

impl Row {
    /// The row of a change.
    pub(crate) fn of(mutation: &Mutation) -> Change {
        let present = |present: &bool| present.then(Vec::new);
        let (table, key, value) = match mutation {
            Mutation::Object(uuid, object) => (OBJECTS, uuid.as_bytes().to_vec(), object.as_ref().map(object_bytes)),
            Mutation::Member(class, object, is) => (MEMBERS, pair(*class, *object), present(is)),
            Mutation::Subclass(class, subclass, is) => (SUBCLASSES, pair(*class, *subclass), present(is)),
            Mutation::Entry(application, object, entry) => {
                (ENTRIES, pair(*application, *object), entry.as_ref().map(entry_bytes))
            }
        };
        Change { table, key, value }
    }

    /// The change of a row. An error names what is wrong with it.
    pub(crate) fn read(table: &str, key: &[u8], value: Option<&[u8]>) -> Result<Mutation, String> {
        match table {
            OBJECTS => Ok(Mutation::Object(one(key)?, value.map(object).transpose()?)),
            MEMBERS => two(key).map(|(class, object)| Mutation::Member(class, object, value.is_some())),
            SUBCLASSES => two(key).map(|(class, subclass)| Mutation::Subclass(class, subclass, value.is_some())),
            ENTRIES => {
                let (application, object) = two(key)?;
                Ok(Mutation::Entry(application, object, value.map(entry).transpose()?))
            }
            other => Err(format!("there is no table {other:?}")),
        }
    }
}

fn pair(one: Uuid, other: Uuid) -> Vec<u8> {
    [*one.as_bytes(), *other.as_bytes()].concat()
}

fn one(key: &[u8]) -> Result<Uuid, String> {
    key.try_into().map(Uuid::from_bytes).map_err(|_| format!("a key of {} bytes, where 16 belong", key.len()))
}

fn two(key: &[u8]) -> Result<(Uuid, Uuid), String> {
    let (one_bytes, other) = key.split_at_checked(16).ok_or_else(|| format!("a key of {} bytes", key.len()))?;
    Ok((one(one_bytes)?, one(other)?))
}

fn object_bytes(object: &Object) -> Vec<u8> {
    let Object { class, rank, owner, deleted, etag } = *object;
    serde_json::json!(ObjectRow { class, rank, owner, deleted, etag }).to_string().into_bytes()
}

fn object(bytes: &[u8]) -> Result<Object, String> {
    let row = serde_json::from_slice(bytes).map_err(|error| format!("a bad object: {error}"))?;
    let ObjectRow { class, rank, owner, deleted, etag } = row;
    Ok(Object { class, rank, owner, deleted, etag })
}

/// The etag, and behind it the JSON text.
fn entry_bytes(entry: &Entry) -> Vec<u8> {
    [entry.etag.as_bytes(), entry.json.text().as_bytes()].concat()
}

fn entry(bytes: &[u8]) -> Result<Entry, String> {
    let (etag, json) = bytes.split_at_checked(16).ok_or_else(|| format!("an entry of {} bytes", bytes.len()))?;
    let json = Json::parse(json).map_err(|error| format!("a bad entry: {error}"))?;
    Ok(Entry { etag: one(etag)?, json })
}

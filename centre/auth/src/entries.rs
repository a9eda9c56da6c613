//! How identities and grants stand in the durable file: by UUID, a name as text and a grant as JSON.

use latchkey_factory_plus::grants::Grant;
use latchkey_factory_plus::{Upn, Uuid};
use latchkey_group_commit as durable;

use crate::model::{Change, Model};

const IDENTITIES: &str = "identities";
const GRANTS: &str = "grants";

/// The tables of the file.
pub(crate) const TABLES: &[&str] = &[IDENTITIES, GRANTS];

/// Adds an entry of the file to a model.
///
/// # Errors
/// What is wrong with the entry: nothing is left out in silence.
pub(crate) fn read(model: &mut Model, table: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
    let uuid = key.try_into().map(Uuid::from_bytes).map_err(|_| "a key is no UUID")?;
    let change = if table == IDENTITIES {
        let name: Upn = text(value)?.parse().map_err(|error| format!("{uuid}: {error}"))?;
        if model.identities().principal_of(&name).is_some() {
            return Err(format!("{uuid}: {name} is another principal's name, too"));
        }
        Change::Name { principal: uuid, name }
    } else {
        let grant: Grant = serde_json::from_slice(value).map_err(|error| format!("{uuid}: {error}"))?;
        if let Some(same) = model.grants().find(&grant) {
            return Err(format!("{uuid}: the grant {same} says the same"));
        }
        Change::Grant { uuid, grant }
    };
    model.apply(&change);
    Ok(())
}

fn text(value: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(value).map_err(|error| error.to_string())
}

/// A change, as the file takes it.
pub(crate) fn write(change: &Change) -> durable::Change {
    match change {
        Change::Name { principal, name } => durable::Change::put(IDENTITIES, *principal.as_bytes(), name.as_str()),
        Change::Unname { principal } => durable::Change::remove(IDENTITIES, *principal.as_bytes()),
        Change::Grant { uuid, grant } => {
            durable::Change::put(GRANTS, *uuid.as_bytes(), serde_json::json!(grant).to_string())
        }
        Change::Revoke { uuid } => durable::Change::remove(GRANTS, *uuid.as_bytes()),
    }
}

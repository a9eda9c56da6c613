//! Bodies: closed JSON.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::grants::Grant;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Answer, Pattern};

/// A grant as clients send it: what they read may come back with its UUID.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    #[serde(default)]
    uuid: Option<Uuid>,
    principal: Uuid,
    permission: Uuid,
    target: Uuid,
    plural: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentPattern {
    #[serde(default)]
    principal: Option<Uuid>,
    #[serde(default)]
    permission: Option<Uuid>,
    #[serde(default)]
    target: Option<Uuid>,
    #[serde(default)]
    plural: Option<bool>,
}

/// A body as JSON of its type.
///
/// # Errors
/// An answer: 400 where it is no JSON, 422 where it is another.
pub(super) fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Answer> {
    serde_json::from_slice(body).map_err(|error| {
        let status = if error.is_data() { 422 } else { 400 };
        Answer::refused(status, format_args!("the body is not what is wanted here: {error}"))
    })
}

/// A grant that is known by `uuid`, or by none yet.
pub(super) fn grant(body: &[u8], uuid: Option<Uuid>) -> Result<Grant, Answer> {
    let Sent { uuid: sent, principal, permission, target, plural } = json(body)?;
    if sent.is_some() && sent != uuid {
        return Err(Answer::refused(422, "`uuid` is not that of the path; leave it out"));
    }
    Ok(Grant { principal, permission, target, plural })
}

/// What grants are looked for by.
pub(super) fn pattern(body: &[u8]) -> Result<Pattern, Answer> {
    let SentPattern { principal, permission, target, plural } = json(body)?;
    Ok(Pattern { principal, permission, target, plural })
}

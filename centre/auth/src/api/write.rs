//! Writes: what they change, decided against what others have written before, durable or not yet.

use latchkey_factory_plus::Uuid;
use serde_json::json;

use super::read::no_grant;
use super::{Answer, Write};
use crate::model::{Change, Model};
use crate::objects::Objects;
use crate::rights::{Rights, Rules};

/// What comes of a write: the answer, once the changes are durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// What changes; all or nothing.
    pub changes: Vec<Change>,
    /// What the caller is told then.
    pub answer: Answer,
}

impl From<Answer> for Decided {
    fn from(answer: Answer) -> Self {
        Self { changes: Vec::new(), answer }
    }
}

/// What writes are decided against.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// Realms, and who is root.
    pub rules: &'a Rules,
    /// Classes and owners.
    pub objects: &'a Objects,
    /// Identities and grants, with those of writes before this one.
    pub model: &'a Model,
}

/// Decides a write. `fresh` gives UUIDs that nothing is known by.
pub fn decide(ground: Ground<'_>, rights: &Rights, write: Write, fresh: &mut dyn FnMut() -> Uuid) -> Decided {
    decided(ground, rights, write, fresh).unwrap_or_else(Decided::from)
}

fn decided(
    Ground { rules, objects, model }: Ground<'_>,
    rights: &Rights,
    write: Write,
    fresh: &mut dyn FnMut() -> Uuid,
) -> Result<Decided, Answer> {
    let done = |change: Option<Change>, answer| Decided { changes: change.into_iter().collect(), answer };
    match write {
        // Whoever may read the identity may say what it is.
        Write::Name(principal, name)
            if model.identities().name_of(principal) == Some(&name) && rights.reads_identity(principal).is_ok() =>
        {
            Ok(Decided::from(Answer::empty(204)))
        }
        Write::Name(principal, name) => {
            let may = rights.name(rules, objects, principal, name.clone())?;
            rules.realms.check(&name).map_err(|why| Answer::refused(422, why))?;
            Ok(done(model.name(may)?, Answer::empty(204)))
        }
        Write::Unname(principal) => {
            let may = rights.unname(rules, objects, principal, model.identities().name_of(principal))?;
            let change =
                model.unname(&may).ok_or_else(|| Answer::refused(404, "this principal has no such identity"))?;
            Ok(done(Some(change), Answer::empty(204)))
        }
        Write::Grant(grant) => {
            let may = rights.grant(objects, grant)?;
            let (uuid, change) = model.grant(&may, fresh());
            let status = if change.is_some() { 201 } else { 200 };
            Ok(done(change, Answer::json_with(status, &json!({ "uuid": uuid }))))
        }
        Write::Replace(uuid, grant) => {
            rights.writes_some_grant()?;
            let before = model.grants().read(uuid).ok_or_else(no_grant)?;
            rights.revoke(uuid, before)?;
            let may = rights.grant(objects, grant)?;
            Ok(done(model.replace(uuid, &may)?, Answer::empty(204)))
        }
        Write::Revoke(uuid) => {
            rights.writes_some_grant()?;
            let may = rights.revoke(uuid, model.grants().read(uuid).ok_or_else(no_grant)?)?;
            Ok(done(Some(Change::revoke(&may)), Answer::empty(204)))
        }
        Write::Load(dump) => {
            let may = rights.load()?;
            let changes = dump.changes(rules, model, &may, fresh).map_err(|why| why.answer())?;
            // The npm client takes nothing but 200 for loaded, the original's set-up anything of success.
            Ok(Decided { changes, answer: Answer::empty(200) })
        }
    }
}

//! Reads, answered of what is durable.

use std::collections::BTreeMap;

use latchkey_factory_plus::grants::{Access, Grant};
use latchkey_factory_plus::{Upn, Uuid, uuids};
use serde::Serialize;

use super::{Answer, Read};
use crate::model::Kind;
use crate::rights::Rights;
use crate::state::State;

/// The access list of nobody.
const NOBODYS: [Access; 0] = [];

/// A grant as clients read it.
#[derive(Serialize)]
struct Known<'a> {
    uuid: Uuid,
    #[serde(flatten)]
    grant: &'a Grant,
}

/// Answers a read for a caller with these rights.
pub fn read(state: &mut State, rights: &Rights, read: &Read) -> Answer {
    answer(state, rights, read).unwrap_or_else(|refused| refused)
}

fn answer(state: &mut State, rights: &Rights, read: &Read) -> Result<Answer, Answer> {
    match read {
        Read::Principals => principals(state, rights),
        Read::Principal(uuid) => {
            rights.reads_identity(*uuid)?;
            identities(state, *uuid)
        }
        Read::Identity(uuid, Kind::Kerberos) => {
            rights.reads_identity(*uuid)?;
            state.model().identities().name_of(*uuid).map(Answer::json).ok_or_else(nameless)
        }
        Read::Kinds => Ok(Answer::json(&[Kind::Kerberos.word()])),
        Read::Names(Kind::Kerberos) => names(state, rights),
        Read::Find(name) => find(state, rights, name),
        Read::WhoAmI => identities(state, caller(state, rights)?),
        Read::WhoAmIBy(word) => who_am_i_by(caller(state, rights)?, rights, word),
        Read::Grants => grants(state, rights, |_| true),
        Read::FindGrants(pattern) => grants(state, rights, |grant| pattern.matches(grant)),
        Read::Grant(uuid) => grant(state, rights, *uuid),
        Read::List(principal) => {
            rights.reads_some_list()?;
            list(state, rights, *principal)
        }
        Read::ListOf(name) => {
            rights.reads_some_list()?;
            match state.model().identities().principal_of(name) {
                Some(principal) => list(state, rights, principal),
                None => Ok(Answer::json(&NOBODYS)),
            }
        }
    }
}

fn principals(state: &State, rights: &Rights) -> Result<Answer, Answer> {
    rights.reads_some_identity()?;
    let principals = state.model().identities().all().map(|(uuid, _)| uuid);
    Ok(Answer::json(&principals.filter(|uuid| rights.reads_identity(*uuid).is_ok()).collect::<Vec<_>>()))
}

fn names(state: &State, rights: &Rights) -> Result<Answer, Answer> {
    rights.reads_some_identity()?;
    let readable = state.model().identities().all().filter(|(uuid, _)| rights.reads_identity(*uuid).is_ok());
    Ok(Answer::json(&readable.map(|(_, name)| name).collect::<Vec<_>>()))
}

fn find(state: &State, rights: &Rights, name: &Upn) -> Result<Answer, Answer> {
    rights.reads_some_identity()?;
    let found = state.model().identities().principal_of(name);
    found.filter(|uuid| rights.reads_identity(*uuid).is_ok()).map(|uuid| Answer::json(&uuid)).ok_or_else(nameless)
}

fn identities(state: &State, uuid: Uuid) -> Result<Answer, Answer> {
    let name = state.model().identities().name_of(uuid).ok_or_else(nameless)?;
    Ok(Answer::json(&BTreeMap::from([(Kind::Kerberos.word(), name.to_string()), ("uuid", uuid.to_string())])))
}

/// Who asks, if anybody is called so. Nothing more is needed to know oneself.
fn caller(state: &State, rights: &Rights) -> Result<Uuid, Answer> {
    state.model().identities().principal_of(rights.caller()).ok_or_else(nameless)
}

fn who_am_i_by(uuid: Uuid, rights: &Rights, word: &str) -> Result<Answer, Answer> {
    match word {
        "uuid" => Ok(Answer::json(&uuid)),
        _ if word == Kind::Kerberos.word() => Ok(Answer::json(rights.caller())),
        _ => Err(Answer::refused(404, "callers are known by uuid and by kerberos")),
    }
}

fn nameless() -> Answer {
    Answer::refused(404, "no principal of that identity is known")
}

fn grants(state: &State, rights: &Rights, wanted: impl Fn(&Grant) -> bool) -> Result<Answer, Answer> {
    rights.reads_some_grant()?;
    let seen = state.model().grants().all().filter(|(_, grant)| rights.reads_grant(grant.permission) && wanted(grant));
    Ok(Answer::json(&seen.map(|(uuid, _)| uuid).collect::<Vec<_>>()))
}

fn grant(state: &State, rights: &Rights, uuid: Uuid) -> Result<Answer, Answer> {
    rights.reads_some_grant()?;
    let grant = state.model().grants().read(uuid).ok_or_else(no_grant)?;
    if rights.reads_grant(grant.permission) {
        Ok(Answer::json(&Known { uuid, grant }))
    } else {
        Err(Answer::refused(403, "this needs the permission ManageACL or ReadACL for the permission of the grant"))
    }
}

/// That no grant is known by the UUID.
pub(super) fn no_grant() -> Answer {
    Answer::refused(404, "there is no grant of this UUID")
}

fn list(state: &mut State, rights: &Rights, principal: Uuid) -> Result<Answer, Answer> {
    let whole = state.list(principal)?;
    if rights.reads_list(uuids::special::WILDCARD) {
        return Ok(Answer::json(&whole.as_ref()));
    }
    Ok(Answer::json(&whole.iter().filter(|line| rights.reads_list(line.permission)).collect::<Vec<_>>()))
}

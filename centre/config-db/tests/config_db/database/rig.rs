//! A database to try, and short words for what is tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchkey_config_db::watch::{Subscription, Target};
use latchkey_config_db::{Answer, Caller, ConfigDb, Json, Outcome, Preconditions, Read, Refusal, Uuid, Write};
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::notify::{Method, Request, Response, Update};
use latchkey_factory_plus::uuids::class::{APPLICATION, RANK_1};
use latchkey_test_support::block_on;
use serde_json::Value;
use smol::future::poll_once;

pub(crate) const CLASS: Uuid = Uuid::constant("c0000000-0000-4000-8000-000000000001");
pub(crate) const OTHER: Uuid = Uuid::constant("c0000000-0000-4000-8000-000000000002");
pub(crate) const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
pub(crate) const OBJECTS: [Uuid; 3] = [
    Uuid::constant("00000000-0000-4000-8000-00000000000a"),
    Uuid::constant("00000000-0000-4000-8000-00000000000b"),
    Uuid::constant("00000000-0000-4000-8000-00000000000c"),
];
pub(crate) const X: Uuid = OBJECTS[0];
pub(crate) const Y: Uuid = OBJECTS[1];

/// A database with two classes, an application and three objects.
pub(crate) fn filled(db: &ConfigDb) {
    for (class, uuid) in
        [(RANK_1, CLASS), (RANK_1, OTHER), (APPLICATION, APP)].into_iter().chain(OBJECTS.map(|object| (CLASS, object)))
    {
        write(db, Write::CreateObject { class, uuid: Some(uuid) }).unwrap();
    }
}

pub(crate) fn write(db: &ConfigDb, write: Write) -> Result<Outcome, Refusal> {
    block_on(db.write(Caller::root(), write))
}

pub(crate) fn put(object: Uuid, value: &Value) -> Write {
    Write::Put(APP, object, Json::of(value), Preconditions::default())
}

pub(crate) fn delete(object: Uuid) -> Write {
    Write::Delete(APP, object, Preconditions::default())
}

pub(crate) fn value(db: &ConfigDb, object: Uuid) -> Option<Value> {
    match db.read(&Caller::root(), &Read::Entry(APP, object, Preconditions::default())) {
        Ok(Answer::Entry(entry)) => Some(entry.json.value()),
        Err(Refusal::Missing { .. }) => None,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn holder(access: &[(Uuid, Uuid)]) -> Caller {
    let access = access.iter().map(|(permission, target)| Access { permission: *permission, target: *target });
    Caller::of(None, access.collect::<Arc<[Access]>>())
}

pub(crate) fn watch(db: &ConfigDb, url: &str, method: Option<Method>) -> Subscription {
    let uuid = Uuid::random();
    let request = latchkey_factory_plus::notify::Read { url: url.into(), method };
    db.subscribe(uuid, Target::of(Request::Watch { uuid, request }).unwrap())
}

pub(crate) fn search(db: &ConfigDb, filter: Option<Value>) -> Subscription {
    let uuid = Uuid::random();
    let request = Request::Search { uuid, parent: format!("v2/app/{APP}/object/"), filter };
    db.subscribe(uuid, Target::of(request).unwrap())
}

/// The next frame that is there already.
pub(crate) fn ready(subscription: &mut Subscription, caller: &Caller) -> Option<Update> {
    let frame = block_on(poll_once(subscription.next(caller))).flatten()?;
    Some(serde_json::from_str(&frame).unwrap())
}

/// The next frame.
pub(crate) fn next(subscription: &mut Subscription) -> Update {
    serde_json::from_str(&block_on(subscription.next(&Caller::root())).unwrap()).unwrap()
}

pub(crate) fn response(update: &Update) -> &Response {
    update.response.as_ref().unwrap()
}

pub(crate) type Children = BTreeMap<String, Response>;

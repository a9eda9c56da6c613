//! A merge patch of an entry, held against the algorithm as RFC 7396 prints it; then, as a filter, the patch is met.
#![no_main]

use latchkey_config_db::scratch::{Scratch, is_met};
use latchkey_config_db::{Caller, DEEPEST_JSON, Json, Preconditions, Uuid, Write};
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
const X: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000a");

fuzz_target!(|bytes: &[u8]| {
    // A value on the first line, and a patch.
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let (Ok(value), Ok(patch)) = (Json::parse(&bytes[..end]), Json::parse(&bytes[end..])) else { return };
    let (mut scratch, none) = (Scratch::default(), Preconditions::default);
    for (class, uuid) in [(APPLICATION, APP), (INDIVIDUAL, X)] {
        let made = scratch.write(&Caller::root(), &Write::CreateObject { class, uuid: Some(uuid) });
        assert!(made.is_ok_and(|made| made.status() == 201));
    }
    let mut status = |write: &Write| {
        let status = scratch.write(&Caller::root(), write).map_or_else(|why| why.status(), |done| done.status());
        (status, scratch.model().entry(APP, X))
    };
    let (put, before) = status(&Write::Put(APP, X, value.clone(), none()));
    if value.depth() > DEEPEST_JSON {
        return assert_eq!((put, before), (422, None));
    }
    let write = Write::Patch(APP, X, patch.clone(), none());
    let (done, after) = status(&write);
    let wanted = patched(Some(value.value()), patch.value());
    let expected = match (value.value().is_object(), patch.value().is_object()) {
        (_, false) => 422,
        (false, true) => 409,
        (true, true) if patch.depth() > DEEPEST_JSON && Json::of(&wanted).depth() > DEEPEST_JSON => 422,
        (true, true) => 204,
    };
    assert_eq!(done, expected);
    if expected != 204 {
        return assert_eq!(after, before);
    }
    assert_eq!(after.as_ref().map(|entry| entry.json.value()), Some(wanted.clone()));
    assert!(is_met(&patch.value(), &wanted));
    assert_eq!(status(&write), (204, after), "the same again changes nothing");
});

/// RFC 7396, section 2.
fn patched(target: Option<Value>, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut target = match target {
        Some(Value::Object(target)) => target,
        _ => Map::new(),
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            let before = target.remove(&name);
            target.insert(name, patched(before, value));
        }
    }
    Value::Object(target)
}

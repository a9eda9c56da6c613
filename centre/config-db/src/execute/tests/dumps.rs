//! What dumps bring.

use super::*;

fn dump(objects: &Value, configs: &Value) -> Write {
    let dump = json!({"service": CONFIG_DB, "version": 2, "objects": objects, "configs": configs});
    Write::Load(Box::new(Dump::parse(dump.to_string().as_bytes()).unwrap()))
}

#[test]
fn a_dump_brings_classes_before_members_and_says_all_memberships() {
    let mut rig = Rig::new();
    let (a, b) = ("c0000000-0000-4000-8000-00000000000a", "c0000000-0000-4000-8000-00000000000b");
    let (x, y) = (X.to_string(), Y.to_string());
    let new = "00000000-0000-4000-8000-0000000000aa";
    rig.root(Write::AddMember(OTHER, X)).unwrap();
    let objects = json!({
        // By UUID a comes before the class that it is of.
        a: {new: {"name": "New"}},
        RANK_1.to_string(): {a: {"subclassOf": [b]}, b: {"enum": [y]}},
        CLASS.to_string(): {x.clone(): {}, y.clone(): {"memberOf": [CLASS, OTHER]}},
    });
    assert_eq!(rig.status(dump(&objects, &json!({APP.to_string(): {x: {"v": 1}, new: null}}))), 200);
    let (a, b, new): (Uuid, Uuid, Uuid) = (a.parse().unwrap(), b.parse().unwrap(), new.parse().unwrap());
    assert!(!rig.model.is_direct_member(OTHER, X), "authoritative");
    assert!(rig.model.is_direct_member(OTHER, Y) && rig.model.is_direct_member(CLASS, Y));
    assert_eq!(rig.model.superclasses(a, Depth::Direct).into_iter().collect::<Vec<_>>(), [b]);
    assert!(rig.model.is_member(b, new) && rig.model.is_direct_member(b, Y));
    assert_eq!(rig.entry(INFO, new).json.value(), json!({"name": "New"}));
    assert_eq!(rig.entry(APP, new).json.value(), json!(null));
    assert_eq!(rig.entry(APP, X).json.value(), json!({"v": 1}));
}

#[test]
fn a_dump_whose_objects_contradict_changes_nothing() {
    let mut rig = Rig::new();
    let new = "00000000-0000-4000-8000-0000000000aa";
    for objects in [
        json!({CLASS.to_string(): {new: {}}, NOBODY.to_string(): {X.to_string(): {}}}),
        json!({CLASS.to_string(): {new: {"memberOf": [OTHER]}}}),
        json!({CLASS.to_string(): {new: {"subclassOf": [CLASS]}}}),
        json!({CLASS.to_string(): {new: {}}, RANK_1.to_string(): {X.to_string(): {}}}),
    ] {
        assert_eq!(rig.status(dump(&objects, &json!({}))), 409);
        assert!(rig.model.object(new.parse().unwrap()).is_none(), "{objects}");
    }
}

#[test]
fn a_dumps_entries_are_written_up_to_the_first_that_is_refused() {
    let mut rig = Rig::new();
    rig.put(CONFIG_SCHEMA, APP, &json!({"type": "number"}));
    rig.put(APP, X, &json!(1));
    let entries = json!({
        APP.to_string(): {X.to_string(): 2, Y.to_string(): "no number"},
        INFO.to_string(): {X.to_string(): {"name": "x"}},
    });
    assert_eq!(rig.status(dump(&json!({}), &entries)), 422);
    assert!(rig.model.entry(APP, Y).is_none());
    // 409 does not end it: this schema contradicts an entry.
    let entries = json!({CONFIG_SCHEMA.to_string(): {APP.to_string(): false}, INFO.to_string(): {X.to_string(): 3}});
    assert_eq!(rig.status(dump(&json!({}), &entries)), 200);
    assert_eq!(rig.entry(CONFIG_SCHEMA, APP).json.value(), json!({"type": "number"}));
    assert_eq!(rig.entry(INFO, X).json.value(), json!(3));
}

#[test]
fn other_dumps_are_refused() {
    let parse = |dump: Value| Dump::parse(dump.to_string().as_bytes());
    assert!(parse(json!({"service": CONFIG_DB, "version": 2})).is_ok());
    for bad in [
        json!({"service": CONFIG_DB, "version": 1}),
        json!({"service": X, "version": 2}),
        json!({"service": CONFIG_DB, "version": 2, "more": 1}),
        json!({"service": CONFIG_DB, "version": 2, "configs": {REGISTRATION.to_string(): {}}}),
        json!({"service": CONFIG_DB, "version": 2,
            "objects": {CLASS.to_string(): {X.to_string(): {}}, OTHER.to_string(): {X.to_string(): {}}}}),
    ] {
        assert!(parse(bad.clone()).is_err(), "{bad}");
    }
}

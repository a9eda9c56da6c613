//! What each write does, on the model alone.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::application::{CONFIG_SCHEMA, INFO, REGISTRATION, WRITE_SCOPE};
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL, RANK_1, RANK_2, SPECIAL};
use latchkey_factory_plus::uuids::permission as p;
use latchkey_factory_plus::uuids::service::CONFIG_DB;
use latchkey_factory_plus::uuids::special::{MINE, UNOWNED, WILDCARD};
use serde_json::{Value, json};

use super::*;
use crate::model::special;
use crate::{Caller, Depth, Dump, Entry, Json, Model, Preconditions};

const CLASS: Uuid = Uuid::constant("c0000000-0000-4000-8000-000000000001");
const OTHER: Uuid = Uuid::constant("c0000000-0000-4000-8000-000000000002");
const APP: Uuid = Uuid::constant("a0000000-0000-4000-8000-000000000001");
const X: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000a");
const Y: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000b");
const NOBODY: Uuid = Uuid::constant("00000000-0000-4000-8000-00000000000f");

struct Rig {
    model: Model,
    schemas: Schemas,
}

impl Rig {
    /// Two classes, an application, two objects of the first class.
    fn new() -> Self {
        let mut rig = Self { model: Model::default(), schemas: Schemas::default() };
        for mutation in special::beginning() {
            rig.model.apply(&mutation);
        }
        for (class, uuid) in
            [(RANK_1, CLASS), (RANK_1, OTHER), (APPLICATION, APP), (APPLICATION, INFO), (CLASS, X), (CLASS, Y)]
        {
            assert_eq!(rig.root(Write::CreateObject { class, uuid: Some(uuid) }).unwrap().status(), 201);
        }
        rig
    }

    fn root(&mut self, write: Write) -> Result<Outcome, Refusal> {
        self.by(&Caller::root(), write)
    }

    #[expect(clippy::needless_pass_by_value, reason = "each write is tried once")]
    fn by(&mut self, caller: &Caller, write: Write) -> Result<Outcome, Refusal> {
        let permitted = Permitted::check(&self.model, caller, &write)?;
        let before = format!("{:?}", self.model.objects().collect::<Vec<_>>());
        let mut transaction = Transaction::on(&mut self.model);
        let outcome = execute(&mut transaction, &mut self.schemas, &permitted);
        if outcome.is_err() && !matches!(write, Write::Load(_)) {
            assert_eq!(transaction.into_parts().0, [], "a refused write changes nothing");
            assert_eq!(format!("{:?}", self.model.objects().collect::<Vec<_>>()), before);
        }
        outcome
    }

    fn status(&mut self, write: Write) -> u16 {
        self.root(write).map_or_else(|refusal| refusal.status(), |outcome| outcome.status())
    }

    fn put(&mut self, app: Uuid, object: Uuid, value: &Value) -> u16 {
        self.status(put(app, object, value))
    }

    fn entry(&self, app: Uuid, object: Uuid) -> Entry {
        self.model.entry(app, object).unwrap()
    }
}

fn put(app: Uuid, object: Uuid, value: &Value) -> Write {
    Write::Put(app, object, Json::of(value), Preconditions::default())
}

fn patch(app: Uuid, object: Uuid, value: &Value) -> Write {
    Write::Patch(app, object, Json::of(value), Preconditions::default())
}

fn delete(app: Uuid, object: Uuid) -> Write {
    Write::Delete(app, object, Preconditions::default())
}

fn holder(access: &[(Uuid, Uuid)]) -> Caller {
    let access = access.iter().map(|(permission, target)| Access { permission: *permission, target: *target });
    Caller::of(Some(X), access.collect())
}

#[test]
fn an_object_belongs_to_its_class_its_creator_and_a_class_to_its_ranks_root() {
    let mut rig = Rig::new();
    let caller = holder(&[(p::CREATE_OBJECT, CLASS), (p::CREATE_SPECIFIC_OBJECT, CLASS)]);
    let Ok(Outcome::ObjectCreated(entry)) = rig.by(&caller, Write::CreateObject { class: CLASS, uuid: None }) else {
        panic!("none created")
    };
    let registration = entry.json.value();
    assert_eq!((&registration["owner"], &registration["rank"]), (&json!(X), &json!(0)));
    let new: Uuid = serde_json::from_value(registration["uuid"].clone()).unwrap();
    assert!(rig.model.is_direct_member(CLASS, new) && rig.model.is_member(CLASS, new));
    assert!(rig.model.is_direct_subclass(INDIVIDUAL, CLASS) && rig.model.is_member(INDIVIDUAL, new));
    assert_eq!(rig.model.object(CLASS).unwrap().owner, UNOWNED);
    let stranger = Caller::of(None, vec![Access { permission: p::CREATE_OBJECT, target: WILDCARD }].into());
    let refused = rig.by(&stranger, Write::CreateObject { class: CLASS, uuid: None }).unwrap_err();
    assert_eq!(refused.status(), 503);
    // Unknown class, and a class that is none.
    assert_eq!(rig.status(Write::CreateObject { class: NOBODY, uuid: None }), 409);
    assert_eq!(rig.status(Write::CreateObject { class: X, uuid: None }), 409);
}

#[test]
fn creating_an_object_again_takes_the_mark_of_deletion_away() {
    let mut rig = Rig::new();
    assert_eq!(rig.status(patch(REGISTRATION, X, &json!({"deleted": true}))), 204);
    assert!(rig.model.object(X).unwrap().deleted);
    assert_eq!(rig.status(Write::CreateObject { class: CLASS, uuid: Some(X) }), 200);
    assert!(!rig.model.object(X).unwrap().deleted);
    let etag = rig.entry(REGISTRATION, X).etag;
    assert_eq!(rig.status(Write::CreateObject { class: CLASS, uuid: Some(X) }), 200);
    assert_eq!(rig.entry(REGISTRATION, X).etag, etag);
    assert_eq!(rig.status(Write::CreateObject { class: OTHER, uuid: Some(X) }), 409);
}

#[test]
fn deletion_takes_entries_along_and_spares_what_is_needed() {
    let mut rig = Rig::new();
    assert_eq!(rig.put(APP, X, &json!(1)), 201);
    assert_eq!(rig.status(Write::DeleteObject(NOBODY)), 404);
    for immutable in
        [RANK_1, APPLICATION, SPECIAL, REGISTRATION, CONFIG_SCHEMA, WILDCARD, UNOWNED, INDIVIDUAL, WRITE_SCOPE]
    {
        assert_eq!(rig.status(Write::DeleteObject(immutable)), 405);
    }
    assert_eq!(rig.root(Write::DeleteObject(CLASS)), Err(Refusal::InUse(vec![X, Y])));
    assert_eq!(rig.root(Write::DeleteObject(APP)), Err(Refusal::InUse(vec![X])));
    assert_eq!(rig.status(Write::DeleteObject(X)), 204);
    assert_eq!(rig.model.objects_of(APP), []);
    assert!(rig.model.object(X).is_none() && !rig.model.is_member(CLASS, X));
    assert_eq!(rig.status(Write::DeleteObject(APP)), 204);
}

#[test]
fn members_are_one_rank_below_and_subclasses_beside() {
    let mut rig = Rig::new();
    assert_eq!(rig.status(Write::AddMember(OTHER, X)), 204);
    assert_eq!(rig.status(Write::AddMember(OTHER, X)), 204, "idempotent");
    assert!(rig.model.is_direct_member(OTHER, X));
    for (class, object) in [(OTHER, CLASS), (X, Y), (RANK_2, X)] {
        assert_eq!(rig.status(Write::AddMember(class, object)), 409);
        assert_eq!(rig.status(Write::AddSubclass(class, if object == CLASS { X } else { object })), 409);
    }
    for (class, object) in [(NOBODY, X), (OTHER, NOBODY)] {
        assert_eq!(rig.status(Write::AddMember(class, object)), 404);
        assert_eq!(rig.status(Write::RemoveMember(class, object)), 404);
        assert_eq!(rig.status(Write::AddSubclass(class, object)), 404);
        assert_eq!(rig.status(Write::RemoveSubclass(class, object)), 404);
    }
    assert_eq!(rig.status(Write::RemoveMember(CLASS, X)), 409, "its primary class");
    assert_eq!(rig.status(Write::RemoveMember(OTHER, X)), 204);
    assert_eq!(rig.status(Write::RemoveMember(OTHER, X)), 204);
    assert_eq!(rig.status(Write::AddSubclass(OTHER, CLASS)), 204);
    assert!(rig.model.is_member(OTHER, X));
    assert_eq!(rig.status(Write::AddSubclass(CLASS, OTHER)), 409, "a circle");
    assert_eq!(rig.status(Write::AddSubclass(CLASS, CLASS)), 409);
    assert_eq!(rig.status(Write::RemoveSubclass(OTHER, CLASS)), 204);
    assert!(!rig.model.is_member(OTHER, X));
}

#[test]
fn an_entrys_etag_changes_with_its_value_alone() {
    let mut rig = Rig::new();
    assert_eq!(rig.put(APP, X, &json!({"b": 1, "a": 2})), 201);
    let first = rig.entry(APP, X).etag;
    assert_eq!(rig.put(APP, X, &json!({"a": 2, "b": 1})), 204);
    assert_eq!(rig.entry(APP, X).etag, first);
    assert_eq!(rig.put(APP, X, &json!({"a": 2, "b": 2})), 204);
    assert_ne!(rig.entry(APP, X).etag, first);
    assert_eq!(rig.put(NOBODY, X, &json!(1)), 404);
    assert_eq!(rig.put(CLASS, X, &json!(1)), 404, "no application");
    assert_eq!(rig.put(APP, NOBODY, &json!(1)), 404);
    for falsy in [json!(null), json!(0), json!(false), json!("")] {
        assert_eq!(rig.put(APP, X, &falsy), 204);
        assert_eq!(rig.entry(APP, X).json.value(), falsy);
    }
    assert_eq!(rig.status(delete(APP, X)), 204);
    assert_eq!(rig.status(delete(APP, X)), 404);
}

/// Upstream #400: a patch once destroyed what was there.
#[test]
fn a_patch_creates_merges_and_never_destroys() {
    let mut rig = Rig::new();
    assert_eq!(rig.status(patch(APP, X, &json!({"a": {"b": 1, "gone": null}}))), 204, "it creates, and says 204");
    assert_eq!(rig.entry(APP, X).json.value(), json!({"a": {"b": 1}}));
    assert_eq!(rig.status(patch(APP, X, &json!({"a": {"c": 2}, "d": [1]}))), 204);
    assert_eq!(rig.entry(APP, X).json.value(), json!({"a": {"b": 1, "c": 2}, "d": [1]}));
    let etag = rig.entry(APP, X).etag;
    assert_eq!(rig.status(patch(APP, X, &json!({"d": [1], "nothing": null}))), 204);
    assert_eq!(rig.entry(APP, X).etag, etag);
    for no_object in [json!(null), json!([1]), json!("x"), json!(7)] {
        assert_eq!(rig.status(patch(APP, X, &no_object)), 422);
        assert_eq!(rig.status(patch(APP, Y, &no_object)), 422);
        assert_eq!(rig.entry(APP, X).etag, etag);
        rig.put(INFO, X, &no_object);
        assert_eq!(rig.status(patch(INFO, X, &json!({"a": 1}))), 409, "{no_object} is no object");
        assert_eq!(rig.entry(INFO, X).json.value(), no_object);
    }
    assert_eq!(rig.status(patch(APP, NOBODY, &json!({}))), 404);
}

#[test]
fn preconditions_guard_each_write() {
    let mut rig = Rig::new();
    let create_only = || Preconditions::parse(None, Some("*")).unwrap();
    let put_with = |value: i32, conditions| Write::Put(APP, X, Json::of(&json!(value)), conditions);
    assert_eq!(rig.status(put_with(1, create_only())), 201);
    assert_eq!(rig.status(put_with(1, create_only())), 412, "though it would change nothing");
    let current = format!("\"{}\"", rig.entry(APP, X).etag);
    let if_match = |tag: &str| Preconditions::parse(Some(tag), None).unwrap();
    assert_eq!(rig.status(put_with(2, if_match(&current))), 204);
    assert_eq!(rig.status(put_with(3, if_match(&current))), 412);
    assert_eq!(rig.status(Write::Patch(APP, X, Json::of(&json!({})), if_match("\"x\""))), 412);
    assert_eq!(rig.status(Write::Delete(APP, X, if_match(&current))), 412);
    assert_eq!(rig.status(Write::Delete(APP, X, if_match("*"))), 204);
    assert_eq!(rig.status(put_with(4, if_match("*"))), 412);
}

#[test]
fn a_schema_governs_its_application() {
    let mut rig = Rig::new();
    let schema = json!({"type": "object", "required": ["name"], "properties": {"name": {"pattern": "^[a-z]+$"}}});
    assert_eq!(rig.put(CONFIG_SCHEMA, APP, &json!({"type": "no type"})), 422);
    rig.put(APP, Y, &json!(1));
    let refused = rig.root(put(CONFIG_SCHEMA, APP, &schema)).unwrap_err();
    assert!(refused.status() == 409 && refused.to_string().contains(&Y.to_string()), "{refused}");
    assert_eq!(rig.status(delete(APP, Y)), 204);
    assert_eq!(rig.put(CONFIG_SCHEMA, APP, &schema), 201);
    let refused = rig.root(put(APP, X, &json!({"name": "N"}))).unwrap_err();
    assert!(refused.status() == 422 && refused.to_string().contains("/name"), "{refused}");
    assert_eq!(rig.put(APP, X, &json!({"name": "n"})), 201);
    assert_eq!(rig.status(patch(APP, X, &json!({"name": null}))), 422);
    assert_eq!(rig.status(patch(APP, Y, &json!({"other": 1}))), 422, "a patch that creates is checked, too");
    assert_eq!(rig.put(CONFIG_SCHEMA, APP, &json!(true)), 204, "a new revision");
    assert_eq!(rig.put(APP, X, &json!(5)), 204, "is the one that counts");
    assert_eq!(rig.put(CONFIG_SCHEMA, APP, &json!(false)), 409);
    assert_eq!(rig.status(delete(CONFIG_SCHEMA, APP)), 204);
    assert_eq!(rig.put(CONFIG_SCHEMA, REGISTRATION, &json!(false)), 409);
}

#[test]
fn a_registration_is_written_within_limits() {
    let mut rig = Rig::new();
    let registration = rig.entry(REGISTRATION, X).json.value();
    assert_eq!(rig.put(REGISTRATION, X, &registration), 204);
    let with = |key: &str, value: Value| {
        let mut changed = registration.clone();
        changed[key] = value;
        changed
    };
    for (key, value, status) in [
        ("uuid", json!(Y), 409),
        ("rank", json!(1), 409),
        ("owner", json!(NOBODY), 409),
        ("class", json!(NOBODY), 409),
        ("class", json!(RANK_1), 409),
        ("deleted", json!("yes"), 422),
        ("more", json!(1), 422),
        ("owner", json!(Y), 204),
    ] {
        assert_eq!(rig.put(REGISTRATION, X, &with(key, value.clone())), status, "{key} {value}");
    }
    assert_eq!(rig.model.object(X).unwrap().owner, Y);
    assert_eq!(rig.status(delete(REGISTRATION, X)), 405);
    assert_eq!(rig.put(REGISTRATION, NOBODY, &json!({})), 404);
    assert_eq!(rig.status(patch(REGISTRATION, X, &json!({"class": OTHER}))), 204);
    assert!(rig.model.is_direct_member(OTHER, X) && !rig.model.is_direct_member(CLASS, X));
}

#[test]
fn a_new_owner_or_class_needs_more_than_the_registrations_permission() {
    let mut rig = Rig::new();
    let base = [(p::READ_CONFIG, REGISTRATION), (p::WRITE_CONFIG, REGISTRATION)];
    let attempts: [(Value, Vec<(Uuid, Uuid)>); 2] = [
        (json!({"owner": Y}), vec![(p::TAKE_FROM, UNOWNED), (p::GIVE_TO, Y)]),
        (
            json!({"class": OTHER}),
            vec![(p::WRITE_MEMBERS, CLASS), (p::WRITE_MEMBERS, OTHER), (p::WRITE_MEMBERSHIPS, X)],
        ),
    ];
    for (change, more) in attempts {
        for missing in 0..more.len() {
            let mut held = [&base[..], &more].concat();
            held.remove(base.len() + missing);
            assert_eq!(rig.by(&holder(&held), patch(REGISTRATION, X, &change)).unwrap_err().status(), 403);
        }
        assert!(rig.by(&holder(&[&base[..], &more].concat()), patch(REGISTRATION, X, &change)).is_ok());
    }
    assert!(rig.by(&holder(&base), patch(REGISTRATION, X, &json!({"deleted": true}))).is_ok());
}

/// §11.4: one cluster's account must not write another's status.
#[test]
fn a_write_scope_is_for_one_object() {
    let mut rig = Rig::new();
    let scope = p::WRITE_EDGE_CLUSTER_STATUS;
    assert_eq!(rig.put(WRITE_SCOPE, APP, &json!("no uuid")), 422);
    assert_eq!(rig.put(WRITE_SCOPE, APP, &json!(scope)), 201);
    rig.put(APP, Y, &json!({"kubeseal_cert": "of Y"}));
    let edge = holder(&[(scope, X)]);
    assert_eq!(rig.by(&edge, patch(APP, X, &json!({"kubeseal_cert": "of X"}))), Ok(Outcome::Done));
    for write in [
        patch(APP, Y, &json!({"kubeseal_cert": "mine"})),
        patch(APP, Y, &json!({"kubeseal_cert": "of Y"})), // not even as a question
        put(APP, Y, &json!(1)),
        delete(APP, Y),
        put(WRITE_SCOPE, APP, &json!(scope)),
    ] {
        assert_eq!(rig.by(&edge, write).unwrap_err().status(), 403);
    }
}

/// An access list names what its principal owns once the authorisation service has heard of it; until then, the owner here counts.
#[test]
fn an_owner_may_at_once_what_it_may_to_everything_it_owns() {
    let mut rig = Rig::new();
    let new = Uuid::constant("00000000-0000-4000-8000-0000000000aa");
    let scope = p::WRITE_EDGE_CLUSTER_STATUS;
    assert_eq!(rig.put(WRITE_SCOPE, APP, &json!(scope)), 201);
    let rights =
        [(p::CREATE_SPECIFIC_OBJECT, CLASS), (p::WRITE_MEMBERS, OTHER), (p::WRITE_MEMBERSHIPS, MINE), (scope, MINE)];
    let access: Vec<_> = rights.map(|(permission, target)| Access { permission, target }).into();
    let owner = Caller::of(Some(X), access.clone().into());
    assert_eq!(rig.by(&owner, Write::CreateObject { class: CLASS, uuid: Some(new) }).unwrap().status(), 201);
    assert_eq!(rig.by(&owner, Write::AddMember(OTHER, new)).unwrap().status(), 204);
    assert_eq!(rig.by(&owner, Write::AddMember(OTHER, Y)).unwrap_err().status(), 403, "it is somebody else's");
    assert_eq!(rig.by(&owner, put(APP, new, &json!(1))).unwrap().status(), 201);
    assert_eq!(rig.by(&owner, put(APP, Y, &json!(1))).unwrap_err().status(), 403, "it is somebody else's");
    let other = Caller::of(Some(Y), access.clone().into());
    assert_eq!(rig.by(&other, Write::RemoveMember(OTHER, new)).unwrap_err().status(), 403);
    assert_eq!(rig.by(&other, put(APP, new, &json!(2))).unwrap_err().status(), 403);
    let nobody = Caller::of(None, access.into());
    assert_eq!(rig.by(&nobody, Write::RemoveMember(OTHER, new)).unwrap_err().status(), 403);
}

#[test]
fn who_may_read_may_write_what_is_there() {
    let mut rig = Rig::new();
    rig.put(APP, X, &json!({"a": 1}));
    let reader = holder(&[(p::READ_CONFIG, APP)]);
    assert_eq!(rig.by(&reader, put(APP, X, &json!({"a": 1}))), Ok(Outcome::Done));
    assert_eq!(rig.by(&reader, patch(APP, X, &json!({"a": 1}))), Ok(Outcome::Done));
    for write in
        [put(APP, X, &json!({"a": 2})), patch(APP, X, &json!({"a": 2})), patch(APP, Y, &json!({})), delete(APP, X)]
    {
        assert_eq!(rig.by(&reader, write).unwrap_err().status(), 403);
    }
    assert_eq!(rig.by(&holder(&[]), put(APP, X, &json!({"a": 1}))).unwrap_err().status(), 403);
}

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
    assert_eq!(rig.status(dump(&objects, &json!({APP.to_string(): {x: {"v": 1}, new: null}}))), 204);
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
    assert_eq!(rig.status(dump(&json!({}), &entries)), 204);
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

//! What is done to objects, classes and registrations.

use super::*;

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

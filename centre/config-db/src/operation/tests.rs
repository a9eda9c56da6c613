//! The contract's table of permissions, row by row, and preconditions.

use latchkey_factory_plus::Uuid;
use latchkey_factory_plus::grants::Access;
use latchkey_factory_plus::uuids::application::{INFO, REGISTRATION, WRITE_SCOPE};
use latchkey_factory_plus::uuids::permission as p;
use latchkey_factory_plus::uuids::special::WILDCARD;
use serde_json::json;

use super::*;
use crate::access::{Caller, Needing, Permitted};
use crate::{Depth, Json, Model, Mutation, Query};

const C: Uuid = Uuid::constant("11111111-1111-4111-8111-111111111111");
const O: Uuid = Uuid::constant("22222222-2222-4222-8222-222222222222");
const A: Uuid = Uuid::constant("33333333-3333-4333-8333-333333333333");
const SCOPE: Uuid = Uuid::constant("44444444-4444-4444-8444-444444444444");

fn caller(access: &[(Uuid, Uuid)]) -> Caller {
    let access: Vec<Access> =
        access.iter().map(|(permission, target)| Access { permission: *permission, target: *target }).collect();
    Caller::of(Some(O), access.into())
}

/// The operation is permitted to who holds exactly these, or each of them for everything, and to root; not to who lacks one.
fn needs_exactly<T: Needing>(operation: &T, all: &[(Uuid, Uuid)]) {
    let model = Model::default();
    let permitted = |access: &[(Uuid, Uuid)]| {
        Permitted::check(&model, &caller(access), operation).is_ok_and(|permitted| permitted.change().is_ok())
    };
    assert!(permitted(all));
    let wild: Vec<_> = all.iter().map(|(permission, _)| (*permission, WILDCARD)).collect();
    assert!(permitted(&wild));
    assert!(Permitted::check(&model, &Caller::root(), operation).is_ok());
    assert!(!permitted(&[]));
    for missing in 0..all.len() {
        let mut some = all.to_vec();
        some.remove(missing);
        assert!(!permitted(&some), "without {:?}", all[missing]);
        some.push((all[missing].0, Uuid::constant("99999999-9999-4999-8999-999999999999")));
        assert!(!permitted(&some), "{:?} for something else", all[missing]);
    }
}

#[test]
fn each_read_needs_what_the_contract_says() {
    let none = Preconditions::default;
    for (read, all) in [
        (Read::Objects, vec![(p::LIST_OBJECTS, WILDCARD)]),
        (Read::Ranks, vec![(p::LIST_OBJECTS, WILDCARD)]),
        (Read::Class(C), vec![(p::READ_MEMBERS, C), (p::READ_SUBCLASSES, C)]),
        (Read::Members(C, Depth::Derived), vec![(p::READ_MEMBERS, C)]),
        (Read::Members(C, Depth::Direct), vec![(p::WRITE_MEMBERS, C)]),
        (Read::Subclasses(C, Depth::Derived), vec![(p::READ_SUBCLASSES, C)]),
        (Read::Subclasses(C, Depth::Direct), vec![(p::WRITE_SUBCLASSES, C)]),
        (Read::IsMember(C, Depth::Derived, O), vec![(p::READ_MEMBERS, C)]),
        (Read::IsMember(C, Depth::Direct, O), vec![(p::WRITE_MEMBERS, C)]),
        (Read::IsSubclass(C, Depth::Derived, O), vec![(p::READ_SUBCLASSES, C)]),
        (Read::IsSubclass(C, Depth::Direct, O), vec![(p::WRITE_SUBCLASSES, C)]),
        (Read::EntryObjects(A), vec![(p::READ_CONFIG, A)]),
        (Read::EntryObjectsOfClass(A, C), vec![(p::READ_CONFIG, A)]),
        (Read::Entry(A, O, none()), vec![(p::READ_CONFIG, A)]),
        (Read::Search(A, None, Query::default()), vec![(p::READ_CONFIG, A)]),
        (Read::Search(A, Some(C), Query::default()), vec![(p::READ_CONFIG, A)]),
    ] {
        needs_exactly(&read, &all);
    }
}

#[test]
fn each_write_needs_what_the_contract_says() {
    let (none, json) = (Preconditions::default, || Json::of(&json!(1)));
    let load = [
        p::CREATE_SPECIFIC_OBJECT,
        p::WRITE_MEMBERS,
        p::WRITE_MEMBERSHIPS,
        p::WRITE_SUBCLASSES,
        p::WRITE_SUPERCLASSES,
        p::TAKE_FROM,
        p::WRITE_CONFIG,
    ];
    for (write, all) in [
        (Write::CreateObject { class: C, uuid: None }, vec![(p::CREATE_OBJECT, C)]),
        (Write::CreateObject { class: C, uuid: Some(O) }, vec![(p::CREATE_SPECIFIC_OBJECT, C)]),
        (Write::DeleteObject(O), vec![(p::DELETE_OBJECT, O)]),
        (Write::AddMember(C, O), vec![(p::WRITE_MEMBERS, C), (p::WRITE_MEMBERSHIPS, O)]),
        (Write::RemoveMember(C, O), vec![(p::WRITE_MEMBERS, C), (p::WRITE_MEMBERSHIPS, O)]),
        (Write::AddSubclass(C, O), vec![(p::WRITE_SUBCLASSES, C), (p::WRITE_SUPERCLASSES, O)]),
        (Write::RemoveSubclass(C, O), vec![(p::WRITE_SUBCLASSES, C), (p::WRITE_SUPERCLASSES, O)]),
        (Write::Put(A, O, json(), none()), vec![(p::WRITE_CONFIG, A)]),
        (Write::Patch(A, O, json(), none()), vec![(p::READ_CONFIG, A), (p::WRITE_CONFIG, A)]),
        (Write::Delete(A, O, none()), vec![(p::WRITE_CONFIG, A)]),
        (Write::Load(Box::default()), load.map(|permission| (permission, WILDCARD)).to_vec()),
    ] {
        needs_exactly(&write, &all);
    }
}

#[test]
fn loading_needs_permissions_for_everything_even_where_a_dump_is_about_one_class() {
    let access = [(p::CREATE_SPECIFIC_OBJECT, C)];
    let load = Write::Load(Box::default());
    assert!(Permitted::check(&Model::default(), &caller(&access), &load).is_err());
}

#[test]
fn a_scope_opens_the_entries_of_its_object_alone() {
    let mut model = Model::default();
    let mut name_scope = |application: Uuid| {
        let entry = crate::Entry { json: Json::of(&json!(SCOPE)), etag: Uuid::NIL };
        model.apply(&Mutation::Entry(WRITE_SCOPE, application, Some(entry)));
    };
    [A, REGISTRATION, WRITE_SCOPE].into_iter().for_each(&mut name_scope);
    let edge = caller(&[(SCOPE, O)]);
    let writes = |application, object| {
        let (json, none) = (|| Json::of(&json!({})), Preconditions::default);
        [
            Write::Put(application, object, json(), none()),
            Write::Patch(application, object, json(), none()),
            Write::Delete(application, object, none()),
        ]
    };
    for write in writes(A, O) {
        assert!(Permitted::check(&model, &edge, &write).is_ok_and(|permitted| permitted.change().is_ok()));
    }
    let elsewhere = [writes(A, C), writes(INFO, O), writes(REGISTRATION, O), writes(WRITE_SCOPE, O)];
    for write in elsewhere.into_iter().flatten() {
        assert!(Permitted::check(&model, &edge, &write).is_err(), "{write:?}");
    }
    assert!(Permitted::check(&model, &edge, &Read::Entry(A, O, Preconditions::default())).is_err());
}

#[test]
fn who_may_read_may_write_what_is_there_already() {
    let write = Write::Put(A, O, Json::of(&json!(1)), Preconditions::default());
    let reader = caller(&[(p::READ_CONFIG, A)]);
    let model = Model::default();
    let permitted = Permitted::check(&model, &reader, &write).unwrap();
    assert!(matches!(permitted.change(), Err(Refusal::Forbidden(need)) if need.permission == p::WRITE_CONFIG));
}

#[test]
fn preconditions_are_read_as_the_rfc_says() {
    let etag = Uuid::constant("55555555-5555-4555-8555-555555555555");
    let holds = |if_match, if_none_match, current| {
        Preconditions::parse(if_match, if_none_match).map(|conditions| conditions.hold(current))
    };
    let (same, weak) = (format!("\"x\" , \"{etag}\""), format!("W/\"{etag}\""));
    for (if_match, if_none_match, present, absent) in [
        (None, None, true, true),
        (Some("*"), None, true, false),
        (None, Some("*"), false, true),
        (Some(same.as_str()), None, true, false),
        (Some("\"x\""), None, false, false),
        (Some(weak.as_str()), None, false, false), // strong comparison
        (None, Some(weak.as_str()), false, true),
        (None, Some(same.as_str()), false, true),
        (None, Some("\"\""), true, true),
    ] {
        assert_eq!(holds(if_match, if_none_match, Some(etag)), Ok(present), "{if_match:?} {if_none_match:?}");
        assert_eq!(holds(if_match, if_none_match, None), Ok(absent), "{if_match:?} {if_none_match:?}");
    }
    for bad in ["", "x", "\"x", "\"x\" \"y\"", "\"x\",", "w/\"x\"", "*, \"x\"", "\"a b\"", "\"\u{7f}\""] {
        assert_eq!(holds(Some(bad), None, None), Err(PreconditionsError::Malformed("If-Match")), "{bad:?}");
        assert_eq!(holds(None, Some(bad), None), Err(PreconditionsError::Malformed("If-None-Match")), "{bad:?}");
    }
    let many = vec!["\"x\""; 65].join(",");
    assert_eq!(holds(Some(&many), None, None), Err(PreconditionsError::TooMany("If-Match")));
}

//! Who may write.

use super::*;

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

#[test]
fn who_may_read_members_may_leave_them_as_they_are() {
    let mut rig = Rig::new();
    let reader = holder(&[(p::READ_MEMBERS, OTHER)]);
    assert_eq!(rig.by(&reader, Write::RemoveMember(OTHER, X)), Ok(Outcome::Done));
    assert_eq!(rig.by(&reader, Write::AddMember(OTHER, X)).unwrap_err().status(), 403);
    assert_eq!(rig.status(Write::AddMember(OTHER, X)), 204);
    assert_eq!(rig.by(&reader, Write::AddMember(OTHER, X)), Ok(Outcome::Done));
    assert_eq!(rig.by(&reader, Write::RemoveMember(OTHER, X)).unwrap_err().status(), 403);
    assert_eq!(rig.by(&holder(&[]), Write::AddMember(OTHER, X)).unwrap_err().status(), 403);
}

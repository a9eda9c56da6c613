//! Statuses and bodies, as the contract has them.

use latchkey_factory_plus::uuids::{class::EDGE_CLUSTER as CLASS, permission, special};
use serde_json::{Value, json};

use super::site::*;

#[test]
fn an_identity_is_put_read_found_and_deleted() {
    let mut site = Site::new();
    let path = identity_path(other());
    assert_eq!(site.put(MANAGER, &path, &json!("op1flux/North@R")), 204);
    assert_eq!(site.put(MANAGER, &path, &json!("op1flux/North@R")), 204, "the same again");
    assert_eq!(site.put(MANAGER, &path, &json!("op1flux/South@R")), 409, "another name of the same");
    assert_eq!(site.put(MANAGER, &identity_path(edges_own()), &json!("op1flux/North@R")), 409, "taken");
    assert_eq!(site.get(MANAGER, &path), (200, json!("op1flux/North@R")));
    let both = json!({"kerberos": "op1flux/North@R", "uuid": other()});
    assert_eq!(site.get(MANAGER, &format!("/v2/principal/{}", other())), (200, both));
    assert_eq!(site.get(MANAGER, "/v2/identity/kerberos/op1flux%2FNorth%40R"), (200, json!(other())));
    assert_eq!(site.get(MANAGER, "/v2/principal"), (200, json!([manager(), edge(), other()])));
    assert_eq!(site.get(MANAGER, "/v2/identity"), (200, json!(["kerberos"])));
    assert_eq!(site.get(MANAGER, "/v2/identity/kerberos").1, json!([MANAGER, EDGE, "op1flux/North@R"]));
    assert_eq!(site.delete(MANAGER, &path), 204);
    assert_eq!(site.delete(MANAGER, &path), 404);
    assert_eq!(site.get(MANAGER, &path).0, 404);
    assert_eq!(site.get(MANAGER, "/v2/identity/kerberos/op1flux%2FNorth%40R").0, 404);
}

#[test]
fn what_is_no_identity_is_refused_with_the_status_of_its_fault() {
    let mut site = Site::new();
    assert_eq!(site.put(MANAGER, "/v2/principal/x/kerberos", &json!("a@R")), 410);
    assert_eq!(site.put(MANAGER, &format!("/v2/principal/{}/sparkplug", other()), &json!("a@R")), 404);
    assert_eq!(site.put(MANAGER, &identity_path(other()), &json!("a@ELSEWHERE")), 422);
    for bad in [json!("a"), json!(null), json!({}), json!("a b@R"), json!(7)] {
        assert_eq!(site.put(MANAGER, &identity_path(other()), &bad), 422, "{bad}");
    }
    assert_eq!(site.get(MANAGER, "/v2/identity/kerberos/no-realm").0, 410);
    assert_eq!(site.get(MANAGER, "/v2/nothing").0, 404);
    assert_eq!(site.delete(MANAGER, "/v2/principal"), 405);
}

#[test]
fn everybody_who_is_called_something_knows_who_it_is() {
    let mut site = Site::new();
    assert_eq!(site.get(EDGE, "/v2/whoami"), (200, json!({"kerberos": EDGE, "uuid": edge()})));
    assert_eq!(site.get(EDGE, "/v2/whoami/uuid"), (200, json!(edge())));
    assert_eq!(site.get(EDGE, "/v2/whoami/kerberos"), (200, json!(EDGE)));
    assert_eq!(site.get(EDGE, "/v2/whoami/shoe-size").0, 404);
    assert_eq!(site.get(NOBODY, "/v2/whoami").0, 404);
    assert_eq!(site.get(ROOT, "/v2/whoami/uuid").0, 404, "root is a name, and no principal");
}

#[test]
fn a_grant_is_made_once_found_replaced_and_ended() {
    let mut site = Site::new();
    let pull = grant(other(), permission::GIT_PULL, number(9), false);
    let (status, made) = site.post(MANAGER, "/v2/grant", &pull);
    assert_eq!(status, 201);
    assert_eq!(site.post(MANAGER, "/v2/grant", &pull), (200, made.clone()), "a duplicate is the same grant");
    let uuid = made["uuid"].as_str().unwrap().to_owned();
    let path = format!("/v2/grant/{uuid}");
    let (status, mut known) = site.get(MANAGER, &path);
    assert_eq!((status, &known["uuid"], &known["plural"]), (200, &made["uuid"], &json!(false)));
    assert_eq!(site.post(MANAGER, "/v2/grant/find", &json!({"principal": other()})), (200, json!([uuid])));
    let absent = json!({"principal": other(), "plural": true, "target": null});
    assert_eq!(site.post(MANAGER, "/v2/grant/find", &absent), (200, json!([])));
    assert_eq!(site.post(MANAGER, "/v2/grant/find", &json!({"owner": other()})).0, 422);

    known["target"] = json!(number(10));
    assert_eq!(site.put(MANAGER, &path, &known), 204);
    assert_eq!(site.get(MANAGER, &path).1["target"], json!(number(10)));
    let second = site.post(MANAGER, "/v2/grant", &pull).1["uuid"].as_str().unwrap().to_owned();
    assert_eq!(site.put(MANAGER, &path, &pull), 409, "another grant says that already");
    assert_eq!(site.put(MANAGER, &format!("/v2/grant/{second}"), &known), 422, "the UUID of another");
    for uuid in [&uuid, &second] {
        assert_eq!(site.delete(MANAGER, &format!("/v2/grant/{uuid}")), 204);
        assert_eq!(site.delete(MANAGER, &format!("/v2/grant/{uuid}")), 404);
    }
    assert_eq!(site.put(MANAGER, &path, &pull), 404);
    assert_eq!(site.put(MANAGER, "/v2/grant/x", &pull), 410);
}

#[test]
fn a_grant_that_is_none_is_refused_by_field() {
    let mut site = Site::new();
    let good = grant(other(), permission::GIT_PULL, number(9), false);
    for field in ["principal", "permission", "target", "plural"] {
        let mut missing = good.clone();
        missing.as_object_mut().unwrap().remove(field);
        let mut wrong = good.clone();
        wrong[field] = json!("x");
        let mut more = good.clone();
        more["more"] = json!(1);
        for bad in [missing, wrong, more] {
            assert_eq!(site.post(MANAGER, "/v2/grant", &bad).0, 422, "{bad}");
        }
    }
    assert_eq!(seen(site.ask(MANAGER, latchkey_auth::api::Method::Post, "/v2/grant", b"{")).0, 400);
}

#[test]
fn an_access_list_has_groups_and_special_targets_resolved() {
    let mut site = Site::new();
    site.grant(other(), permission::GIT, special::SELF, false);
    site.grant(other(), permission::GIT_PULL, CLASS, true);
    site.members(CLASS, [number(20), number(21)]);
    let lines = |targets: &[(_, _)]| {
        let mut lines: Vec<Value> = targets.iter().map(|(p, t)| json!({"permission": p, "target": t})).collect();
        lines.sort_by_key(Value::to_string);
        lines
    };
    let expected = lines(&[
        (permission::GIT_PULL, other()),
        (permission::GIT_PUSH, other()),
        (permission::GIT_PULL, number(20)),
        (permission::GIT_PULL, number(21)),
    ]);
    let (status, list) = site.get(MANAGER, &format!("/v2/acl/{}", other()));
    let mut list = list.as_array().unwrap().clone();
    list.sort_by_key(Value::to_string);
    assert_eq!((status, list), (200, expected));
}

#[test]
fn a_list_shows_what_its_reader_may_read_of_it() {
    let mut site = Site::new();
    let own = site.get(MANAGER, &format!("/v2/acl/{}", manager()));
    assert_eq!(own, (200, json!([])), "ReadACL is for Git's permissions alone, and the manager has none of them");
    assert_eq!(site.get(ROOT, &format!("/v2/acl/{}", manager())).1.as_array().unwrap().len(), 5);
    assert_eq!(site.get(EDGE, &format!("/v2/acl/{}", manager())).0, 403);
    assert_eq!(
        site.get(EDGE, "/v2/acl/kerberos/nobody%40R").0,
        403,
        "whether a name is known is not everybody's to read"
    );
}

#[test]
fn a_name_that_nobody_has_may_nothing_and_a_uuid_that_nobody_has_is_not_found() {
    let mut site = Site::new();
    assert_eq!(site.get(MANAGER, "/v2/acl/kerberos/nobody%40R"), (200, json!([])));
    assert_eq!(site.get(MANAGER, "/v2/acl/kerberos/nobody").0, 410);
    assert_eq!(site.get(MANAGER, &format!("/v2/acl/{}", number(77))).0, 404);
    assert_eq!(site.get(MANAGER, "/v2/acl/7").0, 410);
}

#[test]
fn a_principal_that_the_configuration_database_forgot_may_nothing() {
    let mut site = Site::new();
    site.members(latchkey_factory_plus::uuids::class::PRINCIPAL, [edge()]);
    assert_eq!(site.put(MANAGER, &identity_path(other()), &json!("a@R")), 403);
    assert_eq!(site.get(ROOT, &format!("/v2/acl/{}", manager())).0, 404);
    assert_eq!(site.get(MANAGER, "/v2/whoami/uuid").0, 200);
}

//! Who may what, and what nobody may make of it.

use latchkey_factory_plus::uuids::{permission, special};
use serde_json::json;

use super::site::*;

#[test]
fn nobody_may_anything_without_a_grant() {
    let mut site = Site::new();
    for path in ["/v2/principal", "/v2/identity/kerberos", "/v2/grant", "/v2/identity/kerberos/a%40R"] {
        assert_eq!(site.get(NOBODY, path).0, 403, "{path}");
    }
    assert_eq!(site.get(NOBODY, &identity_path(edge())).0, 403);
    assert_eq!(site.put(NOBODY, &identity_path(other()), &json!("a@R")), 403);
    assert_eq!(site.delete(NOBODY, &identity_path(edge())), 403);
    assert_eq!(site.delete(NOBODY, &format!("/v2/grant/{}", number(5))), 403, "not even whether it is there");
    assert_eq!(site.post(NOBODY, "/v2/grant/find", &json!({})).0, 403);
    assert_eq!(site.post(NOBODY, "/v2/grant", &grant(other(), permission::GIT_PULL, number(9), false)).0, 403);
    assert_eq!(site.post(NOBODY, "/load", &dump(&json!({}))).0, 403);
}

#[test]
fn an_edge_names_its_own_objects_and_names_of_its_own_cluster_only() {
    let mut site = Site::new();
    let own = identity_path(edges_own());
    for other_cluster in
        ["op1flux/South@R", "North@R", "nd1/South/North@R", "a/North/b/c@R", "admin@R", "op1flux/north@R"]
    {
        assert_eq!(site.put(EDGE, &own, &json!(other_cluster)), 403, "{other_cluster}");
    }
    assert_eq!(site.put(EDGE, &own, &json!("op1flux/North@ELSEWHERE")), 403);
    assert_eq!(site.put(EDGE, &identity_path(other()), &json!("op1sync/North@R")), 403, "not its own object");
    assert_eq!(site.put(EDGE, &own, &json!("op1sync/North@R")), 204);
    assert_eq!(site.delete(EDGE, &own), 204);
    assert_eq!(site.put(EDGE, &own, &json!("nd1/North/Agent1@R")), 204);
    assert_eq!(site.delete(EDGE, &identity_path(edge())), 403, "its own account is the centre's");
    site.delete(MANAGER, &own);
    site.put(MANAGER, &own, &json!("somebody@R"));
    assert_eq!(site.delete(EDGE, &own), 403, "a name that it could not have given");
}

#[test]
fn an_edge_stays_in_its_cluster_whatever_it_was_granted() {
    let mut site = Site::new();
    site.grant(edge(), permission::MANAGE_KERBEROS, special::WILDCARD, false);
    site.grant(edge(), permission::MANAGE_ACL, special::WILDCARD, false);
    assert_eq!(site.put(EDGE, &identity_path(edges_own()), &json!("op1flux/South@R")), 403);
    assert_eq!(site.put(EDGE, &identity_path(other()), &json!("op1sync/North@R")), 403, "it would be that principal");
    assert_eq!(site.put(EDGE, &identity_path(edges_own()), &json!("op1sync/North@R")), 204);
    assert_eq!(site.post(EDGE, "/load", &dump(&json!({}))).0, 403);
}

#[test]
fn every_account_of_an_edge_stays_in_its_cluster() {
    for role in ["op1flux", "op1sync", "op1monitor"] {
        let mut site = Site::new();
        let name = format!("{role}/North@R");
        site.name(other(), &name);
        site.grant(other(), permission::MANAGE_KERBEROS, edges_own(), false);
        assert_eq!(site.put(&name, &identity_path(edges_own()), &json!("x/South@R")), 403);
        assert_eq!(site.put(&name, &identity_path(edges_own()), &json!("x/North@R")), 204);
    }
}

#[test]
fn an_account_called_like_an_edge_of_no_possible_cluster_names_nobody() {
    for name in ["op1krbkeys/admin@R", "op1krbkeys/a/b@R", "op1krbkeys/1@R"] {
        let mut site = Site::new();
        site.name(other(), name);
        site.grant(other(), permission::MANAGE_KERBEROS, special::WILDCARD, false);
        assert_eq!(site.put(name, &identity_path(edges_own()), &json!("x/admin@R")), 403, "{name}");
    }
}

#[test]
fn what_an_owner_gives_away_is_no_longer_its_to_name() {
    let mut site = Site::new();
    site.state.set_owner(edges_own(), Some(other()));
    assert_eq!(site.put(EDGE, &identity_path(edges_own()), &json!("op1sync/North@R")), 403);
}

#[test]
fn the_root_principals_name_is_its_own_to_give() {
    let mut site = Site::new();
    assert_eq!(site.put(MANAGER, &identity_path(other()), &json!(ROOT)), 403);
    assert_eq!(site.put(ROOT, &identity_path(other()), &json!(ROOT)), 204);
    assert_eq!(site.delete(MANAGER, &identity_path(other())), 403);
}

#[test]
fn a_group_is_granted_by_who_manages_the_group_itself() {
    let mut site = Site::new();
    let group = grant(manager(), permission::GIT, number(9), false);
    assert_eq!(site.post(MANAGER, "/v2/grant", &group).0, 403, "it manages a member");
    site.grant(manager(), permission::MANAGE_ACL, permission::GIT, true);
    assert_eq!(site.post(MANAGER, "/v2/grant", &grant(other(), permission::GIT_PUSH, number(9), false)).0, 201);
    assert_eq!(site.post(MANAGER, "/v2/grant", &group).0, 403, "all members of now are not the group");
    site.grant(manager(), permission::MANAGE_ACL, permission::GIT, false);
    assert_eq!(site.post(MANAGER, "/v2/grant", &group).0, 201);
}

#[test]
fn nobody_grants_itself_more_than_it_could_grant() {
    let mut site = Site::new();
    let to_itself = |permission, target, plural| grant(manager(), permission, target, plural);
    assert_eq!(site.post(MANAGER, "/v2/grant", &to_itself(permission::MANAGE_ACL, special::WILDCARD, false)).0, 403);
    // Even who may grant the granting of something only hands on what it has.
    site.grant(manager(), permission::MANAGE_ACL, permission::MANAGE_ACL, false);
    site.grant(manager(), permission::MANAGE_ACL, permission::AUTH, false);
    for target in [special::WILDCARD, special::SELF, special::MINE, permission::GIT_PUSH] {
        assert_eq!(
            site.post(MANAGER, "/v2/grant", &to_itself(permission::MANAGE_ACL, target, false)).0,
            403,
            "{target}"
        );
        assert_eq!(site.post(MANAGER, "/v2/grant", &to_itself(permission::AUTH, target, false)).0, 403, "{target}");
    }
    assert_eq!(site.post(MANAGER, "/v2/grant", &to_itself(permission::MANAGE_ACL, permission::GIT, true)).0, 403);
    let handed_on = grant(other(), permission::MANAGE_ACL, permission::GIT_PULL, false);
    assert_eq!(site.post(MANAGER, "/v2/grant", &handed_on).0, 201);
}

#[test]
fn a_grant_is_replaced_by_who_manages_both() {
    let mut site = Site::new();
    let push = site.grant(other(), permission::GIT_PUSH, number(9), false);
    let pull = site.grant(other(), permission::GIT_PULL, number(9), false);
    let path = |uuid| format!("/v2/grant/{uuid}");
    assert_eq!(site.put(MANAGER, &path(push), &grant(other(), permission::GIT_PULL, number(8), false)), 403);
    assert_eq!(site.put(MANAGER, &path(pull), &grant(other(), permission::GIT_PUSH, number(8), false)), 403);
    assert_eq!(site.delete(MANAGER, &path(push)), 403);
    assert_eq!(site.put(MANAGER, &path(pull), &grant(other(), permission::GIT_PULL, number(8), false)), 204);
}

#[test]
fn what_a_reader_may_not_read_is_not_in_its_lists() {
    let mut site = Site::new();
    site.name(other(), "reader@R");
    site.grant(other(), permission::READ_KERBEROS, edge(), false);
    assert_eq!(site.get("reader@R", "/v2/principal"), (200, json!([edge()])));
    assert_eq!(site.get("reader@R", "/v2/identity/kerberos"), (200, json!([EDGE])));
    assert_eq!(site.get("reader@R", "/v2/identity/kerberos/sv1clustermanager%40R").0, 404);
    assert_eq!(site.get("reader@R", &identity_path(manager())).0, 403);
    let push = site.grant(other(), permission::GIT_PUSH, number(9), false);
    let pull = site.grant(other(), permission::GIT_PULL, number(9), false);
    site.grant(edge(), permission::MANAGE_ACL, permission::GIT_PULL, false);
    assert_eq!(site.get(EDGE, "/v2/grant"), (200, json!([pull])));
    assert_eq!(site.get(EDGE, &format!("/v2/grant/{push}")).0, 403);
}

#[test]
fn who_may_read_an_identity_may_say_what_it_is() {
    let mut site = Site::new();
    site.name(other(), "reader@R");
    let own = identity_path(edge());
    assert_eq!(site.put("reader@R", &own, &json!(EDGE)), 403, "it may not know whether this is so");
    site.grant(other(), permission::READ_KERBEROS, edge(), false);
    assert_eq!(site.put("reader@R", &own, &json!(EDGE)), 204);
    assert_eq!(site.put("reader@R", &own, &json!("op1krbkeys/South@R")), 403);
    assert_eq!(site.put("reader@R", &identity_path(manager()), &json!(MANAGER)), 403);
}

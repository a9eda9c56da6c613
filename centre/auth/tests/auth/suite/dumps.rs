//! Dumps.

use latchkey_auth::api::Method;
use latchkey_factory_plus::uuids::{permission, special};
use serde_json::json;

use super::site::*;

#[test]
fn of_the_principals_it_lists_a_dump_says_everything() {
    let mut site = Site::new();
    let ended = site.grant(other(), permission::GIT_PUSH, number(9), false);
    let kept = site.grant(other(), permission::GIT_PULL, number(9), false);
    let grants = json!({other().to_string(): {
        permission::GIT_PULL.to_string(): {number(9).to_string(): "both", number(10).to_string(): true},
        permission::READ_ACL.to_string(): null,
    }});
    let dump = dump(&json!({"identities": {other().to_string(): {"kerberos": "somebody@R"}}, "grants": grants}));
    assert_eq!(site.post(ROOT, "/load", &dump).0, 200);
    assert_eq!(site.get(ROOT, &format!("/v2/grant/{ended}")).0, 404);
    assert_eq!(site.get(ROOT, &format!("/v2/grant/{kept}")).0, 200);
    let model = site.state.model();
    let mut held: Vec<_> = model.grants().held_by(other()).map(|(_, g)| (g.permission, g.target, g.plural)).collect();
    held.sort_unstable();
    let mut expected = [
        (permission::GIT_PULL, number(9), false),
        (permission::GIT_PULL, number(9), true),
        (permission::GIT_PULL, number(10), true),
        (permission::READ_ACL, special::WILDCARD, false),
    ];
    expected.sort_unstable();
    assert_eq!(held, expected);
    assert_eq!(model.identities().name_of(other()), Some(&upn("somebody@R")));
    assert_eq!(model.identities().name_of(edge()), Some(&upn(EDGE)), "who is not listed stays as it is");
    let before = site.state.model().clone();
    assert_eq!(site.post(ROOT, "/load", &dump).0, 200);
    assert_eq!(*site.state.model(), before, "the same again changes nothing");
}

#[test]
fn principals_of_a_dump_may_change_names_among_themselves() {
    let mut site = Site::new();
    let swapped = json!({manager().to_string(): {"kerberos": EDGE}, edge().to_string(): {"kerberos": MANAGER}});
    assert_eq!(site.post(ROOT, "/load", &dump(&json!({"identities": swapped}))).0, 200);
    let model = site.state.model();
    assert_eq!(model.identities().principal_of(&upn(EDGE)), Some(manager()));
    assert_eq!(model.identities().principal_of(&upn(MANAGER)), Some(edge()));
}

#[test]
fn a_bad_dump_changes_nothing() {
    let mut site = Site::new();
    let before = site.state.model().clone();
    let called = |uuid, name: &str| json!({"identities": {format!("{uuid}"): {"kerberos": name}}});
    let granted =
        |plural| json!({"grants": {other().to_string(): {number(8).to_string(): {number(9).to_string(): plural}}}});
    let mut another_service = dump(&json!({}));
    another_service["service"] = json!(number(1));
    let mut another_version = dump(&json!({}));
    another_version["version"] = json!(1);
    for (bad, status) in [
        (another_service, 422),
        (another_version, 422),
        (dump(&json!({"more": {}})), 422),
        (dump(&called(other(), "no realm")), 422),
        (dump(&called(other(), "a@ELSEWHERE")), 422),
        (dump(&called(other(), MANAGER)), 409),
        (dump(&granted(json!("all"))), 422),
        (dump(&granted(json!(1))), 422),
        (dump(&granted(json!(null))), 422),
        (json!([]), 422),
    ] {
        assert_eq!(site.post(ROOT, "/load", &bad).0, status, "{bad}");
    }
    let twice = format!(r#"{{"{0}": {{"kerberos": "a@R"}}, "{0}": {{"kerberos": "b@R"}}}}"#, other());
    let text =
        dump(&json!({"identities": 0})).to_string().replace("\"identities\":0", &format!("\"identities\":{twice}"));
    assert_eq!(site.ask(ROOT, Method::Post, "/load", text.as_bytes()).status, 422, "{text}");
    assert_eq!(*site.state.model(), before);
}

#[test]
fn a_dump_is_loaded_by_who_may_everything_it_could_say() {
    let mut site = Site::new();
    assert_eq!(site.post(MANAGER, "/load", &dump(&json!({}))).0, 403);
    site.grant(manager(), permission::MANAGE_ACL, special::WILDCARD, false);
    assert_eq!(site.post(MANAGER, "/load", &dump(&json!({}))).0, 200);
    let rooted = json!({"identities": {other().to_string(): {"kerberos": ROOT}}});
    assert_eq!(site.post(MANAGER, "/load", &dump(&rooted)).0, 403);
    assert_eq!(site.post(ROOT, "/load", &dump(&rooted)).0, 200);
}

//! What was acknowledged is there after a restart; what was not, nobody saw.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use latchkey_auth::Realms;
use latchkey_auth::api::{Answer, Ask, Method, watched};
use latchkey_auth::keeper::Keeper;
use latchkey_auth::rights::Rules;
use latchkey_factory_plus::uuids::{class, permission, special};
use latchkey_test_support::{block_on, within};
use serde_json::{Value, json};

use super::site::*;

fn open(folder: &Path) -> Keeper {
    let rules = Rules {
        realms: Realms::new("R".parse().unwrap(), BTreeSet::new()),
        root: Some(upn(ROOT)),
        fixed: BTreeMap::new(),
    };
    Keeper::open(&folder.join("auth.redb"), rules).unwrap()
}

fn hear(keeper: &Keeper) {
    let permissions = BTreeSet::from([permission::READ_ACL, permission::GIT_PULL, permission::READ_KERBEROS]);
    let principals = BTreeSet::from([edge(), other()]);
    keeper.heard(vec![(class::PERMISSION, permissions), (class::PRINCIPAL, principals)], Vec::new(), true);
}

fn ask(keeper: &Keeper, caller: &str, method: Method, path: &str, body: &Value) -> Answer {
    let asked = Ask::read(method, path, body.to_string().as_bytes()).unwrap();
    block_on(keeper.ask(upn(caller), asked))
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = open(folder.path());
    let named = ask(&keeper, ROOT, Method::Put, &identity_path(edge()), &json!(EDGE));
    assert_eq!(named.status, 204, "root may before the configuration database is heard");
    let pull = grant(edge(), permission::GIT_PULL, number(9), false);
    let (_, made) = seen(ask(&keeper, ROOT, Method::Post, "/v2/grant", &pull));
    let ended =
        seen(ask(&keeper, ROOT, Method::Post, "/v2/grant", &grant(edge(), permission::READ_ACL, number(9), false))).1;
    let path = format!("/v2/grant/{}", ended["uuid"].as_str().unwrap());
    assert_eq!(ask(&keeper, ROOT, Method::Delete, &path, &Value::Null).status, 204);
    drop(keeper);
    let keeper = open(folder.path());
    hear(&keeper);
    let list = ask(&keeper, ROOT, Method::Get, "/v2/acl/kerberos/op1krbkeys%2FNorth%40R", &Value::Null);
    assert_eq!(seen(list), (200, json!([{"permission": permission::GIT_PULL, "target": number(9)}])));
    assert_eq!(seen(ask(&keeper, ROOT, Method::Get, "/v2/grant", &Value::Null)).1, json!([made["uuid"]]));
}

#[test]
fn a_damaged_file_is_refused_by_what_is_wrong() {
    use latchkey_group_commit::{Change, Store};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.redb");
    let store = Store::open(&path, &["identities", "grants"], |_, _, _| Ok(())).unwrap();
    let twice = [1, 2].map(|key| Change::put("identities", [key; 16], "a@R"));
    block_on(store.write(twice.to_vec())).unwrap();
    drop(store);
    let rules =
        Rules { realms: Realms::new("R".parse().unwrap(), BTreeSet::new()), root: None, fixed: BTreeMap::new() };
    let error = Keeper::open(&path, rules).unwrap_err().to_string();
    assert!(error.contains("a@R is another principal's name"), "{error}");
}

#[test]
fn before_classes_are_heard_nobody_but_root_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = open(folder.path());
    assert_eq!(ask(&keeper, NOBODY, Method::Get, "/v2/principal", &Value::Null).status, 503);
    assert_eq!(ask(&keeper, ROOT, Method::Get, &format!("/v2/acl/{}", edge()), &Value::Null).status, 503);
    assert_eq!(ask(&keeper, NOBODY, Method::Get, "/v2/whoami", &Value::Null).status, 404);
    hear(&keeper);
    assert_eq!(ask(&keeper, NOBODY, Method::Get, "/v2/principal", &Value::Null).status, 403);
}

#[test]
fn of_many_who_want_one_name_at_once_one_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = open(folder.path());
    let asked = (10..26).map(|n| {
        let body = json!("wanted@R").to_string();
        let asked = Ask::read(Method::Put, &identity_path(number(n)), body.as_bytes()).unwrap();
        let keeper = keeper.clone();
        smol::spawn(async move { keeper.ask(upn(ROOT), asked).await.status })
    });
    let asked: Vec<_> = asked.collect();
    let mut statuses: Vec<u16> = asked.into_iter().map(block_on).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![204], vec![409; 15]].concat());
}

#[test]
fn a_write_whose_caller_is_gone_is_seen_when_it_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = open(folder.path());
    let asked = Ask::read(Method::Put, &identity_path(edge()), json!(EDGE).to_string().as_bytes()).unwrap();
    let changed = keeper.changed();
    let mut gone = Box::pin(keeper.ask(upn(ROOT), asked));
    block_on(async {
        assert!(smol::future::poll_once(&mut gone).await.is_none());
        drop(gone);
        changed.await;
    });
    assert_eq!(ask(&keeper, ROOT, Method::Put, &identity_path(other()), &json!(EDGE)).status, 409);
}

#[test]
fn a_watcher_is_told_when_its_list_is_another_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = open(folder.path());
    hear(&keeper);
    let read = watched("v2/acl/kerberos/op1krbkeys%2FNorth%40R").unwrap();
    let mut last = None;
    let mut look = || keeper.look(&upn(ROOT), &read, &mut last).map(seen);
    assert_eq!(look(), Some((200, json!([]))), "nobody is called so");
    assert_eq!(look(), None);
    ask(&keeper, ROOT, Method::Put, &identity_path(edge()), &json!(EDGE));
    assert_eq!(look(), Some((200, json!([]))));
    ask(&keeper, ROOT, Method::Post, "/v2/grant", &grant(other(), permission::GIT_PULL, special::SELF, false));
    assert_eq!(look(), None, "another's grant");
    ask(&keeper, ROOT, Method::Post, "/v2/grant", &grant(edge(), permission::GIT_PULL, special::SELF, false));
    assert_eq!(look(), Some((200, json!([{"permission": permission::GIT_PULL, "target": edge()}]))));
    keeper.heard(vec![(class::PRINCIPAL, BTreeSet::from([other()]))], Vec::new(), true);
    assert_eq!(look().unwrap().0, 404);
    for nothing in ["v2/grant", "v2/whoami", "v1/acl", ""] {
        assert_eq!(watched(nothing).unwrap_err().status, 404, "{nothing}");
    }
}

#[test]
fn a_watcher_who_loses_its_right_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = open(folder.path());
    hear(&keeper);
    ask(&keeper, ROOT, Method::Put, &identity_path(other()), &json!("service@R"));
    let right = grant(other(), permission::READ_ACL, special::WILDCARD, false);
    let held = seen(ask(&keeper, ROOT, Method::Post, "/v2/grant", &right)).1;
    let read = watched(&format!("v2/acl/{}", edge())).unwrap();
    let mut last = None;
    let mut look = || keeper.look(&upn("service@R"), &read, &mut last).map(|answer| answer.status);
    assert_eq!((look(), look()), (Some(200), None));
    ask(&keeper, ROOT, Method::Delete, &format!("/v2/grant/{}", held["uuid"].as_str().unwrap()), &Value::Null);
    assert_eq!((look(), look()), (Some(403), None));
}

#[test]
fn after_many_writes_at_once_the_file_says_what_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = open(folder.path());
    hear(&keeper);
    let asked = (10..74_u8).flat_map(|n| {
        let principal = number(n);
        let name = json!(format!("wanted{}@R", n % 8));
        let made = grant(number(n % 16), permission::GIT_PULL, number(n % 4), false);
        [
            (Method::Put, identity_path(principal), name),
            (Method::Post, "/v2/grant".into(), made),
            (Method::Delete, identity_path(number(n.wrapping_sub(3))), Value::Null),
        ]
    });
    let tasks: Vec<_> = asked
        .map(|(method, path, body)| {
            let asked = Ask::read(method, &path, body.to_string().as_bytes()).unwrap();
            let keeper = keeper.clone();
            smol::spawn(async move { keeper.ask(upn(ROOT), asked).await.status })
        })
        .collect();
    for task in tasks {
        let status = block_on(task);
        assert!([200, 201, 204, 404, 409].contains(&status), "{status}");
    }
    let copied = tempfile::tempdir().unwrap();
    block_on(keeper.store().copy_to(copied.path().join("auth.redb"))).unwrap();
    let copy = open(copied.path());
    hear(&copy);
    for path in ["/v2/grant", "/v2/principal", "/v2/identity/kerberos"] {
        let shown = seen(ask(&keeper, ROOT, Method::Get, path, &Value::Null));
        assert!(!shown.1.as_array().unwrap().is_empty(), "{path}");
        assert_eq!(seen(ask(&copy, ROOT, Method::Get, path, &Value::Null)), shown, "{path}");
    }
}

/// Who names an object that is not heard of waits for the news of it. Its own tries, and what others write, are no news: once
/// they woke it for ever, and nobody else was answered.
#[test]
fn who_names_an_object_that_never_comes_is_refused_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let keeper = open(folder.path());
    hear(&keeper);
    assert_eq!(ask(&keeper, ROOT, Method::Put, &identity_path(edge()), &json!(EDGE)).status, 204);
    let named = |number: u8| {
        let asked = Ask::read(Method::Put, &identity_path(self::number(number)), b"\"op1sync/North@R\"").unwrap();
        let keeper = keeper.clone();
        smol::spawn(async move { keeper.ask(upn(EDGE), asked).await })
    };
    let waiting = [named(70), named(71)];
    let pull = grant(edge(), permission::GIT_PULL, number(9), false);
    let granted = Ask::read(Method::Post, "/v2/grant", pull.to_string().as_bytes()).unwrap();
    let written = block_on(within("what another writes meanwhile", keeper.ask(upn(ROOT), granted)));
    assert_eq!(written.status, 201);
    for refused in waiting {
        assert_eq!(block_on(within("the refusal", refused)).status, 403);
    }
}

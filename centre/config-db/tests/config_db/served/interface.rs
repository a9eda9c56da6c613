//! The table of the interface, row by row: who may, what comes back.

use std::collections::BTreeSet;

use latchkey_config_db::Uuid;
use latchkey_factory_plus::uuids::application::{CONFIG_SCHEMA, INFO, REGISTRATION};
use latchkey_factory_plus::uuids::class::{APPLICATION, INDIVIDUAL, RANK_1};
use latchkey_factory_plus::uuids::permission as p;
use latchkey_factory_plus::uuids::service;
use latchkey_factory_plus::uuids::special::{UNOWNED, WILDCARD};
use serde_json::{Value, json};

use crate::served::rig::{APP, CLASS, Held, MANAGER, MANAGER_UUID, OTHER, ROOT, Rig, X, Y, Z, entry};

/// Method, path, body, what it needs, what it answers.
type Row = (&'static str, String, Option<Value>, Vec<Held>, u16);

const NEW: Uuid = Uuid::constant("00000000-0000-4000-8000-0000000000aa");
const NEW_CLASS: Uuid = Uuid::constant("c0000000-0000-4000-8000-0000000000cc");

/// What loading a dump needs, for everything.
const LOAD: [Uuid; 7] = [
    p::CREATE_SPECIFIC_OBJECT,
    p::WRITE_MEMBERS,
    p::WRITE_MEMBERSHIPS,
    p::WRITE_SUBCLASSES,
    p::WRITE_SUPERCLASSES,
    p::TAKE_FROM,
    p::WRITE_CONFIG,
];

/// In an order in which each has what it is about.
fn rows() -> Vec<Row> {
    let class = |rest: &str| format!("/v2/class/{CLASS}/{rest}");
    let read = || vec![(p::READ_CONFIG, APP)];
    let write = || vec![(p::WRITE_CONFIG, APP)];
    let members = |object| vec![(p::WRITE_MEMBERS, CLASS), (p::WRITE_MEMBERSHIPS, object)];
    let subclasses = || vec![(p::WRITE_SUBCLASSES, CLASS), (p::WRITE_SUPERCLASSES, OTHER)];
    let get = |path: String, needs, status| ("GET", path, None, needs, status);
    vec![
        get("/ping".to_owned(), vec![], 200),
        get("/v2/object".to_owned(), vec![(p::LIST_OBJECTS, WILDCARD)], 200),
        get("/v2/object/rank".to_owned(), vec![(p::LIST_OBJECTS, WILDCARD)], 200),
        get("/v2/class".to_owned(), vec![(p::READ_MEMBERS, RANK_1)], 200),
        get("/v2/app".to_owned(), vec![(p::READ_MEMBERS, APPLICATION)], 200),
        get(format!("/v2/class/{CLASS}"), vec![(p::READ_MEMBERS, CLASS), (p::READ_SUBCLASSES, CLASS)], 200),
        get(class("member"), vec![(p::READ_MEMBERS, CLASS)], 200),
        get(class("subclass"), vec![(p::READ_SUBCLASSES, CLASS)], 200),
        get(class("direct/member"), vec![(p::WRITE_MEMBERS, CLASS)], 200),
        get(class("direct/subclass"), vec![(p::WRITE_SUBCLASSES, CLASS)], 200),
        get(class(&format!("member/{X}")), vec![(p::READ_MEMBERS, CLASS)], 204),
        get(class(&format!("member/{OTHER}")), vec![(p::READ_MEMBERS, CLASS)], 404),
        get(class(&format!("direct/member/{X}")), vec![(p::WRITE_MEMBERS, CLASS)], 204),
        (
            "PUT",
            format!("/v2/class/{OTHER}/direct/member/{X}"),
            None,
            { vec![(p::WRITE_MEMBERS, OTHER), (p::WRITE_MEMBERSHIPS, X)] },
            204,
        ),
        ("PUT", class(&format!("direct/member/{X}")), None, members(X), 204),
        (
            "DELETE",
            format!("/v2/class/{OTHER}/direct/member/{X}"),
            None,
            { vec![(p::WRITE_MEMBERS, OTHER), (p::WRITE_MEMBERSHIPS, X)] },
            204,
        ),
        ("DELETE", class(&format!("direct/member/{X}")), None, members(X), 409), // its primary class
        ("PUT", class(&format!("direct/member/{OTHER}")), None, members(OTHER), 409), // of another rank
        ("PUT", class(&format!("direct/member/{NEW}")), None, members(NEW), 404),
        ("PUT", class(&format!("direct/subclass/{OTHER}")), None, subclasses(), 204),
        get(class(&format!("subclass/{OTHER}")), vec![(p::READ_SUBCLASSES, CLASS)], 204),
        get(class(&format!("direct/subclass/{OTHER}")), vec![(p::WRITE_SUBCLASSES, CLASS)], 204),
        ("DELETE", class(&format!("direct/subclass/{OTHER}")), None, subclasses(), 204),
        get(class(&format!("subclass/{OTHER}")), vec![(p::READ_SUBCLASSES, CLASS)], 404),
        ("PUT", entry(X), Some(json!({"a": 1})), write(), 201),
        ("PUT", entry(X), Some(json!({"a": 2})), write(), 204),
        ("PUT", entry(X), Some(json!({"a": 2})), write(), 204),
        ("PATCH", entry(X), Some(json!({"b": 1})), vec![(p::READ_CONFIG, APP), (p::WRITE_CONFIG, APP)], 204),
        get(entry(X), read(), 200),
        ("HEAD", entry(X), None, read(), 200),
        get(entry(Y), read(), 404),
        get(format!("/v2/app/{APP}/object"), read(), 200),
        get(format!("/v2/app/{APP}/class/{CLASS}"), read(), 200),
        get(format!("/v2/app/{APP}/class/{NEW}"), read(), 404),
        get(format!("/v1/app/{APP}/search?a=2"), read(), 200),
        get(format!("/v1/app/{APP}/class/{CLASS}/search?a=2"), read(), 200),
        ("DELETE", entry(X), None, write(), 204),
        ("DELETE", entry(X), None, write(), 404),
        ("DELETE", format!("/v2/object/{Z}"), None, vec![(p::DELETE_OBJECT, Z)], 204),
        ("DELETE", format!("/v2/object/{Z}"), None, vec![(p::DELETE_OBJECT, Z)], 404),
        ("DELETE", format!("/v2/object/{CLASS}"), None, vec![(p::DELETE_OBJECT, CLASS)], 409), // it has members
        ("DELETE", format!("/v2/object/{UNOWNED}"), None, vec![(p::DELETE_OBJECT, UNOWNED)], 405),
    ]
}

fn dump() -> Value {
    json!({
        "service": service::CONFIG_DB,
        "version": 2,
        "objects": {
            RANK_1.to_string(): {NEW_CLASS.to_string(): {"name": "New class", "subclassOf": [CLASS]}},
            NEW_CLASS.to_string(): {NEW.to_string(): {}},
            APPLICATION.to_string(): {INFO.to_string(): {}},
        },
        "configs": {APP.to_string(): {NEW.to_string(): {"loaded": true}}},
    })
}

#[test]
fn each_row_is_done_for_who_holds_what_it_says_and_for_nobody_who_lacks_a_part_of_it() {
    let rows = rows();
    // Of each row: one who holds all, and for each part one who lacks it.
    let mut users: Vec<(String, Vec<Held>)> = Vec::new();
    for (number, (_, _, _, needs, _)) in rows.iter().enumerate() {
        users.push((format!("all{number}@R"), needs.clone()));
        for part in 0..needs.len() {
            let rest = needs.iter().enumerate().filter(|(at, _)| *at != part).map(|(_, held)| *held).collect();
            users.push((format!("lacks{number}n{part}@R"), rest));
        }
    }
    let rig = Rig::with(users.iter().map(|(name, held)| (name.as_str(), held.as_slice())));
    for (number, (method, path, body, needs, status)) in rows.iter().enumerate() {
        for part in 0..needs.len() {
            let lacks = rig.ask(&format!("lacks{number}n{part}@R"), method, path, &[], body.as_ref());
            assert_eq!(lacks.status, 403, "{method} {path} without part {part}: {lacks:?}");
        }
        let reply = rig.ask(&format!("all{number}@R"), method, path, &[], body.as_ref());
        assert_eq!(reply.status, *status, "{method} {path}: {reply:?}");
    }
}

#[test]
fn a_dump_is_loaded_for_who_holds_all_of_it_for_everything() {
    let load = LOAD.map(|held| (held, WILDCARD));
    // Of each permission: one who lacks it, and one who holds it for one thing alone.
    let mut users: Vec<(String, Vec<Held>)> = Vec::new();
    for missing in 0..load.len() {
        let rest: Vec<Held> = load.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, held)| *held).collect();
        users.push((format!("partly{missing}@R"), rest.iter().copied().chain([(load[missing].0, APP)]).collect()));
        users.push((format!("lacks{missing}@R"), rest));
    }
    users.push(("stranger@R".to_owned(), load.to_vec()));
    let rig = Rig::with(users.iter().map(|(name, held)| (name.as_str(), held.as_slice())));
    for (name, _) in &users {
        let expected = if name == "stranger@R" { 503 } else { 403 };
        let reply = rig.ask(name, "POST", "/load", &[], Some(&dump()));
        assert_eq!(reply.status, expected, "{name}: {reply:?}");
    }
    assert_eq!(rig.root("POST", "/v2/object", &json!({"class": OTHER, "uuid": MANAGER_UUID})).status, 201);
    rig.grant(&load);
    assert_eq!(rig.ask(MANAGER, "POST", "/load", &[], Some(&dump())).status, 200);
    assert_eq!(rig.get(ROOT, &entry(NEW)).json(), json!({"loaded": true}));
    assert_eq!(rig.get(ROOT, &format!("/v2/app/{INFO}/object/{NEW_CLASS}")).json(), json!({"name": "New class"}));
    assert_eq!(rig.get(ROOT, &format!("/v2/class/{CLASS}/member/{NEW}")).status, 204, "by its class's superclass");
}

#[test]
fn who_creates_an_object_owns_it_and_must_be_known() {
    let create = [(p::CREATE_OBJECT, CLASS), (p::CREATE_SPECIFIC_OBJECT, CLASS)];
    let rig =
        Rig::with([("stranger@R", create.as_slice()), ("unspecific@R", &create[..1]), ("specific@R", &create[1..])]);
    rig.grant(&create[..1]);
    assert_eq!(rig.root("POST", "/v2/object", &json!({"class": OTHER, "uuid": MANAGER_UUID})).status, 201);
    let new = json!({"class": CLASS});
    let made = rig.ask(MANAGER, "POST", "/v2/object", &[], Some(&new));
    assert_eq!(made.status, 201, "{made:?}");
    let registration = made.json();
    let expected = json!({
        "uuid": registration["uuid"], "class": CLASS, "rank": 0, "owner": MANAGER_UUID, "deleted": false, "strict": true,
    });
    assert_eq!(registration, expected);
    let path = format!("/v2/app/{REGISTRATION}/object/{}", registration["uuid"].as_str().unwrap());
    assert_eq!(rig.get(ROOT, &path).json(), expected);
    assert_eq!(rig.ask("stranger@R", "POST", "/v2/object", &[], Some(&new)).status, 503, "no principal has this name");

    let named = json!({"class": CLASS, "uuid": X});
    assert_eq!(rig.ask("unspecific@R", "POST", "/v2/object", &[], Some(&named)).status, 403);
    assert_eq!(rig.ask("specific@R", "POST", "/v2/object", &[], Some(&new)).status, 403);
    assert_eq!(rig.root("PATCH", &format!("/v2/app/{REGISTRATION}/object/{X}"), &json!({"deleted": true})).status, 204);
    let again = rig.root("POST", "/v2/object", &named);
    assert_eq!((again.status, again.json()["deleted"].clone()), (200, json!(false)), "it is there again");
    for (body, status) in [
        (json!({}), 422),
        (json!({"class": CLASS, "rank": 0}), 422),
        (json!({"class": Uuid::random()}), 409),
        (json!({"class": OTHER, "uuid": X}), 409),
        (json!({"class": X}), 409), // an individual
    ] {
        let reply = rig.root("POST", "/v2/object", &body);
        assert_eq!(reply.status, status, "{body}: {reply:?}");
        assert!(!reply.body.is_empty());
    }
}

#[test]
fn ping_says_who_we_are_to_whoever_says_who_it_is() {
    let rig = Rig::new();
    let pong = rig.get(ROOT, "/ping").json();
    assert_eq!((&pong["version"], &pong["service"]), (&json!("2.0.0"), &json!(service::CONFIG_DB)));
    assert_eq!(pong["software"]["application"], "latchkey-config-db");
    let token = rig.token(ROOT);
    assert_eq!(token.len(), 88);
    assert_eq!(rig.send(&format!("Bearer {token}"), "GET", "/v2/object", &[], None).status, 200);
    for bad in ["Basic cm9vdEBSOndyb25n", "Bearer bm90aGluZw", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJhIjoxfQ.c2ln-_", "X y"] {
        let refused = rig.send(bad, "GET", "/ping", &[], None);
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, Some("Basic realm=\"Factory+\"")),
            "{bad}"
        );
    }
}

#[test]
fn what_is_no_path_is_said_by_its_status() {
    let rig = Rig::new();
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/v2", 404),
        ("GET", "/v3/object", 404),
        ("GET", "/v2/nothing", 404),
        ("GET", "/v2/class/x", 410),
        ("DELETE", "/v2/object/x", 410),
        ("GET", "/v2/class/x/member", 410),
        ("PUT", "/v2/class/x/direct/member/y", 410),
        ("GET", "/v2/app/x/object", 410),
        ("GET", "/v2/app/x/object/y", 410),
        ("GET", "/v1/app/x/search", 410),
        ("GET", "/v1/save", 403),
        ("POST", "/v1/app", 405),
        ("GET", &format!("/v1/app/{APP}"), 403),
        ("GET", &format!("/v2/object/{X}"), 405),
        ("PUT", "/v2/object", 405),
        ("DELETE", "/load", 405),
        ("PUT", &format!("/v2/class/{CLASS}/member/{X}"), 405),
        ("PATCH", "/v2/object", 405),
        ("POST", &entry(X), 405),
    ] {
        let reply = rig.ask(ROOT, method, path, &[], (method != "GET").then_some(&json!({})));
        assert_eq!(reply.status, status, "{method} {path}: {reply:?}");
        assert!(!reply.body.is_empty(), "{method} {path} says why");
    }
}

#[test]
fn version_1_is_other_names_of_the_same() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!({"a": 1}));
    for (old, new) in [
        ("/v1/object".to_owned(), "/v2/object".to_owned()),
        ("/v1/class".to_owned(), "/v2/class".to_owned()),
        (format!("/v1/class/{CLASS}"), format!("/v2/class/{CLASS}/member")),
        ("/v1/app".to_owned(), "/v2/app".to_owned()),
        (format!("/v1/app/{APP}/object"), format!("/v2/app/{APP}/object")),
        (format!("/v1/app/{APP}/config"), format!("/v2/app/{APP}/object")),
        (format!("/v1/app/{APP}/object/{X}"), entry(X)),
        (format!("/v1/app/{APP}/device/{X}"), entry(X)),
        (format!("/v1/app/{APP}/schema/{X}"), entry(X)),
        (format!("/v1/app/{APP}/app/{X}"), entry(X)),
    ] {
        let (old_reply, new_reply) = (rig.get(ROOT, &old), rig.get(ROOT, &new));
        assert_eq!((old_reply.status, new_reply.status), (200, 200), "{old}, {new}");
        assert_eq!((old_reply.json(), old_reply.header("etag")), (new_reply.json(), new_reply.header("etag")), "{old}");
    }
    let old = format!("/v1/app/{APP}/device/{Y}");
    assert_eq!(rig.root("PUT", &old, &json!(1)).status, 201);
    assert_eq!(rig.get(ROOT, &entry(Y)).json(), json!(1));
    assert_eq!(rig.ask(ROOT, "DELETE", &old, &[], None).status, 204);
    let schema = format!("/v1/app/{APP}/config-schema");
    assert_eq!(rig.root("PUT", &schema, &json!({"type": "object"})).status, 201);
    assert_eq!(rig.get(ROOT, &format!("/v2/app/{CONFIG_SCHEMA}/object/{APP}")).json(), json!({"type": "object"}));
    assert_eq!(rig.root("POST", "/v1/object", &json!({"class": CLASS})).status, 201);
    assert_eq!(rig.ask(ROOT, "DELETE", &format!("/v1/object/{Z}"), &[], None).status, 204);
}

#[test]
fn lists_have_what_is_derived_and_direct_ones_do_not() {
    let rig = Rig::new();
    assert_eq!(rig.root("PUT", &format!("/v2/class/{OTHER}/direct/subclass/{CLASS}"), &Value::Null).status, 204);
    let list = |rest: &str| rig.get(ROOT, &format!("/v2/class/{OTHER}/{rest}")).list();
    let three: BTreeSet<String> = [X, Y, Z].map(|object| object.to_string()).into();
    assert_eq!(list("member"), three);
    assert_eq!(list("direct/member"), BTreeSet::new());
    assert_eq!(list("subclass"), BTreeSet::from([CLASS.to_string()]));
    let both = rig.get(ROOT, &format!("/v2/class/{OTHER}")).json();
    assert_eq!((both["members"].as_array().unwrap().len(), &both["subclasses"]), (3, &json!([CLASS])));
    assert!(rig.get(ROOT, &format!("/v2/class/{INDIVIDUAL}/subclass")).list().contains(&CLASS.to_string()));
    let dependents = rig.ask(ROOT, "DELETE", &format!("/v2/object/{CLASS}"), &[], None);
    assert_eq!((dependents.status, dependents.list()), (409, three), "what depends on it is named");
}

#[test]
fn a_dump_that_cannot_be_loaded_is_said_why() {
    let rig = Rig::new();
    let loaded = |change: &dyn Fn(&mut Value)| {
        let mut dump = dump();
        change(&mut dump);
        rig.root("POST", "/load", &dump)
    };
    for (change, status) in [
        (&(|dump: &mut Value| dump["version"] = json!(1)) as &dyn Fn(&mut Value), 422),
        (&|dump| dump["service"] = json!(X), 422),
        (&|dump| dump["more"] = json!(1), 422),
        (&|dump| dump["configs"] = json!({REGISTRATION.to_string(): {}}), 422),
        (&|dump| dump["objects"][Uuid::NIL.to_string()] = json!({X.to_string(): {}}), 409),
    ] {
        let reply = loaded(change);
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(!reply.body.is_empty());
    }
    assert_eq!(rig.get(ROOT, &format!("/v2/class/{NEW_CLASS}")).status, 404, "nothing of these was loaded");
    assert_eq!(loaded(&|_| ()).status, 200);
    assert_eq!(loaded(&|_| ()).status, 200, "and once more");
}

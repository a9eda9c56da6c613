//! Bodies, schemas and searches.

use latchkey_config_db::{DEEPEST_JSON, Uuid};
use latchkey_factory_plus::uuids::application::{CONFIG_SCHEMA, REGISTRATION};
use latchkey_test_support::block_on;
use serde_json::{Value, json};

use crate::served::rig::{APP, CLASS, ROOT, Rig, X, Y, Z, entry};

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |value, _| json!({ "a": value }))
}

/// A frame has an entry some levels deep: one at the bound of whoever reads it would end the subscription each time.
#[test]
fn an_entry_is_not_deeper_than_frames_can_carry() {
    let rig = Rig::new();
    let deeper = nested(DEEPEST_JSON + 1);
    for method in ["PUT", "PATCH"] {
        assert_eq!(rig.root(method, &entry(Y), &deeper).status, 422, "{method}");
        assert!(rig.root(method, &entry(X), &nested(DEEPEST_JSON)).status < 300, "{method}");
    }
    let configs = json!({APP.to_string(): {Y.to_string(): deeper}});
    let dump = json!({"service": latchkey_factory_plus::uuids::service::CONFIG_DB, "version": 2, "configs": configs});
    let refused = rig.root("POST", "/load", &dump);
    assert!(refused.status == 422 && refused.body.contains("100"), "{refused:?}");
    block_on(async {
        let mut socket = rig.socket(ROOT).await;
        let first = socket.search(Z, None).await;
        assert_eq!(first["children"][X.to_string()]["body"], nested(DEEPEST_JSON));
    });
}

#[test]
fn a_body_must_be_what_its_content_type_says() {
    let rig = Rig::new();
    let root = format!("Bearer {}", rig.token(ROOT));
    let merge = "application/merge-patch+json";
    for (method, kind, text, status) in [
        ("PUT", "application/json", "{\"a\":1}", 201),
        ("PUT", "application/json; charset=utf-8", "{\"a\":1}", 204),
        ("PUT", "text/plain", "{}", 415),
        ("PUT", merge, "{}", 415),
        ("PUT", "application/json", "{\"a\":", 400),
        ("PUT", "application/json", "\u{fffd}", 400),
        ("PATCH", merge, "{}", 204),
        ("PATCH", "application/json", "{}", 415),
        ("PATCH", "application/json-patch+json", "[]", 415),
        ("PATCH", merge, "{", 400),
        ("PATCH", merge, "[]", 422),
        ("PATCH", merge, "null", 422),
        ("POST", "text/plain", "{}", 415),
    ] {
        let path = if method == "POST" { "/v2/object".to_owned() } else { entry(X) };
        let reply = rig.send(&root, method, &path, &[], Some((kind, text)));
        assert_eq!(reply.status, status, "{method} {kind} {text}: {reply:?}");
    }
    let large = json!("x".repeat(latchkey_config_db::LONGEST_JSON - 2));
    assert_eq!(rig.root("PUT", &entry(Y), &large).status, 201, "an entry may be as large as is kept");
    let long = format!("\"{}\"", "x".repeat(latchkey_config_db::LONGEST_JSON));
    assert_eq!(rig.send(&root, "PUT", &entry(X), &[], Some(("application/json", &long))).status, 413);
    assert_eq!(rig.get(ROOT, &entry(X)).json(), json!({"a": 1}));
}

#[test]
fn each_kind_of_json_is_a_value() {
    let rig = Rig::new();
    for value in [json!(null), json!(false), json!(0), json!(""), json!([]), json!({}), json!("x"), json!(1.5)] {
        let put = rig.root("PUT", &entry(X), &value);
        assert!(matches!(put.status, 201 | 204), "{put:?}");
        let got = rig.get(ROOT, &entry(X));
        assert_eq!((got.status, got.json(), got.header("content-type")), (200, value, Some("application/json")));
    }
    let head = rig.ask(ROOT, "HEAD", &entry(X), &[], None);
    assert_eq!((head.status, head.body.as_str(), head.header("content-length")), (200, "", Some("3")));
}

#[test]
fn unknown_applications_and_objects_have_no_entries() {
    let rig = Rig::new();
    let nobody = Uuid::random();
    for path in [format!("/v2/app/{nobody}/object/{X}"), format!("/v2/app/{APP}/object/{nobody}")] {
        for (method, body) in [("GET", None), ("PUT", Some(json!(1))), ("PATCH", Some(json!({}))), ("DELETE", None)] {
            let reply = rig.ask(ROOT, method, &path, &[], body.as_ref());
            assert!(reply.status == 404 && reply.body.contains(&nobody.to_string()), "{method} {path}: {reply:?}");
        }
    }
    assert_eq!(rig.get(ROOT, &format!("/v2/app/{nobody}/object")).status, 404);
    assert_eq!(rig.get(ROOT, &format!("/v1/app/{nobody}/search")).json(), json!([]));
}

#[test]
fn a_schema_is_kept_to() {
    let rig = Rig::new();
    let schema = format!("/v2/app/{CONFIG_SCHEMA}/object/{APP}");
    rig.root("PUT", &entry(X), &json!({"name": "a"}));
    assert_eq!(rig.root("PUT", &schema, &json!({"type": "nothing"})).status, 422, "no schema");
    assert_eq!(
        rig.root("PUT", &schema, &json!({"required": ["size"]})).status,
        409,
        "what is there would not be allowed"
    );
    let strict =
        json!({"type": "object", "required": ["name"], "properties": {"id": {"type": "string", "format": "uuid"}}});
    assert_eq!(rig.root("PUT", &schema, &strict).status, 201);
    for (method, body) in
        [("PUT", json!({})), ("PUT", json!(1)), ("PATCH", json!({"name": null})), ("PATCH", json!({"id": 1}))]
    {
        let reply = rig.root(method, &entry(X), &body);
        assert!(reply.status == 422 && !reply.body.is_empty(), "{method} {body}: {reply:?}");
    }
    assert_eq!(rig.get(ROOT, &entry(X)).json(), json!({"name": "a"}));
    assert_eq!(rig.root("PUT", &format!("/v2/app/{CONFIG_SCHEMA}/object/{REGISTRATION}"), &json!({})).status, 409);
}

#[test]
fn registrations_change_objects_within_bounds() {
    let rig = Rig::new();
    let path = format!("/v2/app/{REGISTRATION}/object/{X}");
    for (patch, status) in [
        (json!({"uuid": Y}), 409),
        (json!({"rank": 1}), 409),
        (json!({"owner": Uuid::random()}), 409),
        (json!({"class": Uuid::random()}), 409),
        (json!({"more": 1}), 422),
        (json!({"owner": Y}), 204),
        (json!({"deleted": true}), 204),
    ] {
        let reply = rig.root("PATCH", &path, &patch);
        assert_eq!(reply.status, status, "{patch}: {reply:?}");
    }
    let now = rig.get(ROOT, &path).json();
    assert_eq!((&now["owner"], &now["deleted"], &now["class"]), (&json!(Y), &json!(true), &json!(CLASS)));
    assert_eq!(rig.ask(ROOT, "DELETE", &path, &[], None).status, 405);
}

/// The search of version 1.
#[test]
fn a_search_gives_objects_or_what_is_asked_for_of_them() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!({"path": "shared/helm", "spec": {"name": "a", "n": 1}, "on": true}));
    rig.root("PUT", &entry(Y), &json!({"path": "cluster/A", "spec": {"name": "b"}, "on": null}));
    rig.root("PUT", &entry(Z), &json!("text"));
    let search = |query: &str| {
        let reply = rig.get(ROOT, &format!("/v1/app/{APP}/search?{query}"));
        assert_eq!(reply.status, 200, "{query}: {reply:?}");
        reply.json()
    };
    for (query, found) in [
        ("path=%22shared/helm%22", json!([X])),
        ("spec.n=1", json!([X])),
        ("spec.n=%221%22", json!([])),
        ("on=true", json!([X])),
        ("on=null", json!([Y])),
        ("on=undefined", json!([Z])),
        ("path=%22shared/helm%22&spec.name=%22b%22", json!([])),
        ("", json!([X, Y, Z])),
        ("@name=spec.name", json!({X.to_string(): {"name": "a"}, Y.to_string(): {"name": "b"}, Z.to_string(): {}})),
        ("on=true&@name=spec.name&@n=spec.n", json!({X.to_string(): {"name": "a", "n": 1}})),
        ("on=null&@on=on", json!({Y.to_string(): {}})),
    ] {
        assert_eq!(search(query), found, "{query}");
    }
    for bad in ["path", "path=x", "path=[1]", "a..b=1", "@uuid=a", "a=%zz", "@x=a&@x=b"] {
        let reply = rig.get(ROOT, &format!("/v1/app/{APP}/search?{bad}"));
        assert!(reply.status == 400 && !reply.body.is_empty(), "{bad}: {reply:?}");
    }
    let of_class = |class: Uuid| rig.get(ROOT, &format!("/v1/app/{APP}/class/{class}/search?on=true")).json();
    assert_eq!((of_class(CLASS), of_class(Uuid::random())), (json!([X]), json!([])));
}

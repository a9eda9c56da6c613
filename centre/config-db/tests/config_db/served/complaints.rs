//! What users of the original complain about, each over real HTTP and a real WebSocket.

use latchkey_config_db::Uuid;
use latchkey_test_support::block_on;
use serde_json::{Value, json};

use crate::served::rig::{APP, ROOT, Rig, X, Y, entry};

fn etag(response: &Value) -> &str {
    response["headers"]["etag"].as_str().unwrap()
}

/// §11.15
#[test]
fn falsy_values_are_values_in_notifications_too() {
    let rig = Rig::new();
    block_on(async {
        let mut socket = rig.socket(ROOT).await;
        let first = socket.watch(X, &format!("v2/app/{APP}/object/{X}")).await;
        assert_eq!(
            (&first["uuid"], &first["status"], &first["response"]["status"]),
            (&json!(X), &json!(201), &json!(404))
        );
        for (number, falsy) in [json!(null), json!(false), json!(0), json!("")].into_iter().enumerate() {
            rig.root("PUT", &entry(X), &falsy);
            let update = socket.update().await;
            let status = if number == 0 { 201 } else { 200 };
            assert_eq!(update["response"]["status"], status, "{update}");
            assert_eq!(update["response"].get("body"), Some(&falsy), "{update}");
        }
    });
}

/// §11.15
#[test]
fn every_update_has_the_etag_that_get_has() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!({"n": 0}));
    let unquoted = || rig.etag(X).trim_matches('"').to_owned();
    block_on(async {
        let (mut watch, mut search) = (rig.socket(ROOT).await, rig.socket(ROOT).await);
        let first = watch.watch(Uuid::random(), &format!("v2/app/{APP}/object/{X}")).await;
        assert_eq!(etag(&first["response"]), unquoted());
        let first = search.search(Uuid::random(), None).await;
        assert_eq!(etag(&first["children"][X.to_string()]), unquoted());
        for n in 1..4 {
            rig.root("PUT", &entry(X), &json!({"n": n}));
            for socket in [&mut watch, &mut search] {
                assert_eq!(etag(&socket.update().await["response"]), unquoted());
            }
        }
    });
}

/// §11.15: in updates of one entry and of a search.
#[test]
fn creation_is_201_and_change_is_200() {
    let rig = Rig::new();
    block_on(async {
        let (mut watch, mut search) = (rig.socket(ROOT).await, rig.socket(ROOT).await);
        watch.watch(Uuid::random(), &format!("v1/app/{APP}/object/{X}")).await;
        search.search(Uuid::random(), None).await;
        for (value, status) in [(Some(1), 201), (Some(2), 200), (None, 404), (Some(2), 201)] {
            match value {
                Some(value) => drop(rig.root("PUT", &entry(X), &json!(value))),
                None => drop(rig.ask(ROOT, "DELETE", &entry(X), &[], None)),
            }
            assert_eq!(watch.update().await["response"]["status"], status);
            let update = search.update().await;
            assert_eq!((&update["response"]["status"], &update["child"]), (&json!(status), &json!(X)));
        }
    });
}

/// §11.15: the original throws.
#[test]
fn a_filter_may_have_arrays() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!({"hosts": ["a", "b"], "n": 1}));
    rig.root("PUT", &entry(Y), &json!("no object"));
    block_on(async {
        let mut socket = rig.socket(ROOT).await;
        let first = socket.search(Uuid::random(), Some(json!({"hosts": ["a", "b"]}))).await;
        assert_eq!(first["status"], 201);
        assert_eq!(first["children"].as_object().unwrap().keys().collect::<Vec<_>>(), [&X.to_string()]);
        rig.root("PUT", &entry(Y), &json!({"hosts": ["a", "b"]}));
        assert_eq!(socket.update().await["child"], json!(Y));
        rig.root("PUT", &entry(X), &json!({"hosts": ["a"]}));
        let left = socket.update().await;
        assert_eq!((&left["child"], &left["response"]["status"]), (&json!(X), &json!(412)));
    });
}

/// §11.15: the original says 400 to the dots and dashes of a JWT.
#[test]
fn a_token_that_looks_like_a_jwt_is_401_and_not_400() {
    let rig = Rig::new();
    block_on(async {
        for (frame, answer) in [("Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln_-x", "401"), ("hello", "400")] {
            let mut socket = rig.open_socket().await;
            socket.say(frame).await;
            assert_eq!(socket.text().await, answer);
            assert_eq!(socket.next_text().await, None, "and it ends");
        }
    });
}

/// §11.16: the original says 304.
#[test]
fn get_with_a_failed_if_match_is_412() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!(1));
    let other = [("If-Match", "\"11111111-1111-4111-8111-111111111111\"")];
    assert_eq!(rig.ask(ROOT, "GET", &entry(X), &other, None).status, 412);
}

/// Upstream #400.
#[test]
fn a_patch_never_destroys_what_it_does_not_name() {
    let rig = Rig::new();
    let whole = json!({"name": "Building_1", "spec": {"values": {"a": 1, "b": [1, 2]}}, "ready": false});
    rig.root("PUT", &entry(X), &whole);
    for (patch, status) in [
        (json!(null), 422),
        (json!([]), 422),
        (json!("x"), 422),
        (json!(0), 422),
        (json!({}), 204),
        (json!({"gone": null}), 204),
        (json!({"spec": {"values": {"z": null}}}), 204),
    ] {
        assert_eq!(rig.root("PATCH", &entry(X), &patch).status, status, "{patch}");
        assert_eq!(rig.get(ROOT, &entry(X)).json(), whole, "{patch}");
    }
    rig.root("PATCH", &entry(X), &json!({"spec": {"values": {"a": 2}}}));
    let expected = json!({"name": "Building_1", "spec": {"values": {"a": 2, "b": [1, 2]}}, "ready": false});
    assert_eq!(rig.get(ROOT, &entry(X)).json(), expected);
    rig.root("PUT", &entry(Y), &json!([1]));
    assert_eq!(rig.root("PATCH", &entry(Y), &json!({"a": 1})).status, 409, "there is nothing to merge into");
    assert_eq!(rig.get(ROOT, &entry(Y)).json(), json!([1]));

    // Many at once, of different keys: none is lost.
    std::thread::scope(|scope| {
        for number in 0..16 {
            let rig = &rig;
            scope.spawn(move || rig.root("PATCH", &entry(X), &json!({"many": {format!("k{number}"): number}})));
        }
    });
    assert_eq!(rig.get(ROOT, &entry(X)).json()["many"].as_object().unwrap().len(), 16);
}

/// Upstream #644: in version 2, too.
#[test]
fn a_search_is_exact() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!({"path": "shared/helm"}));
    rig.root("PUT", &entry(Y), &json!({"path": "shared/helm2", "n": "1"}));
    for version in ["v1", "v2"] {
        let found = |query: &str| rig.get(ROOT, &format!("/{version}/app/{APP}/search?{query}")).json();
        assert_eq!(found("path=%22shared/helm%22"), json!([X]));
        for none in
            ["path=%22shared/%22", "path=%22Shared/helm%22", "path=%22shared%25%22", "n=1", "Path=%22shared/helm%22"]
        {
            assert_eq!(found(none), json!([]), "{none}");
        }
    }
}

//! Change notification over a real WebSocket.

use latchkey_config_db::Uuid;
use latchkey_factory_plus::uuids::permission::READ_CONFIG;
use latchkey_test_support::block_on;
use serde_json::{Value, json};

use crate::served::rig::{APP, CLASS, MANAGER, OTHER, ROOT, Rig, X, Y, entry};

#[test]
fn whoever_loses_the_right_is_told_so_and_nothing_more_until_it_is_back() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!({"n": 0}));
    rig.grant(&[(READ_CONFIG, APP)]);
    block_on(async {
        let mut socket = rig.socket(MANAGER).await;
        let first = socket.watch(X, &format!("v2/app/{APP}/object/{X}")).await;
        assert_eq!((&first["status"], &first["response"]["body"]), (&json!(201), &json!({"n": 0})), "{first}");
        rig.grant(&[]);
        let lost = socket.update().await;
        assert_eq!(lost, json!({"uuid": X, "status": 200, "response": {"status": 403}}));
        rig.root("PUT", &entry(X), &json!({"n": "secret"}));
        rig.root("PUT", &entry(X), &json!({"n": 2}));
        rig.grant(&[(READ_CONFIG, APP)]);
        let back = socket.update().await;
        assert_eq!(back["response"]["body"], json!({"n": 2}), "nothing of what was there in between: {back}");
    });
}

#[test]
fn whoever_may_not_read_is_told_that_at_first() {
    let rig = Rig::with([("nobody@R", [].as_slice())]);
    rig.root("PUT", &entry(X), &json!({"n": 0}));
    block_on(async {
        let mut socket = rig.socket("nobody@R").await;
        let update = socket.watch(X, &format!("v2/app/{APP}/object/{X}")).await;
        assert_eq!(update, json!({"uuid": X, "status": 201, "response": {"status": 403}}));
        let update = socket.search(Y, None).await;
        assert_eq!(update, json!({"uuid": Y, "status": 201, "response": {"status": 403}}));
    });
}

#[test]
fn lists_and_classes_are_told_of_as_get_answers_them() {
    let rig = Rig::new();
    let told = |update: &Value| update["response"]["body"].clone();
    block_on(async {
        for (path, method, change, body) in [
            (format!("v2/app/{APP}/object/"), "PUT", entry(X), Some(json!(1))),
            (format!("v1/app/{APP}/object/"), "DELETE", entry(X), None),
            (
                format!("v2/class/{OTHER}/direct/subclass/"),
                "PUT",
                format!("/v2/class/{OTHER}/direct/subclass/{CLASS}"),
                None,
            ),
            (
                format!("v2/class/{OTHER}/subclass/"),
                "DELETE",
                format!("/v2/class/{OTHER}/direct/subclass/{CLASS}"),
                None,
            ),
            (format!("v2/class/{OTHER}/member/"), "PUT", format!("/v2/class/{OTHER}/direct/subclass/{CLASS}"), None),
            (format!("v2/class/{OTHER}/direct/member/"), "PUT", format!("/v2/class/{OTHER}/direct/member/{X}"), None),
        ] {
            let mut socket = rig.socket(ROOT).await;
            let get = || rig.get(ROOT, &format!("/{}", path.trim_end_matches('/'))).json();
            assert_eq!(told(&socket.watch(Uuid::random(), &path).await), get(), "{path}");
            let before = get();
            let done = rig.ask(ROOT, method, &change, &[], body.as_ref());
            assert!(matches!(done.status, 201 | 204), "{done:?}");
            assert_eq!(told(&socket.update().await), get(), "{path}");
            assert_ne!(before, get(), "{path}");
        }
    });
}

#[test]
fn one_socket_carries_a_thousand_subscriptions_each_by_its_own_name() {
    let rig = Rig::new();
    block_on(async {
        let mut socket = rig.socket(ROOT).await;
        let names: Vec<Uuid> = (0..1024).map(|_| Uuid::random()).collect();
        for name in &names {
            let first = socket.watch(*name, &format!("v2/app/{APP}/object/{X}")).await;
            assert_eq!((&first["uuid"], &first["status"]), (&json!(name), &json!(201)));
        }
        let beyond = socket.watch(Uuid::random(), &format!("v2/app/{APP}/object/{X}")).await;
        assert_eq!(beyond["status"], 503);
        rig.root("PUT", &entry(X), &json!(1));
        let mut told = std::collections::BTreeSet::new();
        for _ in &names {
            let update = socket.update().await;
            assert_eq!(update["response"]["body"], json!(1));
            told.insert(update["uuid"].as_str().unwrap().to_owned());
        }
        assert_eq!(told, names.iter().map(Uuid::to_string).collect());
    });
}

#[test]
fn what_cannot_be_watched_is_404_and_what_is_closed_is_410() {
    let rig = Rig::new();
    block_on(async {
        let mut socket = rig.socket(ROOT).await;
        for path in ["v2/object", "v2/class", "", "v3", &format!("v2/app/{APP}/object"), "v2/app/x/object/"] {
            assert_eq!(socket.watch(X, path).await, json!({"uuid": X, "status": 404}), "{path}");
        }
        socket.say(&json!({"uuid": X, "method": "SHOUT"}).to_string()).await;
        assert_eq!(socket.update().await, json!({"uuid": X, "status": 400}));
        socket.watch(X, &format!("v2/app/{APP}/object/{X}")).await;
        socket.say(&json!({"uuid": X, "method": "CLOSE"}).to_string()).await;
        assert_eq!(socket.update().await, json!({"uuid": X, "status": 410}));
        rig.root("PUT", &entry(X), &json!(1));
        assert_eq!(
            socket.watch(Y, &format!("v2/app/{APP}/object/{X}")).await["uuid"],
            json!(Y),
            "nothing of the closed one"
        );
    });
}

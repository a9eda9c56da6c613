//! Conditional requests: every row, for an entry that is there and for one that is not.

use serde_json::json;

use crate::served::rig::{ROOT, Rig, X, Y, entry};

const OTHER_ETAG: &str = "\"11111111-1111-4111-8111-111111111111\"";

#[test]
fn each_condition_holds_or_fails_as_the_rfc_says() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!({"n": 0}));
    let own = rig.etag(X);
    let (weak, listed) = (format!("W/{own}"), format!("{OTHER_ETAG} , {own}"));
    for (header, value, get, write) in [
        ("If-Match", "*", 200, true),
        ("If-Match", own.as_str(), 200, true),
        ("If-Match", listed.as_str(), 200, true),
        ("If-Match", OTHER_ETAG, 412, false),
        ("If-Match", weak.as_str(), 412, false), // strong comparison
        ("If-None-Match", "*", 304, false),
        ("If-None-Match", own.as_str(), 304, false),
        ("If-None-Match", weak.as_str(), 304, false), // weak comparison
        ("If-None-Match", listed.as_str(), 304, false),
        ("If-None-Match", OTHER_ETAG, 200, true),
    ] {
        for method in ["GET", "HEAD"] {
            let reply = rig.ask(ROOT, method, &entry(X), &[(header, value)], None);
            assert_eq!(reply.status, get, "{method} {header}: {value}");
            assert_eq!(reply.header("etag").is_some(), get != 412, "{method} {header}: {value}");
        }
        // What would change nothing shows whether the condition holds, and the etag stays.
        for (method, body) in [("PUT", json!({"n": 0})), ("PATCH", json!({}))] {
            let reply = rig.ask(ROOT, method, &entry(X), &[(header, value)], Some(&body));
            assert_eq!(reply.status, if write { 204 } else { 412 }, "{method} {header}: {value}");
        }
        if !write {
            assert_eq!(rig.ask(ROOT, "DELETE", &entry(X), &[(header, value)], None).status, 412);
        }
        assert_eq!(rig.etag(X), own);
    }
    assert_eq!(rig.ask(ROOT, "DELETE", &entry(X), &[("If-Match", &own)], None).status, 204);
}

#[test]
fn conditions_of_an_entry_that_is_not_there() {
    let rig = Rig::new();
    for (header, value, get, holds) in [
        ("If-Match", "*", 412, false),
        ("If-Match", OTHER_ETAG, 412, false),
        ("If-None-Match", "*", 404, true),
        ("If-None-Match", OTHER_ETAG, 404, true),
    ] {
        assert_eq!(rig.ask(ROOT, "GET", &entry(Y), &[(header, value)], None).status, get, "{header}: {value}");
        let put = rig.ask(ROOT, "PUT", &entry(Y), &[(header, value)], Some(&json!(1))).status;
        assert_eq!(put, if holds { 201 } else { 412 }, "{header}: {value}");
        if holds {
            assert_eq!(rig.ask(ROOT, "DELETE", &entry(Y), &[], None).status, 204);
        }
        let deleted = rig.ask(ROOT, "DELETE", &entry(Y), &[(header, value)], None).status;
        assert_eq!(deleted, if holds { 404 } else { 412 }, "{header}: {value}");
    }
}

#[test]
fn a_condition_that_is_no_list_of_etags_is_400_and_nothing_is_done() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!(1));
    for header in ["If-Match", "If-None-Match"] {
        for bad in ["x", "\"x", "\"x\",", "*, \"x\""] {
            for (method, body) in [("GET", None), ("PUT", Some(json!(2))), ("PATCH", Some(json!({}))), ("DELETE", None)]
            {
                let reply = rig.ask(ROOT, method, &entry(X), &[(header, bad)], body.as_ref());
                assert!(reply.status == 400 && reply.body.contains(header), "{method} {header}: {bad}: {reply:?}");
            }
        }
    }
    assert_eq!(rig.get(ROOT, &entry(X)).json(), json!(1));
}

#[test]
fn create_only_is_won_by_one() {
    let rig = Rig::new();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let put = |number: i32| {
            let rig = &rig;
            scope.spawn(move || {
                rig.ask(ROOT, "PUT", &entry(X), &[("If-None-Match", "*")], Some(&json!({"number": number}))).status
            })
        };
        let all: Vec<_> = (0..16).map(put).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(201), count(412)), (1, 15), "{statuses:?}");
}

#[test]
fn an_etag_changes_with_the_value_alone() {
    let rig = Rig::new();
    rig.root("PUT", &entry(X), &json!({"a": 1, "b": 2}));
    let first = rig.etag(X);
    assert!(first.len() == 38 && first.starts_with('"'), "strong: {first}");
    rig.ask(ROOT, "PUT", &entry(X), &[], Some(&json!({"b": 2, "a": 1})));
    rig.root("PATCH", &entry(X), &json!({"a": 1, "c": null}));
    assert_eq!(rig.etag(X), first);
    let put = rig.root("PUT", &entry(X), &json!({"a": 2}));
    assert_eq!((put.status, put.header("etag")), (204, None));
    assert_ne!(rig.etag(X), first);
}

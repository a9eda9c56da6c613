//! Who it is, as the contract has it.

use crate::rig;

use crate::rig::{admin, basic, get, rig, rig_with};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn assert_unauthenticated(reply: &rig::Reply) {
    assert_eq!((reply.status, reply.body.len()), (401, 0), "{reply:?}");
    assert_eq!(reply.header("www-authenticate"), Some("Basic realm=\"Factory+\""));
}

#[test]
fn name_and_password_are_good_with_or_without_the_realm() {
    let rig = rig();
    for user in ["admin", "admin@FACTORY.EXAMPLE"] {
        let reply = rig.ask(&get("/who", &basic(user, "sécret:word")));
        assert_eq!((reply.status, &reply.json()["who"]), (200, &json!("admin@FACTORY.EXAMPLE")));
        assert_eq!(reply.json()["id"], reply.header("x-request-id").unwrap());
    }
    let flux = rig.ask(&get("/who", &basic("op1flux/Building_1@FACTORY.EXAMPLE", "pw")));
    assert_eq!(flux.json()["who"], "op1flux/Building_1@FACTORY.EXAMPLE");
    assert_eq!(rig.metric("authenticated_total{means=\"password\"}"), 3);
}

#[test]
fn whatever_is_no_proof_is_answered_alike() {
    let rig = rig();
    let bearer = "Authorization: Bearer ";
    for headers in [
        String::new(),
        basic("admin", "wrong"),
        basic("admin", ""),
        basic("admin@OTHER", "sécret:word"),
        basic("ad min", "x"),
        basic(&"a".repeat(2000), "x"),
        "Authorization: Basic\r\n".to_owned(),
        "Authorization: Basic !!!\r\n".to_owned(),
        "Authorization: Basic YWRtaW4=\r\n".to_owned(),
        "Authorization: Basic /////w==\r\n".to_owned(),
        "Authorization: Digest x\r\n".to_owned(),
        "Authorization: Negotiate\r\n".to_owned(),
        "Authorization: Negotiate !\r\n".to_owned(),
        "Authorization: Negotiate YWJj\r\n".to_owned(),
        format!("{bearer}eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln-_\r\n"),
        format!("{bearer}{}\r\n", "a".repeat(88)),
        format!("{bearer}\r\n"),
        format!("{}{}", admin(), admin()),
    ] {
        assert_unauthenticated(&rig.ask(&get("/who", &headers)));
        assert_unauthenticated(&rig.ask(&get("/ping", &headers)));
    }
    assert_unauthenticated(&rig.ask("POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
}

/// What a page of another site can have a browser send without being asked for leave first: a request without preflight, and
/// whatever the browser itself adds. The method and the body are never looked at.
#[test]
fn what_a_foreign_page_sends_by_itself_is_refused_and_nothing_is_kept_in_the_browser() {
    let rig = rig();
    let cookie = || format!("Cookie: token={0}; Authorization=Bearer%20{0}\r\n", rig.token());
    let foreign = "Origin: https://elsewhere.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";
    let types =
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json"];
    for (path, kind) in ["/upload", "/cat", "/panic", "/token"].iter().flat_map(|path| types.map(|kind| (path, kind))) {
        for more in [String::new(), cookie()] {
            let head = format!("Host: x\r\n{foreign}{more}Content-Type: {kind}\r\nContent-Length: 5\r\n");
            let reply = rig.ask(&format!("POST {path} HTTP/1.1\r\n{head}\r\nhello"));
            assert_unauthenticated(&reply);
            assert_eq!(reply.header("set-cookie"), None);
        }
    }
    // The one that would have panicked never began: with credentials it does.
    assert_eq!(rig.metric("handler_panics_total"), 0);
    let with = |headers: &str| format!("POST /panic HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: 0\r\n\r\n");
    assert_eq!(rig.ask(&with(&admin())).status, 500);
    assert_eq!(rig.metric("handler_panics_total"), 1);
    for reply in [
        rig.ask(&get("/who", &admin())),
        rig.ask(&get("/page", "")),
        rig.ask(&format!("POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n{}\r\n", admin())),
    ] {
        assert_eq!((reply.status, reply.header("set-cookie")), (200, None));
    }
    assert_unauthenticated(&rig.ask(&get("/who", &cookie())));
}

#[test]
fn whoever_asks_without_credentials_first_keeps_the_connection() {
    let rig = rig();
    let mut wire = rig.connect();
    for _ in 0..3 {
        wire.send(get("/who", "").as_bytes());
        assert_unauthenticated(&wire.reply());
        wire.send(get("/who", &admin()).as_bytes());
        assert_eq!(wire.reply().status, 200);
    }
}

#[test]
fn a_ticket_is_taken_in_one_step_and_the_service_proves_itself_in_return() {
    let rig = rig();
    let token = base64(b"admin@FACTORY.EXAMPLE s\xc3\xa9cret:word");
    let reply = rig.ask(&get("/who", &format!("Authorization: Negotiate {token}\r\n")));
    assert_eq!((reply.status, &reply.json()["who"]), (200, &json!("admin@FACTORY.EXAMPLE")));
    assert_eq!(reply.header("www-authenticate"), Some(format!("Negotiate {}", base64(b"mutual")).as_str()));
    let failed = rig.ask(&get("/nothing", &format!("Authorization: negotiate {token}\r\n")));
    assert_eq!(failed.status, 404);
    assert!(failed.header("www-authenticate").is_some(), "clients require it of any answer");
}

#[test]
fn a_token_is_good_until_it_is_revoked() {
    let rig = rig();
    let reply = rig.ask(&format!("POST /token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n{}\r\n", admin()));
    assert_eq!((reply.status, reply.header("cache-control")), (200, Some("no-store")));
    let Value::Object(fields) = reply.json() else { panic!("{reply:?}") };
    // These two, in whatever order this build keeps the fields of a map.
    assert_eq!(fields.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(["expiry", "token"]));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let left = u128::from(fields["expiry"].as_u64().unwrap()) - now;
    assert!((10_700_000..=10_800_000).contains(&left), "three hours: {left}");
    let header = format!("Authorization: Bearer {}\r\n", fields["token"].as_str().unwrap());
    assert_eq!(rig.ask(&get("/who", &header)).json()["who"], "admin@FACTORY.EXAMPLE");
    assert_eq!(rig.ask(&get("/ping", &header)).status, 200);
    rig.tokens.revoke_all();
    assert_unauthenticated(&rig.ask(&get("/who", &header)));
    assert_eq!(rig.ask(&get("/token", &admin())).status, 405);
}

#[test]
fn the_kdc_is_asked_once_in_a_while_and_again_after_a_reload() {
    let rig = rig();
    for _ in 0..5 {
        assert_eq!(rig.ask(&get("/who", &admin())).status, 200);
    }
    assert_eq!(rig.verifier.asked(), 1);
    assert_unauthenticated(&rig.ask(&get("/who", &basic("admin", "sécret:wor"))));
    assert_eq!(rig.verifier.asked(), 2, "another password is another question");
    rig.running.reload();
    latchkey_test_support::until("the reload", || (rig.metric("reloads_total{outcome=\"done\"}") == 1).then_some(()));
    assert_eq!(rig.ask(&get("/who", &admin())).status, 200);
    assert_eq!(rig.verifier.asked(), 3);
    let never = rig_with(json!({}), json!({ "password_seconds": 0 }));
    for _ in 0..3 {
        assert_eq!(never.ask(&get("/who", &admin())).status, 200);
    }
    assert_eq!(never.verifier.asked(), 3);
}

#[test]
fn who_is_wrong_too_often_waits_before_the_kdc_is_asked() {
    let rig = rig_with(json!({}), json!({ "failure_burst": 3, "failures_per_minute": 1 }));
    assert_eq!(rig.ask(&get("/who", &admin())).status, 200);
    for _ in 0..3 {
        assert_unauthenticated(&rig.ask(&get("/who", &basic("admin", "wrong"))));
    }
    let asked = rig.verifier.asked();
    let reply = rig.ask(&get("/who", &basic("admin", "wrong")));
    assert!(reply.status == 429 && reply.text().contains("try again in"), "{reply:?}");
    let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=61).contains(&wait));
    assert_eq!(rig.ask(&get("/who", "Authorization: Negotiate YWJj\r\n")).status, 429);
    assert_eq!(rig.verifier.asked(), asked, "nobody was asked");
    assert_eq!(rig.ask(&get("/who", &admin())).status, 200, "what was good a moment ago needs no attempt");
}

#[test]
fn an_outage_of_the_kdc_is_no_wrong_password() {
    let rig = rig_with(json!({}), json!({ "failure_burst": 2, "failures_per_minute": 1 }));
    for _ in 0..5 {
        let reply = rig.ask(&get("/who", &basic("outage", "x")));
        assert!(reply.status == 503 && !reply.text().contains("KDC"), "{reply:?}");
    }
}

#[test]
fn a_service_says_what_needs_no_authentication() {
    let rig = rig();
    assert_eq!(rig.ask(&get("/open", &basic("admin", "wrong"))).json()["who"], Value::Null);
    assert_eq!(rig.ask(&get("/optional", "")).json()["who"], Value::Null);
    assert_eq!(rig.ask(&get("/optional", &admin())).json()["who"], "admin@FACTORY.EXAMPLE");
    assert_unauthenticated(&rig.ask(&get("/optional", &basic("admin", "wrong"))));
    assert_unauthenticated(&rig.ask(&get("/open/", "")));
    assert_unauthenticated(&rig.ask(&get("/%6fpen", "")));
}

#[test]
fn ping_says_what_runs() {
    let reply = rig().ask(&get("/ping", &admin()));
    let service = latchkey_factory_plus::uuids::service::CONFIG_DB;
    let software = json!({ "vendor": "Latchkey", "application": "sample", "revision": "1" });
    assert_eq!(reply.json(), json!({ "version": "2.0.0", "service": service, "software": software }));
}

fn base64(bytes: &[u8]) -> String {
    use ::base64::Engine as _;
    ::base64::engine::general_purpose::STANDARD.encode(bytes)
}

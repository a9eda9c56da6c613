//! Bootstrap links.

use latchkey_factory_plus::manager::{Link, LinkState, NewLink};
use latchkey_factory_plus_client::{CallError, Precondition};
use latchkey_test_support::block_on;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::served::http::ask;
use crate::served::rig::{ADMIN, NOBODY, Rig};

#[test]
fn a_link_is_made_read_listed_and_revoked() {
    let mut rig = Rig::new();
    let cluster = rig.ready("Nord");
    rig.push(rig.local.helm_charts, "flux-system/flux-system.yaml", "kind: Flux\n");
    let path = format!("v1/cluster/{cluster}/link");
    let (_, made): (_, NewLink) = block_on(rig.service(ADMIN).post(&path, &json!({"lifetime_seconds": 600}))).unwrap();
    let at = made.url.strip_prefix(&format!("http://{}", rig.address())).unwrap().to_owned();
    assert!(at.starts_with("/v1/bootstrap/") && made.command.contains(&made.url));

    let script = ask(rig.address(), "GET", &at, "");
    assert_eq!((script.status, script.header("cache-control")), (200, Some("no-store")));
    assert_eq!(hex::encode(Sha256::digest(&script.body)), made.sha256);
    assert!(made.checked.contains(&made.sha256));
    for part in ["NAME='Nord'", "kind: Flux", "self-link", "image:1"] {
        assert!(script.text().contains(part), "{part}");
    }
    // The same bytes, also after a restart.
    rig.start_manager();
    assert_eq!(ask(rig.address(), "GET", &at, "").body, script.body);

    let list = || block_on(rig.service(ADMIN).read::<Vec<Link>>(&path)).unwrap().unwrap();
    let listed = list();
    assert_eq!(
        (listed.len(), listed[0].id, listed[0].state, listed[0].by.as_str()),
        (1, made.id, LinkState::Valid, ADMIN)
    );
    let uses: Vec<_> = listed[0].uses.iter().map(|used| (used.what.as_str(), used.from.as_str())).collect();
    assert_eq!(uses, [("read", "127.0.0.1"); 2]);

    let link = format!("{path}/{}", made.id);
    assert!(block_on(rig.service(ADMIN).delete(&link, &Precondition::None)).unwrap());
    let revoked = ask(rig.address(), "GET", &at, "");
    assert_eq!((revoked.status, revoked.text().contains("revoked")), (410, true), "{}", revoked.text());
    assert_eq!(list()[0].state, LinkState::Revoked);
    assert_eq!(ask(rig.address(), "GET", &format!("/v1/bootstrap/{}", "A".repeat(43)), "").status, 404);
    assert_eq!(ask(rig.address(), "GET", "/v1/bootstrap/short", "").status, 404);

    // The original's clients ask for a URL; a deletion ends it.
    let (_, url): (_, String) =
        block_on(rig.service(ADMIN).post(&format!("v1/cluster/{cluster}/bootstrap-url"), &json!({}))).unwrap();
    let at = url.strip_prefix(&format!("http://{}", rig.address())).unwrap();
    assert_eq!(ask(rig.address(), "GET", at, "").status, 200);
    rig.delete(cluster);
    rig.until_phase(cluster, latchkey_factory_plus::manager::Phase::Deleted);
    assert_eq!(ask(rig.address(), "GET", at, "").status, 410);
}

#[test]
fn forbidden_not_ready_and_unknown_differ() {
    let rig = Rig::new();
    let cluster = rig.ready("Nord");
    let make =
        |who: &str, path: &str| block_on(rig.service(who).post::<_, serde_json::Value>(path, &json!({}))).unwrap_err();
    let link = format!("v1/cluster/{cluster}/link");
    assert!(matches!(make(NOBODY, &link), CallError::Forbidden { .. }));
    assert!(matches!(make(ADMIN, "v1/cluster/11111111-1111-4111-8111-111111111111/link"), CallError::NotFound(_)));
    rig.delete(cluster);
    rig.until_phase(cluster, latchkey_factory_plus::manager::Phase::Deleted);
    assert!(matches!(make(ADMIN, &link), CallError::Conflict { .. }));
    assert!(matches!(make(ADMIN, &format!("v1/cluster/{cluster}/bootstrap-url")), CallError::NotFound(_)));
    let bad = block_on(rig.service(ADMIN).post::<_, serde_json::Value>(&link, &json!({"lifetime": 1})));
    assert!(matches!(bad, Err(CallError::Refused { status: 400 | 422, .. })), "{bad:?}");
    assert_eq!(ask(rig.address(), "GET", "/v1/cluster", "").status, 401);
    // Who manages no cluster sees none.
    let seen = block_on(rig.service(NOBODY).read::<serde_json::Value>("v1/cluster")).unwrap().unwrap();
    assert_eq!(seen, json!({}));
}

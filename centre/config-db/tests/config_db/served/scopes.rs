//! Rights over single objects: what an edge may say of itself and of nobody else.

use latchkey_config_db::Uuid;
use latchkey_factory_plus::uuids::application::{EDGE_CLUSTER_STATUS, WRITE_SCOPE};
use latchkey_factory_plus::uuids::class::APPLICATION;
use latchkey_factory_plus::uuids::permission::{READ_CONFIG, WRITE_CONFIG, WRITE_EDGE_CLUSTER_STATUS};
use serde_json::json;

use crate::served::rig::{APP, ROOT, Rig, X as A, Y as B, entry};

const EDGE: &str = "op1sync/A@R";
const READER: &str = "reader@R";

fn rig() -> Rig {
    let edge = [(WRITE_EDGE_CLUSTER_STATUS, A), (READ_CONFIG, EDGE_CLUSTER_STATUS)];
    let reader = [(READ_CONFIG, APP)];
    let rig = Rig::with([(EDGE, edge.as_slice()), (READER, &reader)]);
    assert_eq!(rig.root("POST", "/v2/object", &json!({"class": APPLICATION, "uuid": EDGE_CLUSTER_STATUS})).status, 201);
    for cluster in [A, B] {
        assert_eq!(rig.root("PUT", &status(cluster), &json!({"kubeseal_cert": "genuine"})).status, 201);
    }
    rig
}

fn status(cluster: Uuid) -> String {
    format!("/v2/app/{EDGE_CLUSTER_STATUS}/object/{cluster}")
}

fn scope_of_statuses() -> String {
    format!("/v2/app/{WRITE_SCOPE}/object/{EDGE_CLUSTER_STATUS}")
}

#[test]
fn an_edge_writes_the_status_and_certificate_of_its_own_cluster_alone() {
    let rig = rig();
    let own = json!({"kubeseal_cert": "new", "hosts": []});
    assert_eq!(rig.ask(EDGE, "PATCH", &status(A), &[], Some(&own)).status, 403, "not before the application names it");
    assert_eq!(rig.root("PUT", &scope_of_statuses(), &json!(WRITE_EDGE_CLUSTER_STATUS)).status, 201);
    assert_eq!(rig.ask(EDGE, "PATCH", &status(A), &[], Some(&own)).status, 204);
    assert_eq!(rig.ask(EDGE, "PUT", &status(A), &[], Some(&own)).status, 204);
    let forged = json!({"kubeseal_cert": "forged"});
    for (method, body) in [("PATCH", Some(&forged)), ("PUT", Some(&forged)), ("DELETE", None)] {
        for path in [status(B), status(B).replace("v2", "v1"), entry(A), scope_of_statuses()] {
            let reply = rig.ask(EDGE, method, &path, &[], body);
            assert_eq!(reply.status, 403, "{method} {path}: {reply:?}");
        }
    }
    assert_eq!(rig.get(ROOT, &status(B)).json(), json!({"kubeseal_cert": "genuine"}));
    assert_eq!(rig.get(ROOT, &status(A)).json(), own);
}

#[test]
fn a_scope_names_a_permission_and_ends_with_its_entry() {
    let rig = rig();
    for bad in [json!("x"), json!(1), json!({"permission": WRITE_CONFIG}), json!([WRITE_CONFIG])] {
        assert_eq!(rig.root("PUT", &scope_of_statuses(), &bad).status, 422, "{bad}");
    }
    rig.root("PUT", &scope_of_statuses(), &json!(WRITE_EDGE_CLUSTER_STATUS));
    assert_eq!(rig.ask(EDGE, "PATCH", &status(A), &[], Some(&json!({"a": 1}))).status, 204);
    assert_eq!(rig.ask(ROOT, "DELETE", &scope_of_statuses(), &[], None).status, 204);
    assert_eq!(rig.ask(EDGE, "PATCH", &status(A), &[], Some(&json!({"a": 2}))).status, 403);
}

#[test]
fn what_changes_nothing_needs_the_right_to_read_only() {
    let rig = rig();
    rig.root("PUT", &entry(A), &json!({"a": 1}));
    let etag = rig.etag(A);
    for (method, body, status) in [
        ("PUT", json!({"a": 1}), 204),
        ("PATCH", json!({"a": 1}), 204),
        ("PATCH", json!({"b": null}), 204),
        ("PUT", json!({"a": 2}), 403),
        ("PATCH", json!({"a": 2}), 403),
        ("PATCH", json!({"a": null}), 403),
    ] {
        assert_eq!(rig.ask(READER, method, &entry(A), &[], Some(&body)).status, status, "{method} {body}");
    }
    assert_eq!(rig.ask(READER, "PUT", &entry(B), &[], Some(&json!(1))).status, 403, "creation is a change");
    assert_eq!(rig.ask(READER, "DELETE", &entry(A), &[], None).status, 403);
    assert_eq!(rig.etag(A), etag);
    // Who may not read is not told by this whether a guess is right.
    assert_eq!(rig.ask(EDGE, "PUT", &entry(A), &[], Some(&json!({"a": 1}))).status, 403);
}

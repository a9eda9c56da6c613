//! API server and centre that are away, rights that are revoked: said plainly, and back by itself.

use latchkey_api_server_rig::proxy::{Fault, status};
use latchkey_test_support::until;
use serde_json::{Value, json};

use crate::deployed::RELEASES;
use crate::edge::Edge;
use crate::reported::names;

fn errors(status: &Value) -> Vec<String> {
    let errors = status["errors"].as_array().into_iter().flatten();
    errors.map(|error| error.as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn an_api_server_that_is_away_is_told_and_followed_again_when_it_is_back() {
    let mut edge = Edge::start();
    edge.node("a", &json!({}), &json!([]));
    edge.centre.until("a machine", |status| (names(status) == ["a"]).then_some(()));
    edge.server.kill_api();
    let said =
        edge.centre.until("what is wrong", |status| errors(status).into_iter().find(|said| said.contains("nodes")));
    assert!(said.contains("api-server-unreachable"), "{said}");
    assert_eq!(names(&edge.centre.status().unwrap()), ["a"], "what was known holds");
    edge.server.start_api();
    edge.node("b", &json!({}), &json!([]));
    edge.centre.until("both machines and nothing wrong", |status| {
        (names(status) == ["a", "b"] && errors(status).is_empty()).then_some(())
    });
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn an_api_server_and_an_etcd_that_restart_lose_nothing() {
    let mut edge = Edge::start();
    edge.node("a", &json!({}), &json!([]));
    edge.centre.until("a machine", |status| (status["hosts"][0]["ready"] == true).then_some(()));
    let before = edge.centre.status().unwrap()["generation"].as_u64().unwrap();
    edge.server.kill_etcd();
    edge.server.start_etcd();
    edge.server.kill_api();
    edge.server.start_api();
    until("the API server to take a machine", || {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}});
        [201, 409].contains(&edge.admin.post("/api/v1/nodes", &node).status()).then_some(())
    });
    let after = edge.centre.until("the machine that came", |status| (names(status).len() == 2).then(|| status.clone()));
    assert!(after["generation"].as_u64().unwrap() > before);
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn revoked_rights_are_told_by_name_and_all_is_well_when_they_are_back() {
    let edge = Edge::start();
    edge.node("a", &json!({}), &json!([]));
    edge.centre.until("a machine", |status| (names(status) == ["a"]).then_some(()));
    edge.revoke_nodes();
    edge.node("b", &json!({}), &json!([]));
    let said =
        edge.centre.until("what is wrong", |status| errors(status).into_iter().find(|said| said.contains("nodes")));
    assert!(
        said.contains("User \"edge-sync\" cannot list resource \"nodes\"") && said.contains("(api-server-forbids); "),
        "{said}"
    );
    edge.grant_nodes();
    edge.centre.until("both machines and nothing wrong", |status| {
        (names(status) == ["a", "b"] && errors(status).is_empty()).then_some(())
    });
}

#[test]
#[ignore = "needs etcd, etcdctl and kube-apiserver: ./dev e2e api-server"]
fn a_full_etcd_is_told_and_all_is_well_when_it_has_room() {
    let mut edge = Edge::start();
    edge.node("a", &json!({}), &json!([]));
    edge.centre.until("a machine", |status| (names(status) == ["a"]).then_some(()));
    edge.server.fill_etcd();
    let uuid = edge.centre.deploy(&edge.entry(None, &json!({})));
    let full = |status: &Value| errors(status).into_iter().find(|said| said.contains("database space exceeded"));
    let said = edge.centre.until("that etcd is full", full);
    let name = format!("edge-agent-{uuid}");
    assert!(said.contains(&name), "{said}");
    assert_eq!(names(&edge.centre.status().unwrap()), ["a"], "what was known holds");
    edge.server.give_etcd_room();
    until("the release", || edge.object(RELEASES, &name));
    edge.centre.until("nothing wrong", |status| errors(status).is_empty().then_some(()));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_centre_that_is_away_is_told_the_newest_when_it_is_back() {
    let mut edge = Edge::start();
    edge.node("a", &json!({}), &json!([]));
    edge.centre.until("a machine", |status| (names(status) == ["a"]).then_some(()));
    edge.centre.stop_config_db();
    edge.node("b", &json!({}), &json!([]));
    edge.admin.delete("/api/v1/nodes/a", &json!({})).granted();
    edge.centre.start_config_db();
    edge.centre.until("what is so now", |status| (names(status) == ["b"]).then_some(()));
}

#[test]
#[ignore = "needs etcd and kube-apiserver: ./dev e2e api-server"]
fn a_watch_that_the_server_has_forgotten_and_answers_that_are_none_lose_nothing() {
    let mut edge = Edge::new();
    let proxy = edge.proxy();
    edge.start_sync_behind(&proxy);
    edge.node("a", &json!({}), &json!([]));
    edge.centre.until("a machine", |status| (names(status) == ["a"]).then_some(()));
    let half =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4096\r\n\r\n{\"kind\":\"NodeL".to_vec();
    for (number, fault) in [
        Fault::Answer(status(410)),
        Fault::Answer(status(500)),
        Fault::Answer(status(429)),
        Fault::Answer(half),
        Fault::Endless,
    ]
    .into_iter()
    .enumerate()
    {
        proxy.arm(["GET", "/nodes"], fault.clone(), 1);
        proxy.cut();
        let name = format!("n{number}");
        edge.node(&name, &json!({}), &json!([]));
        edge.centre.until(&format!("{name} after {fault:?}"), |status| names(status).contains(&name).then_some(()));
        assert!(!proxy.is_armed(), "it happened");
    }
}

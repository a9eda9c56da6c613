//! A bootstrap's documents, for nodes that run no script.

use latchkey_factory_plus::manager::BootstrapManifests;
use latchkey_factory_plus_client::CallError;
use latchkey_test_support::block_on;
use serde_json::{Value, json};

use crate::served::http::ask;
use crate::served::rig::{ADMIN, NOBODY, Rig};

#[test]
fn the_documents_are_the_scripts_files_and_the_link_of_a_lost_answer_is_over() {
    let rig = Rig::new();
    let cluster = rig.ready("Nord");
    rig.push(rig.local.helm_charts, "flux-system/flux-system.yaml", "kind: Flux\n");
    let path = format!("v1/cluster/{cluster}/manifests");
    let make = |who: &str, body: &Value| {
        let made = block_on(rig.service(who).post::<_, BootstrapManifests>(&path, body));
        made.map(|(_, manifests)| manifests)
    };
    let script = |token: &str| ask(rig.address(), "GET", &format!("/v1/bootstrap/{token}"), "");

    let first = make(ADMIN, &json!({})).unwrap();
    let names: Vec<_> = first.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["namespace.yaml", "edge-bootstrap.yaml", "flux-system.yaml", "self-link.yaml"]);
    assert!(first.files[0].text.contains("fplus-edge") && first.namespace == "fplus-edge");
    // Whose it is: a bootstrap script and a node of another cluster go no further.
    let mark = format!("latchkey.dev/edge-cluster: {cluster}");
    assert!(first.files[0].text.contains(&mark), "{}", first.files[0].text);
    let read = script(&first.token);
    assert_eq!(read.status, 200);
    for file in &first.files[1..] {
        assert!(read.text().contains(&file.text), "{}", file.name);
    }

    let beside = make(ADMIN, &json!({})).unwrap();
    let last = make(ADMIN, &json!({"replaces_own": true})).unwrap();
    let served = [&first, &beside, &last].map(|made| script(&made.token).status);
    assert_eq!(served, [410, 410, 200]);
    assert!(matches!(make(NOBODY, &json!({})), Err(CallError::Forbidden { .. })));
    assert!(make(ADMIN, &json!({"script": true})).is_err());
}

//! ajv, which the original validates with, thinks of schemas and entries as we do.
#![allow(clippy::unwrap_used, reason = "a rig that fails shall fail there")]

use std::fs;
use std::path::Path;

use crate::site::setup;
use latchkey_factory_plus::uuids::application;
use latchkey_test_support::{Npm, output};
use serde_json::{Value, json};

#[test]
fn ajv_takes_the_same_entries_and_refuses_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ajv");
    let Some(npm) = Npm::install(&at, directory.path()) else { return };
    let (setup, _) = setup();
    let chart = "f24d354d-abc1-4e32-98e1-0667b3e40b61";
    let cluster = |name: &str, namespace: &str| json!({"chart": chart, "name": name, "namespace": namespace});
    let bad = json!({
        application::EDGE_CLUSTER_CONFIGURATION.to_string(): [
            cluster("123", "a"), cluster("a b", "a"), cluster("Admin", "a"), cluster("a\n", "a"), cluster("é", "a"),
            cluster("A", "A"), cluster("A", "a; b"), cluster("A", ""), {"name": "A", "namespace": "a"},
        ],
        application::EDGE_CLUSTER_STATUS.to_string(): [{"hosts": [{"hostname": "a"}]}, {"hosts": 1}, 7],
        application::SPARKPLUG_ADDRESS.to_string(): [{}, {"group_id": "a/b"}, {"group_id": "+"}, {"group_id": ""}],
        application::GIT_REPOSITORY_CONFIGURATION.to_string(): [{}, {"path": "../b"}, {"path": "a/b/c"}],
    });
    let dump = json!({
        "configs": setup.config_db.configs, "schemaApplication": application::CONFIG_SCHEMA, "bad": bad,
    });
    let file = directory.path().join("dump.json");
    fs::write(&file, dump.to_string()).unwrap();
    let done = output(npm.node(&at.join("check.mjs")).arg(&file)).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(found["wrong"], json!([]));
    assert!(found["checked"].as_u64().unwrap() > 30, "{found}");
}

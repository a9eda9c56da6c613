//! `@amrc-factoryplus/service-client` 1.6.0 of npm, unmodified.

use std::path::Path;
use std::str;

use latchkey_factory_plus::uuids::{permission, service};
use latchkey_test_support::{Npm, output};
use serde_json::{Value, json};

use crate::served::rig::{ACCOUNT, MANAGER, MANAGER_UUID, PASSWORD, Rig};

fn run(npm: &Npm, rig: &Rig, user: &str, password: &str) -> Value {
    let mut node = npm.node(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/auth/served/client.mjs"));
    node.arg(format!("http://{}", rig.directory.address())).args([user, password]);
    node.args([ACCOUNT, permission::GIT_PULL, MANAGER_UUID, service::GIT].map(|uuid| uuid.to_string()));
    let done = output(&mut node).unwrap();
    let said = str::from_utf8(&done.stdout).unwrap();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_str(said).unwrap()
}

#[test]
fn the_npm_client_works_unmodified() {
    let home = tempfile::tempdir().unwrap();
    let Some(npm) = Npm::service_client(home.path()) else { return };
    let rig = Rig::new();
    let mut seen = run(&npm, &rig, MANAGER, PASSWORD);
    let uuid = seen["uuid"].take();
    let failed = |status: u16| json!({"failed": status});
    let grant = json!({
        "uuid": uuid, "principal": ACCOUNT, "permission": permission::GIT_PULL, "target": MANAGER_UUID, "plural": false,
    });
    let expected = json!({
        "uuid": null,
        "auth ping": service::AUTH,
        "directory ping": service::DIRECTORY,
        "version": true,
        "auth url": format!("http://{}", rig.auth.address()),
        "unknown url": null,
        "whoami": {"kerberos": MANAGER, "uuid": MANAGER_UUID},
        "whoami uuid": MANAGER_UUID,
        "add": null,
        "add again": null,
        "add another": failed(409),
        "identity": "op1flux/North@R",
        "resolve": ACCOUNT,
        "resolve unknown": null,
        "principals": true,
        "grant": true,
        "grant again": true,
        "find": true,
        "read": grant,
        "all": true,
        "allowed": true,
        "allowed by uuid": true,
        "not allowed": false,
        "nobody": false,
        "set": service::GIT,
        "end": true,
        "end again": failed(404),
        "delete": true,
        "delete again": false,
        "auth dump": ACCOUNT,
        "advertise": true,
        "advertised": {"device": "00000000-0000-0000-0000-000000000000", "url": "http://there.example"},
        "advertise another": null,
        "device": null,
        "device address": null,
        "directory dump": "http://elsewhere.example",
    });
    for (step, expected) in expected.as_object().unwrap() {
        assert_eq!(&seen[step], expected, "{step}");
    }
    assert_eq!(seen.as_object().unwrap().len(), expected.as_object().unwrap().len());

    let refused = run(&npm, &rig, MANAGER, "wrong");
    assert!(refused["whoami"]["failed"].is_number(), "{refused}");
}

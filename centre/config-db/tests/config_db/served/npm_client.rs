//! `@amrc-factoryplus/service-client` 1.6.0 of npm, unmodified: all of its interface to the configuration database.

use std::path::Path;
use std::str;
use std::sync::Arc;

use latchkey_directory::advertised::{Advertised, Services};
use latchkey_directory::keeper::Keeper;
use latchkey_directory::server::{Asking, Callers, Held, Rules, server};
use latchkey_factory_plus::uuids::{service, special};
use latchkey_factory_plus_server::testing::FakeVerifier;
use latchkey_factory_plus_server::{Authenticated, Nothing, Running};
use latchkey_test_support::{Npm, output};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::rig::{APP, CLASS, MANAGER, OTHER, PASSWORD, ROOT, Rig, X, Y, Z, loopback, realm};
use latchkey_config_db::Uuid;

const NOTHING: Uuid = Uuid::constant("00000000-0000-4000-8000-0000000000ff");

/// Lists of a directory in which nobody writes.
struct FakeLists;

impl Callers for FakeLists {
    fn held<'a>(&'a self, _: &'a Authenticated) -> Asking<'a> {
        Box::pin(async { Ok(Held::default()) })
    }
}

/// A directory that says where the database is.
fn directory(rig: &Rig, folder: &TempDir) -> Running {
    let url = format!("http://{}", rig.address()).parse().unwrap();
    let services = Services::new([(service::CONFIG_DB, Advertised { url, device: special::WILDCARD })]);
    let keeper = Keeper::open(&folder.path().join("directory"), services).unwrap();
    let verifier = Arc::new(FakeVerifier::of([ROOT, MANAGER].map(|name| (name, PASSWORD))));
    let of = (keeper, Rules::default(), Arc::new(FakeLists) as _);
    server(&loopback(), realm(), verifier, of).unwrap().start(Arc::new(Nothing), Arc::new(Nothing)).unwrap()
}

fn run(npm: &Npm, directory: &Running, user: &str, password: &str) -> Value {
    let mut node = npm.node(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config_db/served/client.mjs"));
    node.arg(format!("http://{}", directory.address())).args([user, password]);
    node.args([CLASS, OTHER, APP, X, Y, Z, NOTHING].map(|uuid| uuid.to_string()));
    let done = output(&mut node).unwrap();
    let said = str::from_utf8(&done.stdout).unwrap();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_str(said).unwrap()
}

fn failed(status: u16) -> Value {
    json!({"failed": status})
}

fn entries() -> Value {
    let patched = json!({"name": "North", "hosts": ["a", "b"], "spec": {"a": 1}});
    let south = json!({"name": "South", "path": "a/b"});
    json!({
        "ping": service::CONFIG_DB,
        "version": true,
        "nothing yet": null,
        "nothing and no etag": [],
        "no etag yet": null,
        "put": "done",
        "put again": "done",
        "get": {"name": "North", "hosts": ["a", "b"], "n": 1},
        "etag": true,
        "put changes the etag": true,
        "put of no application": failed(404),
        "put 0": true,
        "put false": true,
        "put \"\"": true,
        "put null": true,
        "patch of no object": failed(409),
        "patch": patched,
        "patch that creates": "done",
        "another patch": {"failed": "ConfigDB: Only merge-patch supported"},
        "list": [X, Y, Z],
        "list of no application": null,
        "all": {X.to_string(): patched, Y.to_string(): null, Z.to_string(): south},
        "delete": "done",
        "delete again": failed(404),
        "search": [X],
        "search by class": [Z],
        "search by another class": [],
        "search with results": {Z.to_string(): {"where": "a/b"}},
        "search for what is deep": [X],
        "search by no path": failed(400),
        "resolve": X,
        "resolve none": null,
        "resolve two": true,
    })
}

fn objects_and_classes() -> Value {
    json!({
        "create": 36,
        "create by uuid": true,
        "create exclusively": true,
        "create of no class": failed(409),
        "mark deleted": true,
        "create what is deleted": false,
        "delete object": "done",
        "delete object again": failed(404),
        "delete what is in use": failed(409),
        "members": [X, Y, Z],
        "direct members": [X, Y, Z],
        "members of no class": failed(404),
        "add member": "done",
        "add member again": "done",
        "has member": true,
        "has direct member": true,
        "has no member": false,
        "has no direct member": false,
        "add subclass": "done",
        "subclasses": [OTHER],
        "direct subclasses": [OTHER],
        "has subclass": true,
        "has direct subclass": true,
        "has no subclass": false,
        "has no direct subclass": false,
        "remove subclass": "done",
        "subclass is gone": false,
        "remove member": "done",
        "member is gone": false,
        "remove from its primary class": failed(409),
        "add member of no class": failed(404),
        "dump": [{"loaded": true}, {"name": "loaded"}],
        "dump of another service": failed(422),
        "websocket": [201, 200, 200, "changed", 410],
    })
}

#[test]
fn all_that_the_npm_client_has_works_unmodified() {
    let home = tempfile::tempdir().unwrap();
    let Some(npm) = Npm::service_client(&home.path().join("npm")) else { return };
    let rig = Rig::new();
    let directory = directory(&rig, &home);
    let seen = run(&npm, &directory, ROOT, PASSWORD);
    let (entries, others) = (entries(), objects_and_classes());
    let expected = entries.as_object().unwrap().iter().chain(others.as_object().unwrap());
    for (step, expected) in expected.clone() {
        assert_eq!(&seen[step], expected, "{step}: {seen:#}");
    }
    let without = seen["watcher"]["failed"].as_str().unwrap();
    assert!(without.contains("Cannot find package"), "{without}");
    assert_eq!(seen.as_object().unwrap().len(), expected.count() + 1);

    // One without rights.
    let refused = run(&npm, &directory, MANAGER, PASSWORD);
    for step in ["nothing yet", "put", "patch", "list", "delete", "create", "members", "add member", "dump", "search"] {
        assert_eq!(refused[step], failed(403), "{step}: {refused:#}");
    }
}

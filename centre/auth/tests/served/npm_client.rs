//! `@amrc-factoryplus/service-client` 1.6.0 of npm, unmodified.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, str};

use latchkey_factory_plus::uuids::{permission, service};
use latchkey_test_support::{output, output_within, skip};
use serde_json::{Value, json};

use crate::rig::{ACCOUNT, MANAGER, MANAGER_UUID, PASSWORD, Rig};

/// It loads packages from the registry, or from npm's cache.
const INSTALLING: Duration = Duration::from_mins(5);

/// A folder with the client as the lock names it; none, where there is no npm.
fn installed(home: &Path) -> Option<PathBuf> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/npm");
    for file in ["package.json", "package-lock.json", "client.mjs"] {
        fs::copy(from.join(file), home.join(file)).unwrap();
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(home);
    match output_within(INSTALLING, &mut npm) {
        Err(error) => skip(format_args!("npm cannot be run ({error}); install node and npm")),
        Ok(done) if !done.status.success() => {
            skip(format_args!("npm ci failed: {}", String::from_utf8_lossy(&done.stderr)));
        }
        Ok(_) => return Some(home.to_path_buf()),
    }
    None
}

fn run(home: &Path, rig: &Rig, user: &str, password: &str) -> Value {
    let mut node = Command::new("node");
    node.current_dir(home).arg("client.mjs").arg(format!("http://{}", rig.directory.address()));
    node.args([user, password]);
    node.args([ACCOUNT, permission::GIT_PULL, MANAGER_UUID, service::GIT].map(|uuid| uuid.to_string()));
    let done = output(&mut node).unwrap();
    let said = str::from_utf8(&done.stdout).unwrap();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_str(said).unwrap()
}

#[test]
fn the_npm_client_works_unmodified() {
    let home = tempfile::tempdir().unwrap();
    let Some(home) = installed(home.path()) else { return };
    let rig = Rig::new();
    let mut seen = run(&home, &rig, MANAGER, PASSWORD);
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

    let refused = run(&home, &rig, MANAGER, "wrong");
    assert!(refused["whoami"]["failed"].is_number(), "{refused}");
}

//! isomorphic-git, the git of JavaScript programs, against the server.

mod rig;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use latchkey_test_support::{output, output_within, skip};
use rig::{FLUX, MANAGER, NORD, PASSWORD, Rig, fail, host, is_sound, succeed};
use serde_json::json;

/// It loads some packages from the registry, or from npm's cache.
const INSTALLING: Duration = Duration::from_mins(5);

/// Installs what the lock names into `directory`; whether it could.
fn install(directory: &Path) -> bool {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isomorphic");
    for file in ["package.json", "package-lock.json", "client.mjs"] {
        fs::copy(from.join(file), directory.join(file)).expect("a copy");
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(directory);
    match output_within(INSTALLING, &mut npm) {
        Err(error) => skip(format_args!("npm cannot be run ({error}); install node and npm")),
        Ok(done) if !done.status.success() => {
            skip(format_args!("npm ci failed: {}", String::from_utf8_lossy(&done.stderr)));
        }
        Ok(_) => return true,
    }
    false
}

#[test]
fn isomorphic_git_clones_and_pushes_with_basic_credentials() {
    let rig = Rig::new();
    if !install(rig.directory.path()) {
        return;
    }
    let url = format!("{}/uuid/{NORD}", host(rig.front.address()));
    let run = |user: &str, copy: &str| {
        fs::create_dir(rig.path(copy)).unwrap();
        let mut node = Command::new("node");
        node.arg("client.mjs").args([&url, user, PASSWORD, copy]).current_dir(rig.directory.path());
        output(&mut node).unwrap()
    };
    let commit = succeed(run(MANAGER, "one"));
    assert_eq!(rig.page("GET", MANAGER, &format!("/v1/status/{NORD}")), (200, json!({"main": commit})));
    is_sound(&rig.stored(NORD));
    fail(run(FLUX, "two"));
    fail(run("nobody", "three"));
}

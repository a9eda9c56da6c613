//! isomorphic-git, the git of JavaScript programs, against the server.

use std::fs;
use std::path::Path;

use crate::rig::{FLUX, MANAGER, NORD, PASSWORD, Rig, fail, host, is_sound, succeed};
use latchkey_test_support::{Npm, output};
use serde_json::json;

#[test]
fn isomorphic_git_clones_and_pushes_with_basic_credentials() {
    let rig = Rig::new();
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isomorphic");
    let Some(npm) = Npm::install(&at, rig.directory.path()) else { return };
    let url = format!("{}/uuid/{NORD}", host(rig.front.address()));
    let run = |user: &str, copy: &str| {
        fs::create_dir(rig.path(copy)).unwrap();
        output(npm.node(&at.join("client.mjs")).args([&url, user, PASSWORD, copy])).unwrap()
    };
    let commit = succeed(run(MANAGER, "one"));
    assert_eq!(rig.page("GET", MANAGER, &format!("/v1/status/{NORD}")), (200, json!({"main": commit})));
    is_sound(&rig.stored(NORD));
    fail(run(FLUX, "two"));
    fail(run("nobody", "three"));
}

//! Where the programs are.

use std::env::var_os;
use std::path::{Path, PathBuf};

use latchkey_test_support::skip;

/// The release of Kubernetes that `qemu-tests/kubernetes/kubernetes/go.mod` pins.
pub const VERSION: &str = "v1.34.4";

/// The path of a program of this release, in the cache that `qemu-tests/kubernetes/build` fills.
///
/// # Panics
/// If it is not there: says how to build it.
pub fn program(name: &str) -> PathBuf {
    let path = path(name);
    assert!(path.is_file(), "{}", how_to_build(&path, name));
    path
}

/// Whether there is all that an [`ApiServer`](crate::ApiServer) is made of, for tests that are run everywhere. Where not, a skip
/// says so.
#[track_caller]
pub fn is_built_or_skip() -> bool {
    let missing = ["etcd", "kube-apiserver"].into_iter().find(|name| !path(name).is_file());
    if let Some(name) = missing {
        skip(how_to_build(&path(name), name));
    }
    missing.is_none()
}

fn how_to_build(path: &Path, name: &str) -> String {
    format!("{} is missing: with Go 1.24 or newer, qemu-tests/kubernetes/build {name}", path.display())
}

fn path(name: &str) -> PathBuf {
    let home = || var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from).or_else(home);
    cache.expect("HOME or XDG_CACHE_HOME").join("latchkey/kubernetes").join(VERSION).join(name)
}

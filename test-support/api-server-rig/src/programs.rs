//! Where the programs are.

use std::env::var_os;
use std::path::PathBuf;

/// The release of Kubernetes that `qemu-tests/kubernetes/kubernetes/go.mod` pins.
pub const VERSION: &str = "v1.34.4";

/// The path of a program of this release, in the cache that `qemu-tests/kubernetes/build` fills.
///
/// # Panics
/// If it is not there: says how to build it.
pub fn program(name: &str) -> PathBuf {
    let home = || var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from).or_else(home);
    let path = cache.expect("HOME or XDG_CACHE_HOME").join("latchkey/kubernetes").join(VERSION).join(name);
    assert!(path.is_file(), "{} is missing: with Go 1.24 or newer, qemu-tests/kubernetes/build {name}", path.display());
    path
}

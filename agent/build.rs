//! How the agent that ships is linked: without unwind tables (it aborts on a panic, so nothing could read these 270 KB), and by the
//! compiler's own linker, which keeps one of functions that are the same (24 KB).

use std::env::var;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=no-unwind-tables.ld");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    // Only for the target whose start files do not need the tables, and only in the profile that ships: it is the one that
    // aborts (cargo does not tell a build script so) and that is optimised for size.
    if is("CARGO_CFG_TARGET_ENV", "musl")
        && is("OPT_LEVEL", "z")
        && let Ok(here) = var("CARGO_MANIFEST_DIR")
    {
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{here}/no-unwind-tables.ld");
        if let Some(linker) = own_linker() {
            println!("cargo:rustc-link-arg-bins=-fuse-ld=lld");
            println!("cargo:rustc-link-arg-bins=-B{}", linker.display());
            // Nothing here compares addresses of functions.
            println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
        }
    }
}

/// Where the compiler brings its linker for gcc to find, if it brings one: rustup's do.
fn own_linker() -> Option<PathBuf> {
    let sysroot = Command::new(var("RUSTC").ok()?).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(sysroot.stdout).ok()?;
    let directory = Path::new(sysroot.trim()).join("lib/rustlib").join(var("HOST").ok()?).join("bin/gcc-ld");
    directory.join("ld.lld").exists().then_some(directory)
}

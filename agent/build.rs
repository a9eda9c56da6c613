//! Leaves the unwind tables out of the agent that ships: it aborts on a panic, so nothing could read these 270 KB.

use std::env::var;

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
    }
}

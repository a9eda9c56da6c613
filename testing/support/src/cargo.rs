//! Building programs while tests run.

use std::ffi::OsStr;
use std::process::Command;

/// The cargo that runs the tests.
pub fn cargo() -> Command {
    calls_cargo(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A program that calls cargo. What cargo told *this* program about its package would make build scripts run again (ring's looks at
/// it), and with them all that stands on what they build: it is not passed on.
pub fn calls_cargo(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let about_us = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(about_us)) {
        command.env_remove(name);
    }
    command
}

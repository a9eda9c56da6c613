//! Building programs while tests run.

use std::process::Command;

/// The cargo that runs the tests. What it told *this* program about its package would make build scripts run again (ring's looks at
/// it), and with them all that stands on what they build: it is not passed on.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let about_us = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(about_us)) {
        cargo.env_remove(name);
    }
    cargo
}

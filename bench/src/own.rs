//! The benchmarks of the crates.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use latchkey_bench::Figure;

use crate::outcome::Outcome;

/// Package and benchmark, from the bottom of the house to its top.
const BENCHMARKS: [(&str, &str); 7] = [
    ("latchkey-attestation", "appraise"),
    ("latchkey-channel", "handshake"),
    ("latchkey-api", "calls"),
    ("latchkey-disk", "unlock"),
    ("latchkey-measurements", "launch"),
    ("latchkey-join-service", "tickets"),
    ("latchkey-qemu-tests", "boot"),
];

/// Builds all, then runs one after the other. One that fails is named, and the others still run.
pub(crate) fn run(sources: &Path, outcome: &mut Outcome) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(sources).args(["bench", "--quiet", "--no-fail-fast"]);
    for (package, benchmark) in BENCHMARKS {
        cargo.args(["--package", package, "--bench", benchmark]);
    }
    let mut cargo = cargo.args(["--", "--json"]).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let lines = cargo.stdout.take().ok_or("no output of cargo")?;
    for line in BufReader::new(lines).lines() {
        let line = line.map_err(|error| error.to_string())?;
        outcome.figures.extend(Figure::from_line(&line));
    }
    let status = cargo.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        outcome.skip("some of our own benchmarks", "they failed: see above");
    }
    Ok(())
}

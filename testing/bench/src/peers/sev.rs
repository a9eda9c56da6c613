//! Crate sev verifies the report that our own benchmark verifies, with each of its back-ends.

use std::path::Path;
use std::time::Duration;

use latchkey_bench::Figure;
use latchkey_test_support::cargo;

use crate::child;
use crate::outcome::Outcome;

/// Features of `testing/bench/peers/sev`, and what figures call them.
const BACK_ENDS: [(&str, &str); 2] = [("openssl", "OpenSSL"), ("rustcrypto", "RustCrypto")];

/// Builds both, in a workspace of their own, and measures them.
pub(crate) fn run(sources: &Path, target: &Path, outcome: &mut Outcome) {
    for (feature, name) in BACK_ENDS {
        let id = format!("sev-{feature}/snp-report");
        let what = format!("sev with {name}: SNP report and chain, no revocation list");
        outcome.take(&id, measured(sources, target, feature, [&id, &what]));
    }
}

fn measured(sources: &Path, target: &Path, feature: &str, words: [&String; 2]) -> Result<Vec<Figure>, String> {
    let mut cargo = cargo();
    cargo.args(["run", "--quiet", "--release", "--locked", "--features", feature, "--manifest-path"]);
    cargo
        .arg(sources.join("testing/bench/peers/sev/Cargo.toml"))
        .arg("--target-dir")
        .arg(target.join("bench-peers-sev"));
    cargo.arg("--").arg(sources.join("crates/attestation/tests/fixtures/snp-milan")).args(words).arg("--json");
    let mut figures = Vec::new();
    let status = child::run(&mut cargo, BUILD, |line| figures.extend(Figure::from_line(line)))?;
    if status.success() { Ok(figures) } else { Err("it cannot be built or run: see above".to_owned()) }
}

/// Downloading and compiling it; it measures for seconds.
const BUILD: Duration = Duration::from_mins(30);

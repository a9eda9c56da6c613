//! sev-snp-measure and snpguest predict the launch digest of the file that our own benchmarks take.

use std::path::Path;
use std::process::{Command, Stdio};

use latchkey_bench::Bench;

use super::python::Python;
use crate::outcome::Outcome;

/// As in `measurements/benches/sample/mod.rs`.
const FIRMWARE: &str = "/usr/share/ovmf/OVMF.fd";

/// Measures both; sev-snp-measure as a function and as a process.
pub(crate) fn run(python: Option<&Python>, outcome: &mut Outcome) {
    if let Some(python) = python {
        let (id, what) = ("sev-snp-measure/launch-digest", "sev-snp-measure: launch digest, the same file");
        let arguments = [FIRMWARE, "4", id, what].map(AsRef::as_ref);
        outcome.take(id, python.run("snp_measure.py", &arguments));
        let what = "sev-snp-measure: launch digest only (process)";
        let arguments = ["--mode", "snp", "--vcpus", "4", "--vcpu-type", "EPYC-Milan", "--ovmf", FIRMWARE];
        process("sev-snp-measure/process", what, &python.installed("sev-snp-measure"), &arguments, outcome);
    }
    // Debian has no package of it, and building it takes minutes: it is taken when it is there.
    let what = "snpguest: launch digest only (process)";
    let arguments = ["generate", "measurement", "--vcpus", "4", "--vcpu-type", "epyc-milan", "--ovmf", FIRMWARE];
    process("snpguest/launch-digest", what, Path::new("snpguest"), &arguments, outcome);
}

fn process(id: &str, what: &str, program: &Path, arguments: &[&str], outcome: &mut Outcome) {
    let digest = || {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("it failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
    };
    match digest() {
        Ok(()) => outcome.figures.push(Bench::quiet().measure_process(id, what, digest)),
        Err(why) => outcome.skip(id, why),
    }
}

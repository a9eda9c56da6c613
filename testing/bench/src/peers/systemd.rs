//! systemd-measure calculates PCR 11 of the parts that our own benchmark makes an image of.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use latchkey_bench::Bench;

use crate::outcome::Outcome;

const PROGRAM: &str = "/lib/systemd/systemd-measure";
/// Sizes as in `measurements/benches/launch.rs`.
const PARTS: [(&str, usize); 4] = [("linux", 14_283_000), ("initrd", 3_500_000), ("cmdline", 28), ("osrel", 8)];

/// Measures it; it predicts one register of the six.
pub(crate) fn run(outcome: &mut Outcome) {
    let (id, what) = ("systemd-measure/pcr-11", "systemd-measure: PCR 11 only, the same sizes, files (process)");
    let prepared = tempfile::tempdir().map_err(|error| error.to_string()).and_then(|directory| {
        for (name, size) in PARTS {
            let noise: Vec<u8> = (0..size).map(|at| u8::try_from(at * 31 % 251).unwrap_or(0)).collect();
            fs::write(directory.path().join(name), noise).map_err(|error| error.to_string())?;
        }
        calculate(directory.path()).map(|()| directory)
    });
    match prepared {
        Ok(directory) => outcome.figures.push(Bench::quiet().measure_process(id, what, || calculate(directory.path()))),
        Err(why) => outcome.skip(id, why),
    }
}

fn calculate(directory: &Path) -> Result<(), String> {
    let mut command = Command::new(PROGRAM);
    command.args(["calculate", "--bank=sha256", "--phase="]);
    command.args(PARTS.map(|(name, _)| format!("--{name}={}", directory.join(name).display())));
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{PROGRAM}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("systemd-measure failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

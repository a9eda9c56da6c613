//! What in-toto's own package says of the provenance in a manifest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use latchkey_test_support::{output_within, skip};

const REQUIREMENT: &str = "in-toto-attestation==0.9.3";
/// A package index that answers slowly is waited for this long.
const INSTALLING: Duration = Duration::from_mins(5);

/// An interpreter that has the package, or `None`, said on stderr, where there is no Python 3 or no package index.
fn interpreter() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-in-toto-attestation-0.9.3");
    let (python, complete) = (directory.join("bin/python"), directory.join("complete"));
    if complete.exists() {
        return Some(python);
    }
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT];
    for command in
        [Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory), Command::new(&python).args(install)]
    {
        let output = output_within(INSTALLING, command);
        if !output.as_ref().is_ok_and(|output| output.status.success()) {
            skip(format_args!("in-toto's package cannot be asked: {command:?}: {output:?}"));
            return None;
        }
    }
    fs::write(complete, REQUIREMENT).unwrap();
    Some(python)
}

/// Panics if the package does not take the provenance of an image in this manifest.
pub(crate) fn validates(manifest: &Path) {
    let Some(python) = interpreter() else { return };
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/in_toto.py")).arg(manifest);
    let output = latchkey_test_support::output(&mut command).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("dependencies, built by"), "{output:?}");
}

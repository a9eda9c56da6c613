//! Python with grpcio, in a virtual environment below the target directory.

use super::pki::Identity;
use serde_json::Value;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Made once and kept: wheels for grpcio are large.
const REQUIREMENT: &str = "grpcio==1.85.1";

/// The interpreter, or `None`, said on stderr, where there is no Python 3.
pub fn interpreter() -> Option<&'static Path> {
    static INTERPRETER: OnceLock<Option<PathBuf>> = OnceLock::new();
    INTERPRETER.get_or_init(prepare).as_deref()
}

fn prepare() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-grpcio-1.85.1");
    let python = directory.join("bin/python");
    let complete = directory.join("complete");
    if !complete.exists() {
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT];
        let made = run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))
            .and_then(|()| run(Command::new(&python).args(install)));
        if let Err(why) = made {
            latchkey_test_support::skip(format_args!(
                "no python3 with venv and pip, or no package index, for {REQUIREMENT}: {why}"
            ));
            return None;
        }
        std::fs::write(complete, REQUIREMENT).unwrap();
    }
    Some(python)
}

/// What it says if it fails.
fn run(command: &mut Command) -> Result<(), String> {
    // The package may come over a slow network.
    let output =
        latchkey_test_support::output_within(Duration::from_mins(10), command).map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Makes the calls over one channel; one result for each.
pub fn call(python: &Path, address: SocketAddr, ca: &Path, identity: Option<&Identity>, calls: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/client.py");
    let mut command = Command::new(python);
    command.arg(script).arg(address.to_string()).arg(ca).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(Identity { certificate, key }) = identity {
        command.arg(certificate).arg(key);
    }
    let mut child = command.spawn().unwrap();
    let mut lines = child.stdin.take().unwrap();
    for call in calls {
        writeln!(lines, "{call}").unwrap();
    }
    drop(lines);
    let output = latchkey_test_support::finish("client.py", child);
    assert!(output.status.success());
    let results = String::from_utf8(output.stdout).unwrap();
    results.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

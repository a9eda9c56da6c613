//! Python with grpcio, in a virtual environment below the target folder.

use super::pki::Identity;
use serde_json::Value;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Made once and kept: wheels for grpcio are large.
const REQUIREMENT: &str = "grpcio==1.85.1";

/// The interpreter, or `None`, said on stderr, where there is no Python 3.
pub fn interpreter() -> Option<&'static Path> {
    static INTERPRETER: OnceLock<Option<PathBuf>> = OnceLock::new();
    INTERPRETER.get_or_init(prepare).as_deref()
}

fn prepare() -> Option<PathBuf> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no python3 here, so Google's gRPC client cannot be tried");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-grpcio-1.85.1");
    let python = folder.join("bin/python");
    let complete = folder.join("complete");
    if !complete.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
        run(Command::new(&python).args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            REQUIREMENT,
        ]));
        std::fs::write(complete, REQUIREMENT).unwrap();
    }
    Some(python)
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
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
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let results = String::from_utf8(output.stdout).unwrap();
    results.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

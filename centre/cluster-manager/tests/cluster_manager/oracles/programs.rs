//! node with the packages of `tests/npm`, a Python with `PyYAML`, and kubeseal, beside the build's other files.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use latchkey_test_support::Npm;
use serde_json::Value;

/// What `go install` gets; its checksums are in Go's public log.
const KUBESEAL: &str = "github.com/bitnami-labs/sealed-secrets/cmd/kubeseal@v0.27.1";
const PYYAML: &str = "PyYAML==6.0.3";

/// What a script of `tests/npm` says to `input`; `None`, and a line that says so, where there is no node or no
/// package index.
pub(crate) fn node(script: &str, input: &Value) -> Option<Value> {
    let packages =
        prepared("npm", "no node with npm, or no package index, for what package-lock.json names", |home| {
            run(Command::new("node").arg("--version")) && Npm::install(&scripts(), home).is_some()
        })?;
    let mut command = Command::new("node");
    command.arg(scripts().join(script)).env("NODE_PATH", packages.join("node_modules"));
    Some(asked(&mut command, input))
}

/// What a script in Python says to `input`, on the same terms.
pub(crate) fn python(script: &str, input: &Value) -> Option<Value> {
    let environment = prepared("pyyaml", "no python3 with venv and pip, or no package index, for PyYAML", |home| {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(home))
            && run(Command::new(home.join("bin/python")).args(["-m", "pip", "install", "--quiet", PYYAML]))
    })?;
    Some(asked(Command::new(environment.join("bin/python")).args(["-c", script]), input))
}

/// The Secret that kubeseal recovers of a `SealedSecret`, on the same terms; the key is PKCS#8 PEM.
pub(crate) fn kubeseal(key: &str, manifest: &str) -> Option<Value> {
    let home = prepared("kubeseal", "no go, or no module proxy, for kubeseal: apt-get install golang-go", |home| {
        run(Command::new("go")
            .args(["install", KUBESEAL])
            .env("GOBIN", home)
            .env("GOFLAGS", "-mod=mod")
            .current_dir("/"))
    })?;
    let files = tempfile::tempdir().unwrap();
    let (key_file, manifest_file) = (files.path().join("key.pem"), files.path().join("sealed.yaml"));
    fs::write(&key_file, key).unwrap();
    fs::write(&manifest_file, manifest).unwrap();
    let mut command = Command::new(home.join("kubeseal"));
    command.args(["--recovery-unseal", "-o", "json", "--recovery-private-key"]).arg(&key_file);
    let output = latchkey_test_support::output(command.arg("-f").arg(&manifest_file)).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// A directory that `make` filled once.
fn prepared(name: &str, missing: &str, make: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Tests run at the same time; one of them makes it.
    let lock = File::create(target.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let home = target.join(name);
    let ready = home.join("ready");
    if !ready.exists() {
        if !make(&home) {
            latchkey_test_support::skip(missing);
            return None;
        }
        fs::write(ready, []).unwrap();
    }
    Some(home)
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/npm")
}

fn run(command: &mut Command) -> bool {
    // Packages may come over a slow network.
    latchkey_test_support::status_within(Duration::from_mins(10), command).is_ok_and(|status| status.success())
}

/// Runs a script with a file of `input` as its argument, and reads what it says.
fn asked(command: &mut Command, input: &Value) -> Value {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(input.to_string().as_bytes()).unwrap();
    let output = latchkey_test_support::output(command.arg(file.path())).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

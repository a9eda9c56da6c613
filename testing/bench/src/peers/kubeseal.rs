//! kubeseal seals the secret that our own benchmark seals.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use latchkey_bench::Bench;

use crate::child;
use crate::outcome::Outcome;

/// What `go install` gets; its checksums are in Go's public log.
const MODULE: &str = "github.com/bitnami-labs/sealed-secrets/cmd/kubeseal@v0.27.1";
const BUILD: Duration = Duration::from_mins(30);
const SECRET: &str = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plc", "namespace": "fplus-edge"},
    "stringData": {"password": "a secret of the plant"}}"#;

/// Measures it, as the process that it is.
pub(crate) fn run(target: &Path, outcome: &mut Outcome) {
    let (id, what) = ("kubeseal/seal", "kubeseal: a secret sealed, from files (process)");
    let home = target.join("kubeseal");
    let prepared = installed(&home).and_then(|()| {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        fs::write(directory.path().join("secret.json"), SECRET).map_err(|error| error.to_string())?;
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "rsa:4096", "-nodes", "-days", "30", "-subj", "/CN=sealed"]);
        openssl.args(["-keyout", "key.pem", "-out", "certificate.pem"]);
        ended("openssl", openssl.current_dir(directory.path()))?;
        sealed(&home, directory.path()).map(|()| directory)
    });
    match prepared {
        Ok(directory) => {
            outcome.figures.push(Bench::quiet().measure_process(id, what, || sealed(&home, directory.path())));
        }
        Err(why) => outcome.skip(id, why),
    }
}

/// Go builds it once.
fn installed(home: &Path) -> Result<(), String> {
    if home.join("kubeseal").exists() {
        return Ok(());
    }
    let mut go = Command::new("go");
    go.args(["install", MODULE]).env("GOBIN", home).env("GOFLAGS", "-mod=mod").current_dir("/");
    match child::run(&mut go, BUILD, |_| ()) {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("go does not build it: see above".to_owned()),
        Err(why) => Err(format!("no go, which builds it: {why}")),
    }
}

fn sealed(home: &Path, directory: &Path) -> Result<(), String> {
    let mut kubeseal = Command::new(home.join("kubeseal"));
    kubeseal.args(["--cert", "certificate.pem", "--secret-file", "secret.json", "--sealed-secret-file", "sealed.json"]);
    // Nobody's cluster is asked.
    ended("kubeseal", kubeseal.env("KUBECONFIG", "/dev/null").current_dir(directory))
}

fn ended(name: &str, command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

//! TLS, by curl.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use crate::rig;

use crate::rig::{curl, rig_with};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A certificate of its own for localhost, and its key, as files.
fn identity(directory: &Path) -> String {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = directory.join("key.pem");
    fs::write(directory.join("certificate.pem"), cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    cert.pem()
}

fn asked(rig: &rig::Rig, authority: &Path, path: &str) -> (String, String) {
    let address = rig.running.address();
    let mut command = curl().unwrap();
    command.args(["--user", "admin:sécret:word", "--cacert", authority.to_str().unwrap()]);
    command.args(["--resolve", &format!("localhost:{}:127.0.0.1", address.port()), "--write-out", " %{http_version}"]);
    let output =
        latchkey_test_support::output(command.arg(format!("https://localhost:{}{path}", address.port()))).unwrap();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn curl_trusts_the_certificate_and_a_reload_replaces_it() {
    if curl().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("first.pem"), identity(directory.path())).unwrap();
    let section = json!({ "certificate": path("certificate.pem"), "private_key": path("key.pem") });
    let rig = rig_with(section, json!({}));
    let (said, error) = asked(&rig, &path("first.pem"), "/ping");
    assert!(said.contains("\"application\":\"sample\"") && said.ends_with(" 1.1"), "{said} {error}");
    // What is no certificate changes nothing.
    let good = fs::read(path("certificate.pem")).unwrap();
    fs::write(path("certificate.pem"), "none").unwrap();
    rig.running.reload();
    let failed = || (rig.metric("reloads_total{outcome=\"failed\"}") == 1).then_some(());
    latchkey_test_support::until("the reload that fails", failed);
    assert!(asked(&rig, &path("first.pem"), "/ping").0.ends_with(" 1.1"));
    fs::write(path("certificate.pem"), good).unwrap();
    fs::write(path("second.pem"), identity(directory.path())).unwrap();
    rig.running.reload();
    latchkey_test_support::until("the reload", || (rig.metric("reloads_total{outcome=\"done\"}") == 1).then_some(()));
    let (said, error) = asked(&rig, &path("second.pem"), "/ping");
    assert!(said.ends_with(" 1.1"), "{said} {error}");
    assert!(!asked(&rig, &path("first.pem"), "/ping").1.is_empty(), "the old one is no authority any more");
}

#[test]
fn plain_http_on_a_tls_port_gets_nothing() {
    let directory = tempfile::tempdir().unwrap();
    identity(directory.path());
    let path = |name: &str| directory.path().join(name);
    let rig = rig_with(json!({ "certificate": path("certificate.pem"), "private_key": path("key.pem") }), json!({}));
    let mut wire = rig.connect();
    wire.send(rig::get("/open", "").as_bytes());
    wire.finish();
    latchkey_test_support::until("its end", || (rig.metric("connections") == 0).then_some(()));
    assert_eq!(rig.metric("requests_total{status=\"2xx\"}"), 0);
}

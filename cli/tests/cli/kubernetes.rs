//! `latchkey kubernetes`, as its users run it.

#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::command::{Ran, latchkey};
use latchkey_kubernetes::Sha256;
use latchkey_test_support::{Lines, Process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with three components, and the table that names them.
fn folder() -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("mirror")).unwrap();
    let component = |name: &str, version: &str, roles: Value| {
        let content = format!("the program {name}");
        fs::write(directory.path().join(format!("mirror/{name}-{version}")), &content).unwrap();
        json!({
            "name": name, "version": version, "sha256": Sha256::of(content.as_bytes()).to_string(), "max_bytes": 100,
            "roles": roles, "install": {"file": format!("/usr/bin/{name}")},
        })
    };
    let both = json!(["control-plane", "worker"]);
    let components = [
        component("kubeadm", "1.34.4", both.clone()),
        component("kubelet", "1.34.4", both),
        component("etcdctl", "3", json!(["control-plane"])),
    ];
    let digest = format!("sha256:{}", Sha256::of(b""));
    let pause = json!({"name": "registry.k8s.io/pause", "tag": "3.10.1", "digest": digest});
    let release = json!({"version": "1.34.4", "components": components, "images": [pause]});
    let table = json!({"schema": 1, "architecture": "x86_64", "versions": [release]});
    fs::write(directory.path().join("table.json"), table.to_string()).unwrap();
    directory
}

fn run(directory: &Path, arguments: &[&str]) -> Ran {
    latchkey(directory, arguments)
}

const FETCH: [&str; 8] = ["kubernetes", "fetch", "1.34", "--into", "parts", "--mirror", "mirror", "--table"];

fn fetch(directory: &Path, more: &[&str]) -> Ran {
    run(directory, &[&FETCH[..], &["table.json"], more].concat())
}

#[test]
fn files_are_got_once_and_what_is_there_stays() {
    let folder = folder();
    let ran = fetch(folder.path(), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.out, "Kubernetes 1.34.4: 3 files in parts, each with the hash of the version table\n");
    assert_eq!(fs::read(folder.path().join("parts/kubelet-1.34.4")).unwrap(), b"the program kubelet");
    assert!(ran.err.contains("fetched     kubelet-1.34.4 in "), "{}", ran.err);
    fs::remove_dir_all(folder.path().join("mirror")).unwrap();
    let ran = fetch(folder.path(), &["--output", "json"]);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["version"], "1.34.4");
    assert!(report["files"].as_array().unwrap().iter().all(|file| file["was_there"] == true), "{report}");
}

#[test]
fn a_worker_needs_less() {
    let folder = folder();
    assert_eq!(fetch(folder.path(), &["--role", "worker"]).code, 0);
    assert!(!folder.path().join("parts/etcdctl-3").exists());
    let ran = fetch(folder.path(), &["--role", "master"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--role: control-plane or worker"), "{}", ran.err);
}

#[test]
fn what_is_another_file_is_named_and_the_command_fails() {
    let folder = folder();
    fs::write(folder.path().join("mirror/kubelet-1.34.4"), "another program").unwrap();
    let ran = fetch(folder.path(), &["--output", "json"]);
    let error: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code == 0, error["error"]["code"].as_str()), (false, Some("component-hash-differs")), "{error}");
    assert!(ran.out.contains("mirror/kubelet-1.34.4"), "{}", ran.out);
    assert!(!folder.path().join("parts/kubelet-1.34.4").exists());
}

#[test]
fn versions_that_are_none_or_not_there_are_refused_with_what_to_say() {
    let folder = folder();
    for (version, code, said) in [
        ("1.34.4", "kubernetes-version-malformed", "say 1.34"),
        ("v1.34", "kubernetes-version-malformed", "say 1.34"),
        ("1.12", "kubernetes-version-too-old", "has 1.33, 1.34, 1.35"),
        ("1.77", "kubernetes-version-unknown", "has 1.33, 1.34, 1.35"),
    ] {
        let ran = run(folder.path(), &["kubernetes", "fetch", version, "--into", "parts", "--output", "json"]);
        let error: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, error["error"]["code"].as_str()), (2, Some(code)), "{error}");
        assert!(ran.out.contains(said), "{said}: {}", ran.out);
    }
}

#[test]
fn tables_and_mirrors_that_are_none_are_refused() {
    let folder = folder();
    fs::write(folder.path().join("bad.json"), "{}").unwrap();
    for (arguments, said) in [
        (&["--table", "bad.json"][..], "missing field `schema`"),
        (&["--table", "nowhere.json"], "nowhere.json: No such file"),
        (&["--mirror", "file:///etc"], "is no address like https://HOST/PATH"),
        (&["--mirror", "https://user:secret@mirror/"], "without user, password"),
    ] {
        let ran = run(folder.path(), &[&["kubernetes", "fetch", "1.34", "--into", "parts"], arguments].concat());
        assert!(ran.code != 0 && ran.err.contains(said), "{said}: {}", ran.err);
    }
}

#[test]
fn the_versions_are_listed_with_what_else_a_node_carries() {
    let ran = run(TempDir::new().unwrap().path(), &["kubernetes", "versions"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("1.34  1.34.4   containerd 2.2.1, runc 1.3.4, cni-plugins 1.8.0"), "{}", ran.out);
}

/// Runs openssl in a directory; its end must be good.
fn openssl(directory: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).current_dir(directory);
    let output = latchkey_test_support::output(&mut command).unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
}

#[test]
fn a_mirror_of_https_is_believed_by_the_authorities_of_this_machine_alone() {
    if Command::new("openssl").arg("version").output().is_err() {
        return latchkey_test_support::skip("openssl is missing: apt-get install openssl");
    }
    let folder = folder();
    let directory = folder.path();
    fs::write(directory.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        directory,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=ca -addext basicConstraints=critical,CA:TRUE"),
    );
    openssl(directory, &format!("req {key} -keyout mirror.key -out mirror.csr -subj /CN=localhost"));
    openssl(
        directory,
        "x509 -req -in mirror.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out mirror.pem",
    );
    let mut server = Command::new("openssl");
    server.args("s_server -WWW -accept 127.0.0.1:0 -cert ../mirror.pem -key ../mirror.key".split(' '));
    server.current_dir(directory.join("mirror")).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = latchkey_test_support::spawn(server).unwrap();
    let lines = Lines::of(server.stdout.take().unwrap());
    let _server = Process::watch(server).unwrap();
    let accepts = lines.find("its port", &mut Vec::new(), |line| line.starts_with("ACCEPT ")).unwrap();
    let mirror = format!("https://localhost:{}", accepts.rsplit(':').next().unwrap());
    let run = |authorities: &str, into: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey"));
        command.args(["kubernetes", "fetch", "1.34", "--table", "table.json", "--mirror", &mirror, "--into", into]);
        command.current_dir(directory).env("SSL_CERT_FILE", authorities).env("SSL_CERT_DIR", "/nonexistent");
        let output = latchkey_test_support::output(&mut command).unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (good, said) = run("ca.pem", "parts");
    assert!(good, "{said}");
    assert_eq!(fs::read(directory.join("parts/kubelet-1.34.4")).unwrap(), b"the program kubelet");
    // Its own certificate makes nobody an authority.
    openssl(
        directory,
        &format!(
            "req -x509 {key} -keyout other.key -out other.pem -subj /CN=ca -addext basicConstraints=critical,CA:TRUE"
        ),
    );
    let (good, said) = run("other.pem", "others");
    assert!(!good && said.contains("invalid peer certificate"), "{said}");
    let (good, said) = run("/dev/null", "others");
    assert!(!good && said.contains("no certificate authorities to trust"), "{said}");
    assert!(!directory.join("others/kubelet-1.34.4").exists());
}

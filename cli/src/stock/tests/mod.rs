//! Programs that are hostile (scripts that stand in for one, named so), and the real ones with a real API server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use latchkey_api_server_rig::{ApiServer, program};
use latchkey_test_support::{block_on, until};
use tempfile::TempDir;

use super::call::Call;
use super::*;
use std::time::Duration;

/// No honest step takes so long, and none that hangs is waited for longer.
const LONG: Duration = Duration::from_mins(2);

/// A script that stands in for a hostile kubectl or helm.
fn hostile(directory: &TempDir, script: &str) -> PathBuf {
    let path = directory.path().join("hostile");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn call(file: &Path, allowed: Duration) -> Call<'_> {
    Call { program: Program::Helm, file, arguments: Vec::new(), input: &[], limit: 1 << 20, allowed }
}

fn run(call: Call<'_>) -> Result<call::Ended, StockError> {
    block_on(call.run(None, None))
}

#[test]
fn a_program_that_prints_for_ever_is_ended() {
    let directory = TempDir::new().unwrap();
    let file = hostile(&directory, "exec yes");
    let error = run(call(&file, LONG)).map(drop).unwrap_err();
    assert!(matches!(error, StockError::TooLong { limit: 1_048_576, .. }), "{error}");
}

#[test]
fn of_what_it_says_on_standard_error_the_end_is_kept() {
    let directory = TempDir::new().unwrap();
    let file = hostile(&directory, "yes | head -c 10000000 >&2; echo the end >&2; exit 1");
    let ended = run(call(&file, LONG)).unwrap();
    assert!(!ended.status.success() && ended.said.len() <= 8192 && ended.said.ends_with("y\nthe end\n"));
}

#[test]
fn one_that_hangs_is_ended_with_all_that_it_started() {
    let directory = TempDir::new().unwrap();
    let (pids, script) = (directory.path().join("pids"), "trap '' TERM; tail -f /dev/null & echo $! >>pids; wait");
    let script = script.replace("pids", &pids.display().to_string());
    let file = hostile(&directory, &format!("trap '' TERM; {script}"));
    // It is only told to end once the script has said whom it started.
    let started = async {
        smol::unblock(move || {
            until("the script to start", || fs::read_to_string(&pids).ok().filter(|pid| pid.ends_with('\n')))
        })
        .await
    };
    let error_and_pid = async {
        let run = call(&file, Duration::from_secs(2)).run(None, None);
        smol::future::zip(run, started).await
    };
    let (ended, pid) = block_on(error_and_pid);
    assert!(matches!(ended.map(drop).unwrap_err(), StockError::Late { .. }));
    let process = PathBuf::from("/proc").join(pid.trim());
    until("what it started to be gone", || {
        let state = fs::read_to_string(process.join("stat")).unwrap_or_default();
        (state.is_empty() || state.contains(") Z ")).then_some(())
    });
}

#[test]
fn what_it_reads_and_does_not_read_is_its_own_affair() {
    let directory = TempDir::new().unwrap();
    let input = vec![b'x'; 1 << 20];
    let file = hostile(&directory, "wc -c");
    let ended = run(Call { input: &input, ..call(&file, LONG) }).unwrap();
    assert_eq!(ended.stdout, b"1048576\n");
    let file = hostile(&directory, "exit 0");
    assert!(run(Call { input: &input, ..call(&file, LONG) }).unwrap().status.success());
}

#[test]
fn its_lines_come_as_they_are_said_and_none_is_endless() {
    let directory = TempDir::new().unwrap();
    let file = hostile(&directory, "echo one >&2; printf 'two\\nthree' >&2; yes | tr -d '\\n' | head -c 5000 >&2");
    let mut lines = Vec::new();
    let mut take = |line: &str| lines.push(line.to_owned());
    block_on(call(&file, LONG).run(None, Some(&mut take))).unwrap();
    assert_eq!(&lines[..2], ["one", "two"]);
    assert!(lines[2].starts_with("threeyy") && lines.iter().all(|line| line.len() <= 2048), "{}", lines.len());
}

#[test]
fn settings_that_would_change_what_is_asked_do_not_reach_it() {
    let directory = TempDir::new().unwrap();
    let ended = run(call(&hostile(&directory, "env"), LONG)).unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.contains("KUBECTL_KUBERC=false\n") && text.contains("LC_ALL=C\n") && text.contains("PATH="), "{text}");
    for (name, changes) in [
        ("KUBECONFIG", true),
        ("HELM_NAMESPACE", true),
        ("HELM_DRIVER", true),
        ("KUBECTL_EXTERNAL_DIFF", true),
        ("HELM_CACHE_HOME", false),
        ("HTTPS_PROXY", false),
        ("HOME", false),
    ] {
        assert_eq!(call::changes_meaning(name.as_ref()), changes, "{name}");
    }
}

fn helm_error(script: &str) -> StockError {
    let directory = TempDir::new().unwrap();
    let file = hostile(&directory, script);
    block_on(Stock::new(None, Some(&file)).helm_alone()).unwrap_err()
}

#[test]
fn what_is_no_helm_or_not_one_that_we_know_is_refused_by_name() {
    assert!(matches!(helm_error("echo v3.17.9"), StockError::TooOld { .. }));
    let error = helm_error("echo v4.0.1");
    assert_eq!(error.to_string(), "helm 4.0.1 is too new: this command works with helm 3.18 to the last of helm 3");
    assert!(matches!(helm_error("echo '<html>'"), StockError::Malformed { .. }));
    assert!(matches!(helm_error("head -c 1000 /dev/urandom"), StockError::Malformed { .. }));
    assert!(helm_error("echo why >&2; exit 3").is(StockCode::Failed));
    let directory = TempDir::new().unwrap();
    let missing = Stock::new(None, Some(&directory.path().join("helm")));
    assert!(matches!(block_on(missing.helm_alone()).unwrap_err(), StockError::NotExecutable { .. }));
    fs::write(directory.path().join("text"), "no program").unwrap();
    let text = Stock::new(None, Some(&directory.path().join("text")));
    assert!(matches!(block_on(text.helm_alone()).unwrap_err(), StockError::NotExecutable { .. }));
}

/// A script that stands in for a kubectl whose versions, its own and the API server's, are these.
fn kubectl_of(client: &str, server: &str) -> Result<Kubectl, StockError> {
    let directory = TempDir::new().unwrap();
    let script = format!(
        r#"case $1 in version) echo '{{"clientVersion":{{"gitVersion":"{client}"}}}}';; get) echo '{{"gitVersion":"{server}"}}';; esac"#
    );
    let (file, kubeconfig) = (hostile(&directory, &script), directory.path().join("kubeconfig"));
    fs::write(&kubeconfig, "").unwrap();
    block_on(Stock::new(Some(&file), None).kubectl(&kubeconfig))
}

#[test]
fn kubectl_is_at_most_one_minor_version_away_from_the_api_server() {
    for client in ["v1.33.1", "v1.34.0", "v1.35.9-rc.1"] {
        assert_eq!(kubectl_of(client, "v1.34.4").unwrap().server().to_string(), "1.34.4", "{client}");
    }
    let error = kubectl_of("v1.32.4-dispatcher", "v1.34.4").unwrap_err();
    assert_eq!(
        error.to_string(),
        "kubectl 1.32.4 is too old: the API server is 1.34.4, which takes kubectl 1.33 to 1.35"
    );
    assert!(matches!(kubectl_of("v1.36.0", "v1.34.4").unwrap_err(), StockError::TooNew { .. }));
    assert!(matches!(kubectl_of("v1.34.0", "latest").unwrap_err(), StockError::Malformed { .. }));
}

#[test]
fn the_words_of_a_refusal_become_its_code() {
    for (said, code) in [
        ("Error from server (NotFound): widgets.example.com \"a\" not found", StockCode::ObjectMissing),
        ("error: You must be logged in to the server (Unauthorized)", StockCode::KnowsUsNot),
        (
            "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
            StockCode::Unreachable,
        ),
        (
            "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by",
            StockCode::Untrusted,
        ),
        (
            "Error from server (Expired): The provided continue parameter is too old to display a consistent list result.",
            StockCode::Expired,
        ),
        ("Error from server (Gone): too old resource version: 1 (2)", StockCode::Expired),
        (
            "Error from server (TooManyRequests): the server has received too many requests and has asked us to try again later",
            StockCode::ServerFailed,
        ),
        (
            "Error from server (InternalError): an error on the server (\"\") has prevented the request from succeeding",
            StockCode::ServerFailed,
        ),
        (
            "Error from server (ServiceUnavailable): the server is currently unable to handle the request (get nodes)",
            StockCode::ServerFailed,
        ),
        (
            "Error from server (Timeout): the server was unable to return a response in the time allotted",
            StockCode::ServerFailed,
        ),
        ("Error from server: etcdserver: request timed out", StockCode::ServerFailed),
        ("Error from server: etcdserver: leader changed", StockCode::ServerFailed),
        ("something else", StockCode::Failed),
    ] {
        assert_eq!(error::code_of(said), code, "{said}");
    }
}

mod api_server;

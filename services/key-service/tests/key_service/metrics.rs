//! `/metrics` for other machines, asked by stock curl: over TLS, and for whoever shows what the configuration demands. The mechanism is
//! that of every service (`latchkey_service_runtime::guarded`).
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use crate::rig::pki::{Authority, Kind, write_private};
use crate::rig::{Rig, Service};
use latchkey_test_support::{output, skip};
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A service whose metrics demand a token and a certificate by `monitors-ca.pem`.
fn guarded() -> (Rig, Authority) {
    let mut rig = Rig::new();
    let monitors = Authority::new(rig.directory.path(), "monitors-ca");
    monitors.issue("monitor", &["monitor.latchkey.test"], Kind::Client);
    write_private(&rig.path("token"), &format!("{TOKEN}\n"));
    rig.config["metrics"] = json!({
        "listen": "127.0.0.1:0", "certificate": "server.pem", "private_key": "server.key",
        "token_file": "token", "client_ca": "monitors-ca.pem",
    });
    (rig, monitors)
}

/// Curl's exit code, the status (000 without an answer) and the body.
fn curl(rig: &Rig, service: &Service, path: &str, more: &[&str]) -> (i32, String, String) {
    let url = format!("https://{}{path}", service.metrics());
    let mut curl = Command::new("curl");
    curl.current_dir(rig.directory.path()).args(["--silent", "--noproxy", "*", "--write-out", "\n%{http_code}"]);
    let output = output(curl.args(["--cacert", "servers-ca.pem"]).args(more).arg(url)).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (output.status.code().unwrap(), status.to_owned(), body.to_owned())
}

fn has_no_curl() -> bool {
    let missing = output(Command::new("curl").arg("--version")).is_err();
    if missing {
        skip("curl is missing: apt-get install curl");
    }
    missing
}

#[test]
fn other_machines_see_metrics_by_token_and_certificate_and_not_by_one_of_them() {
    if has_no_curl() {
        return;
    }
    let (rig, _monitors) = guarded();
    rig.clients.issue("stranger", &["monitor.latchkey.test"], Kind::Client);
    let service = rig.start();
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let (certificate, header) = (["--cert", "monitor.pem", "--key", "monitor.key"], ["--header", &bearer]);
    let ask = |path: &str, more: &[&[&str]]| curl(&rig, &service, path, &more.concat());
    let (code, status, page) = ask("/metrics", &[&certificate, &header]);
    assert_eq!((code, status.as_str()), (0, "200"));
    assert!(
        page.contains("latchkey_key_service_build_info{") && page.contains("\nprocess_start_time_seconds "),
        "{page}"
    );
    assert_eq!(ask("/healthz", &[&certificate, &header]), (0, "200".to_owned(), "ok\n".to_owned()));
    assert_eq!(ask("/metrics", &[&certificate, &header, &["--request", "POST"]]).1, "405");
    assert_eq!(ask("/backup", &[&certificate, &header, &["--request", "POST"]]).1, "404");
    let basic = format!("Authorization: Basic {TOKEN}");
    let short = format!("Authorization: Bearer {}", &TOKEN[1..]);
    for wrong in ["X: y", &basic, &short, &bearer.replace('0', "1")] {
        let (_, status, body) = ask("/metrics", &[&certificate, &["--header", wrong]]);
        assert_eq!(status, "401", "{wrong}");
        assert!(!body.contains("latchkey"), "{body}");
    }
    // Without a certificate by the authority there is no channel on which a token could be read.
    for nobody in [&[][..], &["--cert", "stranger.pem", "--key", "stranger.key"]] {
        let (code, status, _) = ask("/metrics", &[nobody, &header]);
        assert!(code != 0 && status == "000", "{nobody:?}: {code} {status}");
    }
    let (_, status, _) = ask("/metrics", &[&certificate, &header, &["--tls-max", "1.2"]]);
    assert_eq!(status, "000");
    // This machine's own page stays as it was.
    assert!(service.page("/metrics").0.contains(" 200 "));
    assert!(rig.check().status.success());
}

/// Scrapes are rare: a renewed certificate and another token count from the next one on, without a signal.
#[test]
fn renewed_files_count_at_once() {
    if has_no_curl() {
        return;
    }
    let (mut rig, _monitors) = guarded();
    rig.config["metrics"].as_object_mut().unwrap().remove("client_ca");
    let service = rig.start();
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let ask = |token: &str| curl(&rig, &service, "/metrics", &["--header", &bearer(token)]).1;
    let next = TOKEN.replace('0', "f");
    assert_eq!((ask(TOKEN), ask(&next)), ("200".to_owned(), "401".to_owned()));
    write_private(&rig.path("token"), &next);
    let renewed = Authority::new(rig.directory.path(), "servers-ca");
    assert_eq!(ask(&next), "000", "the certificate is of the authority before");
    renewed.issue("server", &["127.0.0.1"], Kind::Server);
    assert_eq!((ask(TOKEN), ask(&next)), ("401".to_owned(), "200".to_owned()));
}

#[test]
fn metrics_without_a_credential_that_holds_are_refused_before_anything_is_served() {
    type Spoil = fn(&mut Rig);
    let table: [(Spoil, &str); 8] = [
        (
            |rig| {
                let ended = rig.servers.issue("ended", &["127.0.0.1"], Kind::ExpiredServer);
                fs::rename(ended.certificate, rig.path("metrics.pem")).unwrap();
                fs::rename(ended.key, rig.path("metrics.key")).unwrap();
                rig.config["metrics"]["certificate"] = json!("metrics.pem");
                rig.config["metrics"]["private_key"] = json!("metrics.key");
            },
            "has expired",
        ),
        (
            |rig| {
                let monitors = Authority::new(rig.directory.path(), "monitors-ca");
                let ended = monitors.issue("ended", &["monitor.latchkey.test"], Kind::ExpiredClient);
                fs::rename(ended.certificate, rig.path("monitors-ca.pem")).unwrap();
            },
            "has expired",
        ),
        (
            |rig| {
                let metrics = rig.config["metrics"].as_object_mut().unwrap();
                metrics.retain(|field, _| !["token_file", "client_ca"].contains(&field.as_str()));
            },
            "name `token_file`, `client_ca` or both",
        ),
        (|rig| drop(rig.config["metrics"].as_object_mut().unwrap().remove("certificate")), "`certificate`"),
        (|rig| write_private(&rig.path("token"), &TOKEN[1..]), "openssl rand -hex 32"),
        (|rig| write_private(&rig.path("token"), &TOKEN.replace('0', " ")), "openssl rand -hex 32"),
        (|rig| fs::set_permissions(rig.path("token"), Permissions::from_mode(0o644)).unwrap(), "chmod"),
        (|rig| fs::write(rig.path("monitors-ca.pem"), "").unwrap(), "no certificate"),
    ];
    for (spoil, fix) in table {
        let (mut rig, _monitors) = guarded();
        assert!(rig.check().status.success());
        spoil(&mut rig);
        let checked = rig.check();
        let stderr = String::from_utf8(checked.stderr).unwrap();
        assert_eq!(checked.status.code(), Some(2), "{fix}: {stderr}");
        assert!(stderr.contains(fix), "{fix}: {stderr}");
    }
}

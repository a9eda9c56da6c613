//! The binary as its operator and its network see it: arguments, checks, limits, the end.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use crate::rig;

use crate::rig::pki::Kind;
use crate::rig::{DISKS, JOIN, Rig};
use latchkey_keys::{ClusterId, KeyVersion, MasterSecret};
use latchkey_test_support::{drained, output, skip};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code, stdout and stderr.
fn outcome(output: &std::process::Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn check_says_what_the_service_would_do() {
    let rig = Rig::new();
    let (code, stdout, stderr) = outcome(&rig.check());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for part in ["version 2 of the master secret (1, 2 held)", JOIN, DISKS, "state-disk and measurement-secret"] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
}

/// The secret of another cluster would be noticed by the first machine that asks for its key.
#[test]
fn the_master_secret_has_to_be_of_the_cluster_that_is_named() {
    let mut rig = Rig::new();
    let (salt, first) = ([7; 32], KeyVersion::FIRST);
    let of = |master: &MasterSecret| ClusterId::derive(&master.measurement_secret(first).unwrap(), &salt).unwrap();
    let named = |id: ClusterId| json!({ "cluster_id": id, "measurement_salt": "07".repeat(32), "key_version": 1 });
    assert!(outcome(&rig.check()).1.contains("was not looked at"));
    rig.config["cluster"] = named(of(&rig.master));
    let (code, stdout, stderr) = outcome(&rig.check());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains(&of(&rig.master).to_string()), "{stdout}");
    let other = MasterSecret::random().unwrap();
    rig.config["cluster"] = named(of(&other));
    for ended in [rig.check(), output(&mut rig.command()).unwrap()] {
        let (code, _, stderr) = outcome(&ended);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains("master.json") && stderr.contains(&of(&other).to_string()), "{stderr}");
    }
}

#[test]
fn an_empty_list_of_callers_means_nobody() {
    let mut rig = Rig::new();
    rig.config["callers"] = json!([]);
    let (code, stdout, _) = outcome(&rig.check());
    assert_eq!(code, Some(0));
    assert!(stdout.contains("nobody"), "{stdout}");
}

/// A good key that belongs to no certificate here.
fn other_key() -> String {
    rcgen::KeyPair::generate().unwrap().serialize_pem()
}

#[test]
fn an_unusable_configuration_ends_with_2_and_names_the_fix() {
    type Spoil = fn(&mut Rig);
    let table: [(Spoil, &str); 11] = [
        (|rig| rig.config["debug"] = true.into(), "unknown field `debug`"),
        (|rig| rig.config["schema"] = 2.into(), "schema 1"),
        (|rig| rig.config["admin_listen"] = "0.0.0.0:9001".into(), "loopback"),
        (|rig| rig.config["admin_listen"] = "0.0.0.0:9001".into(), "the section `metrics`"),
        (|rig| rig.config["master_secret"] = "absent.json".into(), "absent.json"),
        (|rig| fs::set_permissions(rig.path("master.json"), Permissions::from_mode(0o644)).unwrap(), "chmod"),
        (|rig| fs::set_permissions(rig.path("server.key"), Permissions::from_mode(0o640)).unwrap(), "chmod"),
        (|rig| fs::write(rig.path("clients-ca.pem"), "").unwrap(), "no certificate"),
        (|rig| fs::rename(rig.path("clients-ca.pem"), rig.path("server.pem")).unwrap(), "clients-ca.pem"),
        (|rig| rig::pki::write_private(&rig.path("server.key"), &other_key()), "`tls.private_key`"),
        (|rig| rig::pki::write_private(&rig.path("server.key"), "not a key"), "no private key"),
    ];
    for (spoil, fix) in table {
        let mut rig = Rig::new();
        spoil(&mut rig);
        let (code, _, stderr) = outcome(&rig.check());
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(fix), "{fix}: {stderr}");
        let (code, _, stderr) = outcome(&output(&mut rig.command()).unwrap());
        assert_eq!(code, Some(2), "without --check: {stderr}");
    }
}

/// A self-signed certificate on the curve P-521, which ring does not have and rcgen therefore does not make.
fn on_p521(rig: &Rig, certificate: &str, key: &str) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp521r1", "-nodes", "-days", "9"]);
    openssl.args(["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]);
    openssl.args(["-addext", "extendedKeyUsage=serverAuth", "-addext", "basicConstraints=critical,CA:FALSE"]);
    let made = output(openssl.arg("-out").arg(rig.path(certificate)).arg("-keyout").arg(rig.path(key))).unwrap();
    assert!(made.status.success(), "{made:?}");
    fs::set_permissions(rig.path(key), Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn certificates_that_no_peer_would_accept_are_refused_before_anybody_connects() {
    type Spoil = fn(&mut Rig);
    if output(Command::new("openssl").arg("version")).is_err() {
        skip("openssl, which makes keys on P-521, is missing: apt-get install openssl");
        return;
    }
    let table: [(Spoil, &str); 6] = [
        (|rig| drop(rig.servers.issue("server", &["127.0.0.1"], Kind::ExpiredServer)), "a certificate has expired"),
        (|rig| drop(rig.servers.issue("server", &["127.0.0.1"], Kind::FutureServer)), "a certificate is not valid yet"),
        (|rig| drop(rig.servers.issue("server", &["127.0.0.1"], Kind::Client)), "extended key usage serverAuth"),
        (|rig| fs::rename(rig.path("servers-ca.pem"), rig.path("server.pem")).unwrap(), "certificate of an authority"),
        (|rig| on_p521(rig, "server.pem", "server.key"), "curve P-521; use P-256"),
        (|rig| on_p521(rig, "clients-ca.pem", "unused.key"), "curve P-521; use P-256"),
    ];
    for (spoil, fix) in table {
        let mut rig = Rig::new();
        spoil(&mut rig);
        let (code, _, stderr) = outcome(&rig.check());
        assert_eq!(code, Some(2), "{fix}: {stderr}");
        assert!(stderr.contains(fix) && stderr.contains(".pem"), "{fix}: {stderr}");
    }
}

#[test]
fn what_cannot_be_printed_is_a_failure_and_a_reader_that_went_away_is_not_told_so() {
    let rig = Rig::new();
    for arguments in [&["--help"][..], &["--version"], &["--check"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = rig.command().args(arguments).stdout(full).output().unwrap();
        let (code, _, stderr) = outcome(&ended);
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("cannot write to standard output: No space left"), "{arguments:?}: {stderr}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, _, stderr) = outcome(&rig.command().args(arguments).stdout(writer).output().unwrap());
        assert_eq!((code, stderr.as_str()), (Some(128 + 13), ""), "{arguments:?}");
    }
}

#[test]
fn wrong_arguments_end_with_2_and_a_taken_port_with_1() {
    let binary = env!("CARGO_BIN_EXE_latchkey-key-service");
    let (code, _, stderr) = outcome(&output(Command::new(binary).arg("--frobnicate")).unwrap());
    assert_eq!(code, Some(2), "{stderr}");
    let (code, stdout, _) = outcome(&output(Command::new(binary).arg("--version")).unwrap());
    assert_eq!((code, stdout.as_str()), (Some(0), concat!("latchkey-key-service ", env!("CARGO_PKG_VERSION"), "\n")));
    let mut rig = Rig::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rig.config["listen"] = taken.local_addr().unwrap().to_string().into();
    let (code, _, stderr) = outcome(&output(&mut rig.command()).unwrap());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("Cannot listen on 127.0.0.1:"), "{stderr}");
}

#[test]
fn sigterm_ends_it_with_0_even_while_a_peer_hangs_in_its_handshake() {
    let rig = Rig::new();
    let service = rig.start();
    let _hanging = TcpStream::connect(service.address()).unwrap();
    assert_eq!(service.page("/healthz"), ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned()));
    let (status, log) = service.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("Stopped"), "{log}");
}

#[test]
fn a_peer_that_never_finishes_its_handshake_is_cut_off() {
    let mut rig = Rig::new();
    rig.config["limits"] = json!({ "handshake_seconds": 1 });
    let mut service = rig.start();
    let mut slow = TcpStream::connect(service.address()).unwrap();
    slow.write_all(b"\x16\x03\x01").unwrap();
    // Ends only because the service closes.
    drained(&mut slow);
    service.next_line("timed out");
    let page = service.page("/metrics").1;
    assert!(page.contains("reason=\"handshake-timeout\"} 1"), "{page}");
}

#[test]
fn tls_1_2_is_refused_and_tls_1_3_gives_no_ticket_to_resume_with() {
    if output(Command::new("python3").arg("--version")).is_err() {
        skip("python3, for its OpenSSL, is missing: apt-get install python3");
        return;
    }
    let rig = Rig::new();
    let mut service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let address = service.address();
    let handshake = |version: &str| -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(address.ip().to_string()).arg(address.port().to_string());
        command.arg(rig.servers.certificate()).args([&join.certificate, &join.key]).arg(version);
        serde_json::from_slice(&output(&mut command).unwrap().stdout).unwrap()
    };
    let refused = handshake("TLSv1_2");
    assert_eq!(refused, json!({ "refused": "TLSV1_ALERT_PROTOCOL_VERSION" }));
    let line = service.next_line("TLS handshake failed");
    assert!(line.contains("SupportedVersions") || line.contains("TLS"), "{line}");
    let accepted = handshake("TLSv1_3");
    assert_eq!(accepted["version"], "TLSv1.3", "{accepted}");
    assert_eq!(accepted["ticket"], false, "{accepted}");
    assert_ne!(accepted["first"], "", "the service spoke HTTP/2: {accepted}");
}

/// The same command in a shell that asks for core files, in a directory of its own.
fn asking_for_cores(command: &Command, directory: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -c unlimited && exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    shell.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    shell
}

#[test]
fn a_crash_leaves_no_core_file_with_the_master_secret_in_it() {
    let rig = Rig::new();
    let aborting = "ulimit -c unlimited && kill -ABRT $$";
    let other = output(Command::new("sh").args(["-c", aborting]).current_dir(rig.directory.path())).unwrap();
    if !other.status.core_dumped() {
        skip("this system writes no core files at all");
        return;
    }
    let service = Rig::start_by(asking_for_cores(&rig.command(), rig.directory.path()));
    let (status, log) = service.end_by(Signal::ABORT);
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{log}");
    assert!(!status.core_dumped());
}

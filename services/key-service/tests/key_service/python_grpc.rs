//! Google's gRPC client (Python) against the real binary over mutual TLS.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use crate::rig::pki::{Authority, Identity, Kind};
use crate::rig::{DISKS, JOIN, Rig, python};
use latchkey_keys::{KeyId, KeyLength, KeyRelease, KeyVersion};
use serde_json::{Value, json};

const DISK: &str = "state-disk/f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

/// Answers for every key, without a decision.
struct FakeRelease(KeyId, Option<KeyVersion>);

impl KeyRelease for FakeRelease {
    fn key_id(&self) -> KeyId {
        self.0
    }

    fn key_version(&self) -> Option<KeyVersion> {
        self.1
    }
}

fn ask(key_id: &str, length: u32) -> Value {
    json!({ "key_id": key_id, "length": length })
}

fn expected_key(rig: &Rig, key_id: &str, version: u32, length: u32) -> String {
    let release = FakeRelease(key_id.parse().unwrap(), KeyVersion::new(version));
    let derived = rig.master.derive(&release, KeyLength::new(length).unwrap()).unwrap();
    derived.key.expose().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

#[test]
fn a_known_caller_gets_the_derived_key_of_any_version_and_length() {
    let Some(python) = python::interpreter() else { return };
    let rig = Rig::new();
    let service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let calls = [
        ask(DISK, 32),
        ask(DISK, 64),
        json!({ "key_id": DISK, "length": 16, "version": 1 }),
        ask("measurement-secret", 32),
        ask(&DISK.to_uppercase().replace("STATE-DISK", "state-disk"), 32),
    ];
    let results = python::call(python, service.address(), &rig.servers.certificate(), Some(&join), &calls);
    let key = |key_id, version, length| {
        let data_key = expected_key(&rig, key_id, version, length);
        json!({ "code": "OK", "data_key": data_key, "version": if version == 0 { 2 } else { version } })
    };
    let first = key(DISK, 0, 32);
    assert_eq!(results, [first.clone(), key(DISK, 0, 64), key(DISK, 1, 16), key("measurement-secret", 0, 32), first]);
}

#[test]
fn wrong_questions_are_refused_with_the_fix() {
    let Some(python) = python::interpreter() else { return };
    let rig = Rig::new();
    let service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let table = [
        (ask("", 32), "INVALID_ARGUMENT", "`state-disk/<uuid>`"),
        (ask("ca_emergency_ssh", 32), "INVALID_ARGUMENT", "`measurement-secret`"),
        (ask("state-disk/../measurement-secret", 32), "INVALID_ARGUMENT", "UUID"),
        (ask(DISK, 0), "INVALID_ARGUMENT", "16 to 64"),
        (ask(DISK, 15), "INVALID_ARGUMENT", "16 to 64"),
        (ask(DISK, 65), "INVALID_ARGUMENT", "16 to 64"),
        (ask(DISK, u32::MAX), "INVALID_ARGUMENT", "16 to 64"),
        (json!({ "key_id": DISK, "length": 32, "version": 3 }), "NOT_FOUND", "no version 3"),
        (ask(&"x".repeat(5000), 32), "RESOURCE_EXHAUSTED", "4096"),
        (json!({ "key_id": "", "method": "/latchkey.v1.Keys/Steal" }), "UNIMPLEMENTED", "Steal"),
    ];
    let calls: Vec<Value> = table.iter().map(|(call, ..)| call.clone()).collect();
    let results = python::call(python, service.address(), &rig.servers.certificate(), Some(&join), &calls);
    assert_eq!(results.len(), table.len());
    for (result, (call, code, fix)) in results.iter().zip(&table) {
        assert_eq!(result["code"], *code, "{call}: {result}");
        assert!(result["details"].as_str().unwrap().contains(fix), "{call}: {result}");
    }
}

#[test]
fn a_caller_gets_no_key_of_a_class_outside_its_rule() {
    let Some(python) = python::interpreter() else { return };
    let rig = Rig::new();
    let service = rig.start();
    let calls = [ask("measurement-secret", 32), ask(DISK, 32)];
    let codes = |file: &str, names: &[&str]| -> Vec<Value> {
        let identity = rig.client(file, names);
        let results = python::call(python, service.address(), &rig.servers.certificate(), Some(&identity), &calls);
        results.into_iter().map(|result| result["code"].clone()).collect()
    };
    assert_eq!(codes("disks", &[DISKS]), ["PERMISSION_DENIED", "OK"]);
    assert_eq!(codes("stranger", &["stranger.latchkey.test"]), ["PERMISSION_DENIED"; 2]);
    assert_eq!(codes("both", &[JOIN, DISKS]), ["PERMISSION_DENIED"; 2], "two rules match: none may be chosen");
    assert_eq!(codes("wildcard", &["*.latchkey.test"]), ["PERMISSION_DENIED"; 2]);
}

#[test]
fn who_cannot_prove_a_name_does_not_get_as_far_as_a_question() {
    let Some(python) = python::interpreter() else { return };
    let rig = Rig::new();
    let mut service = rig.start();
    let other = Authority::new(rig.directory.path(), "other-ca");
    let unknown_issuer = "invalid peer certificate: UnknownIssuer";
    let table: [(&str, Option<Identity>, &str); 5] = [
        ("none", None, "peer sent no certificates"),
        ("another authority's", Some(other.issue("other", &[JOIN], Kind::Client)), unknown_issuer),
        ("the servers' authority's", Some(rig.servers.issue("wrong-ca", &[JOIN], Kind::Client)), unknown_issuer),
        ("for servers", Some(rig.clients.issue("server-use", &[JOIN], Kind::Server)), "extended key usage"),
        ("expired", Some(rig.clients.issue("expired", &[JOIN], Kind::ExpiredClient)), "certificate expired"),
    ];
    let ca = rig.servers.certificate();
    for (certificate, identity, reason) in &table {
        let results = python::call(python, service.address(), &ca, identity.as_ref(), &[ask(DISK, 32)]);
        assert_eq!(results[0]["code"], "UNAVAILABLE", "{certificate}: {results:?}");
        let refusal = service.next_line("TLS handshake failed");
        assert!(refusal.contains(reason), "{certificate}: {refusal}");
    }
    let join = rig.client("join", &[JOIN]);
    let results = python::call(python, service.address(), &ca, Some(&join), &[ask(DISK, 32)]);
    assert_eq!(results[0]["code"], "OK", "a good certificate still works: {results:?}");
    let page = service.page("/metrics").1;
    assert!(page.contains("reason=\"handshake-failed\"} 5"), "{page}");
    let (_, log) = service.stop();
    assert_eq!(log.matches("Data key request").count(), 1, "{log}");
}

#[test]
fn a_client_that_expects_another_authority_does_not_talk_to_this_service() {
    let Some(python) = python::interpreter() else { return };
    let rig = Rig::new();
    let service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let results = python::call(python, service.address(), &rig.clients.certificate(), Some(&join), &[ask(DISK, 32)]);
    assert_eq!(results[0]["code"], "UNAVAILABLE", "{results:?}");
}

#[test]
fn a_flood_is_answered_resource_exhausted() {
    let Some(python) = python::interpreter() else { return };
    let mut rig = Rig::new();
    rig.config["callers"][0]["requests_per_minute"] = 1.into();
    rig.config["callers"][0]["burst"] = 3.into();
    let service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let calls = vec![ask(DISK, 32); 100];
    let results = python::call(python, service.address(), &rig.servers.certificate(), Some(&join), &calls);
    let codes: Vec<&Value> = results.iter().map(|result| &result["code"]).collect();
    assert_eq!(codes[..3], ["OK"; 3]);
    assert_eq!(codes[3..], ["RESOURCE_EXHAUSTED"; 97]);
    let (_, log) = service.stop();
    let lines = log.matches("outcome=\"rate-limited\"").count();
    assert!((1..40).contains(&lines), "{lines} lines: a flood of calls must not become a flood of the log");
}

#[test]
fn every_call_leaves_an_audit_line_and_no_key_leaves_a_trace() {
    let Some(python) = python::interpreter() else { return };
    let rig = Rig::new();
    let service = rig.start();
    let join = rig.client("join", &[JOIN]);
    let calls = [ask(DISK, 32), ask("evil\nfaked line", 32)];
    let results = python::call(python, service.address(), &rig.servers.certificate(), Some(&join), &calls);
    let key = results[0]["data_key"].as_str().unwrap().to_owned();
    let (_, page) = service.page("/metrics");
    let (status, log) = service.stop();
    assert!(status.success());
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("Data key request")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    for part in [JOIN, DISK, "class=\"state-disk\"", "outcome=\"granted\"", "request_id="] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    assert!(lines[1].contains("outcome=\"bad-key-id\""), "{}", lines[1]);
    assert!(!log.contains("faked line"), "{log}");
    for place in [&log, &page] {
        assert!(!place.contains(&key[..16]), "a key leaked");
    }
    assert!(!page.contains("f81d4fae") && !page.contains(JOIN), "ids leaked into metrics: {page}");
    assert!(page.contains("requests_total{outcome=\"granted\"} 1"), "{page}");
}

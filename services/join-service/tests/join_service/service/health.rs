//! What the service says of itself, and what goes on while its directory is broken, or does not answer.

use crate::service::rig::{Machine, Rig, Service, reference};
use latchkey_test_support::PATIENCE;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use std::fs;
use std::time::Instant;

const DISK: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const OTHER: &str = "0b0b0b0b-0000-4000-8000-000000000001";
const IMAGE_2: [u8; 32] = [0x0c; 32];

/// Asks until the page is as wanted.
fn health_until(service: &Service, wanted: impl Fn(&str, &str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        let (status, body) = service.page("/healthz");
        if wanted(&status, &body) {
            return body;
        }
        assert!(begun.elapsed() < PATIENCE, "{status} {body}");
    }
}

/// Opening a pipe waits for somebody who writes to it. One stood in the place of the policy, and one scrape of the pages
/// stopped the whole service, SIGTERM included.
#[test]
fn a_pipe_as_policy_stops_neither_scrapes_nor_joins_nor_the_end() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    let pipe = rig.path("cluster/policy.json.new");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::rename(pipe, rig.path("cluster/policy.json")).unwrap();
    service.next_line(&["Configuration cannot be used", "policy.json", "not a regular file"]);
    assert_eq!(service.metric("config_stale{part=\"attestation\"}"), 1);
    assert!(service.page("/healthz").1.contains("attestation is stale"));
    service.join(&node, DISK, "worker-1").unwrap();
    let (status, log) = service.stop();
    assert_eq!(status.code(), Some(0), "{log}");
}

/// Another program holds the directory's lock and does not let go: to the service that is a disk that does not answer, for
/// what it reads (a new manifest is remembered under the lock) and for what it writes.
#[test]
fn a_directory_that_hangs_costs_what_has_to_be_written_and_nothing_else() {
    let (node, other) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&node, &other]);
    let mut service = rig.start();
    service.join(&node, DISK, "worker-1").unwrap();
    let mut held = rig.directory.writer().unwrap();
    held.write_reference(&reference("2.0.0", IMAGE_2)).unwrap();
    health_until(&service, |_, body| body.contains("attestation is stale: the directory has not been read for"));
    assert!(service.page("/metrics").0.contains("200"));
    service.rejoin(&node, DISK).unwrap();
    assert_eq!(service.join(&other, OTHER, "worker-2").unwrap_err().code(), "record-not-written");
    health_until(&service, |status, body| status.contains("503") && body.contains("records-unavailable"));
    assert_eq!(service.metric("records_usable"), 0);
    service.rejoin(&node, DISK).unwrap();
    drop(held);
    service.next_line(&["Configuration reloaded", "attestation"]);
    health_until(&service, |status, _| status.contains("200"));
    assert_eq!(service.rejoin(&node.rebooted(IMAGE_2), DISK).unwrap().epoch, 1);
    let mut held = rig.directory.writer().unwrap();
    held.write_reference(&reference("3.0.0", IMAGE_2)).unwrap();
    health_until(&service, |_, body| body.contains("attestation is stale: the directory has not been read for"));
    let (status, log) = service.stop();
    assert_eq!(status.code(), Some(0), "{log}");
}

/// The call that was given up is not carried out behind its back by what is left of it.
#[test]
fn a_join_that_was_given_up_before_its_turn_leaves_no_record() {
    let (first, second) = (Machine::new(), Machine::new());
    let rig = Rig::new(&[&first, &second]);
    let service = rig.start();
    let held = rig.directory.writer().unwrap();
    // The first one's turn has come: it waits for the lock. The second one waits for the first.
    assert_eq!(service.join(&first, DISK, "worker-1").unwrap_err().code(), "record-not-written");
    assert_eq!(service.join(&second, OTHER, "worker-2").unwrap_err().code(), "record-not-written");
    drop(held);
    service.join(&first, DISK, "worker-1").unwrap();
    assert!(rig.record(&second).is_none(), "nobody waited for it any more");
    assert_eq!(service.metric("nodes"), 2);
}

#[test]
fn a_directory_that_is_gone_is_no_good_health() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let mut service = rig.start();
    assert_eq!(service.page("/healthz").1, "ok\n");
    fs::rename(rig.path("cluster"), rig.path("away")).unwrap();
    service.next_line(&["The nodes' records cannot be used"]);
    let (status, body) = service.page("/healthz");
    assert!(status.contains("503") && body.starts_with("records-unavailable: "), "{status} {body}");
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "record-not-written");
    fs::rename(rig.path("away"), rig.path("cluster")).unwrap();
    service.next_line(&["The nodes' records can be used again"]);
    health_until(&service, |status, _| status.contains("200"));
    service.join(&node, DISK, "worker-1").unwrap();
}

#[test]
fn a_record_that_could_not_be_written_is_no_good_health() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    // In the way of the file that the record is written to before it gets its name.
    let obstacle = rig.path(&format!("cluster/nodes/.{}.json.new", node.ek()));
    fs::create_dir(&obstacle).unwrap();
    assert_eq!(service.join(&node, DISK, "worker-1").unwrap_err().code(), "record-not-written");
    let (status, body) = service.page("/healthz");
    assert!(status.contains("503") && body.starts_with("records-unavailable: Cannot write"), "{status} {body}");
    fs::remove_dir(&obstacle).unwrap();
    service.join(&node, DISK, "worker-1").unwrap();
    assert!(service.page("/healthz").0.contains("200"));
}

/// A typo must not keep a policy of last year in force, and the service green.
#[test]
fn a_policy_that_stays_broken_is_no_good_health_after_the_configured_time() {
    let node = Machine::new();
    let mut rig = Rig::new(&[&node]);
    rig.config["limits"] = json!({ "stale_seconds": 1 });
    let mut service = rig.start();
    let policy = rig.path("cluster/policy.json");
    let good = fs::read(&policy).unwrap();
    let replace = |content: &[u8]| {
        fs::write(policy.with_extension("new"), content).unwrap();
        fs::rename(policy.with_extension("new"), &policy).unwrap();
    };
    replace(b"{");
    let body = health_until(&service, |status, _| status.contains("503"));
    assert!(
        body.starts_with("config-stale: attestation has been stale for ") && body.contains("policy.json"),
        "{body}"
    );
    assert!(service.metric("config_stale_seconds{part=\"attestation\"}") >= 1);
    service.join(&node, DISK, "worker-1").unwrap();
    replace(&good);
    service.next_line(&["Configuration reloaded", "attestation"]);
    assert_eq!(service.page("/healthz").1, "ok\n");
    assert_eq!(service.metric("config_stale_seconds{part=\"attestation\"}"), 0);
}

/// An alert that asks for a rate sees nothing of the first event of a series that it begins with.
#[test]
fn every_series_is_there_from_the_start_and_admissions_are_machines_that_were_let_in() {
    let node = Machine::new();
    let rig = Rig::new(&[&node]);
    let service = rig.start();
    let page = service.page("/metrics").1;
    for series in [
        "latchkey_join_service_requests_total{method=\"join\",outcome=\"role-denied\"} 0",
        "latchkey_join_service_requests_total{method=\"report\",outcome=\"report-invalid\"} 0",
        "latchkey_join_service_refusals_total{code=\"image-revoked\"} 0",
        "latchkey_join_service_certificates_total{signer=\"serving\",outcome=\"approved\"} 0",
        "latchkey_join_service_admissions_total{method=\"join\"} 0",
        "latchkey_join_service_handshakes_total 0",
        "latchkey_join_service_held 0",
        concat!("latchkey_join_service_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ] {
        assert!(page.lines().any(|line| line == series), "{series}: {page}");
    }
    for name in ["process_resident_memory_bytes ", "process_cpu_seconds_total ", "process_start_time_seconds "] {
        assert!(page.lines().any(|line| line.starts_with(name)), "{name}: {page}");
    }
    service.join(&node, DISK, "worker-1").unwrap();
    // It proved itself as well, and was not let in.
    service.rejoin(&node, OTHER).unwrap_err();
    assert_eq!(service.metric("admissions_total{method=\"join\"}"), 1);
    assert_eq!(service.metric("admissions_total{method=\"rejoin\"}"), 0);
    assert_eq!(service.metric("handshakes_total"), 2);
}

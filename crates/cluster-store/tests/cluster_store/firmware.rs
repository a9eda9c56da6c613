//! What a record keeps of a machine's firmware and of its TPM's counters.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use latchkey_attestation::reference::ExpectedEvent;
use latchkey_attestation::{Digest, EkDigest, FirmwareChange, MeasuredFirmware, PcrSet, PcrValues, Policy};
use latchkey_cluster_store::{BootSeen, ClusterStore, NodeRecord, Role, TpmBoot};
use serde_json::json;
use std::fs;

const EK: &str = "abababababababababababababababababababababababababababababababab";
const NOW: u64 = 1_800_000_000;

fn record() -> NodeRecord {
    let disk = "0a0a0a0a-0000-4000-8000-000000000001".parse().unwrap();
    NodeRecord::first(EkDigest::from_hex(EK).unwrap(), "w-1".parse().unwrap(), Role::Worker, disk, 1, NOW)
}

fn rule(warn: &[u8], refuse: &[u8]) -> FirmwareChange {
    let policy = json!({
        "version": 3, "ek_templates": ["ecc-p256"], "ak_algorithms": ["ecdsa-p256-sha256"], "lock": "pcr-15",
        "ak_trust": [{"kind": "pinned-ek", "ek_sha256": [EK]}], "pcrs": {"enforce": [11], "warn": []},
        "firmware_change": {"warn": warn, "refuse": refuse},
        "references": [{"manifest": "m", "minimum_version": "1.0.0", "unsigned": "trust-local-file"}],
    });
    Policy::from_json(policy.to_string().as_bytes()).unwrap().firmware_change()
}

/// A boot with these registers, each with one event.
fn seen(pcrs: &[(u8, u8)], boot: (u32, u32), rule: FirmwareChange) -> BootSeen {
    let values = PcrValues::new(pcrs.iter().map(|&(pcr, value)| (pcr, [value; 32])).collect()).unwrap();
    let event = |&(pcr, value): &(u8, u8)| ExpectedEvent::new(pcr, "EV_ACTION", "firmware", Digest([value; 32]));
    let events: Vec<_> = pcrs.iter().map(event).collect();
    let (reset_count, restart_count) = boot;
    BootSeen { firmware: MeasuredFirmware::new(&values, &events), boot: TpmBoot { reset_count, restart_count }, rule }
}

fn set(pcrs: &[u8]) -> PcrSet {
    PcrSet::of(pcrs).unwrap()
}

#[test]
fn a_change_is_kept_beside_what_was_recorded_until_it_is_accepted() {
    let warn = rule(&[0, 1, 2], &[]);
    let (first, other) = (seen(&[(0, 1), (2, 1)], (1, 0), warn), seen(&[(0, 1), (2, 2)], (2, 0), warn));
    let mut record = record();
    record.keep(&first, NOW);
    for boot in 0..3 {
        // It is told each time, and nothing is told of a machine that is as it was.
        assert!(!record.judge(&first).changed.contains(2));
        let again = BootSeen { boot: TpmBoot { reset_count: 2 + boot, restart_count: 0 }, ..other.clone() };
        assert_eq!(record.judge(&again).changed, set(&[2]));
        record.keep(&again, NOW + 10 + u64::from(boot));
        let kept = record.firmware.as_ref().unwrap();
        assert_eq!((&kept.measured, kept.recorded_at), (&first.firmware, NOW));
        let changed = kept.changed.as_ref().unwrap();
        assert_eq!((&changed.measured, changed.first_seen), (&other.firmware, NOW + 10));
    }
    assert!(!record.accept_firmware(&first.firmware.digest(), NOW + 20), "only what waits can be accepted");
    assert!(record.accept_firmware(&other.firmware.digest(), NOW + 20));
    assert_eq!(record.judge(&other).changed, PcrSet::EMPTY);
    assert_eq!(record.judge(&first).changed, set(&[2]), "the old firmware is the changed one now");
    let kept = record.firmware.unwrap();
    assert_eq!((kept.accepted_at, kept.changed), (Some(NOW + 20), None));
}

#[test]
fn a_machine_that_measures_again_what_is_on_record_has_no_change_left_to_accept() {
    let warn = rule(&[2], &[]);
    let (first, other) = (seen(&[(2, 1)], (1, 0), warn), seen(&[(2, 2)], (2, 0), warn));
    let mut record = record();
    record.keep(&first, NOW);
    record.keep(&other, NOW);
    let back = seen(&[(2, 1)], (3, 0), warn);
    assert!(record.judge(&back).is_news());
    record.keep(&back, NOW);
    assert_eq!(record.firmware.as_ref().unwrap().changed, None);
    assert!(!record.judge(&back).is_news());
    assert!(!record.accept_firmware(&other.firmware.digest(), NOW));
}

#[test]
fn of_a_refused_machine_nothing_but_the_change_is_kept() {
    let strict = rule(&[1], &[0, 2]);
    let mut record = record();
    record.keep(&seen(&[(0, 1)], (1, 0), strict), NOW);
    let bad = seen(&[(0, 9), (1, 9), (2, 9)], (2, 0), strict);
    let finding = record.judge(&bad);
    assert_eq!((finding.refused, finding.unrecorded), (set(&[0]), set(&[1, 2])));
    record.keep(&bad, NOW);
    let kept = record.firmware.as_ref().unwrap();
    assert_eq!(kept.measured.pcrs().set(), set(&[0]), "its other registers become no record");
    assert_eq!(kept.changed.as_ref().unwrap().measured, bad.firmware);
    assert_eq!(record.tpm.as_ref().unwrap().boot.reset_count, 1);
}

#[test]
fn a_register_that_the_policy_asks_for_later_is_recorded_then() {
    let mut record = record();
    record.keep(&seen(&[(0, 1)], (1, 0), rule(&[0], &[])), NOW);
    let more = seen(&[(0, 1), (2, 1)], (2, 0), rule(&[], &[0, 2]));
    let finding = record.judge(&more);
    assert_eq!((finding.unrecorded, finding.refused), (set(&[2]), PcrSet::EMPTY));
    record.keep(&more, NOW);
    assert_eq!(record.firmware.as_ref().unwrap().measured, more.firmware);
    // One that it does not ask for any more stays on record.
    record.keep(&seen(&[(0, 1)], (3, 0), rule(&[0], &[])), NOW);
    assert_eq!(record.firmware.as_ref().unwrap().measured, more.firmware);
}

#[test]
fn the_counters_of_a_boot_that_was_locked_do_not_come_again_without_its_lock() {
    let none = rule(&[], &[]);
    let boot = |reset, restart| seen(&[], (reset, restart), none);
    let mut record = record();
    record.keep(&boot(7, 0), NOW);
    // Asking again before the lock is what nodes do whose ticket was lost.
    assert!(!record.judge(&boot(7, 0)).already_locked);
    assert!(record.keep_lock(TpmBoot { reset_count: 7, restart_count: 0 }));
    assert!(record.judge(&boot(7, 0)).already_locked);
    for (reset, restart) in [(8, 0), (7, 1)] {
        assert!(!record.judge(&boot(reset, restart)).already_locked, "a restart has counted");
    }
    let before = record.clone();
    record.keep(&boot(7, 0), NOW);
    assert_eq!(record, before, "what is refused writes nothing");
    // A TPM that was cleared counts from zero, and so does an older state of it that was brought back.
    let cleared = record.judge(&boot(1, 0));
    assert!(cleared.went_back && !cleared.already_locked && cleared.is_news());
    record.keep(&boot(1, 0), NOW + 5);
    let tpm = record.tpm.clone().unwrap();
    assert_eq!((tpm.boot.reset_count, tpm.locked, tpm.went_back_at), (1, false, Some(NOW + 5)));
    assert!(!record.judge(&boot(2, 0)).is_news(), "told once");
}

#[test]
fn a_report_that_a_restart_overtook_changes_nothing_of_the_later_boot() {
    let boot = |reset_count| TpmBoot { reset_count, restart_count: 0 };
    let mut record = record();
    assert!(record.keep_lock(boot(8)), "the first that is known");
    for late in [7, 1, 0] {
        let before = record.clone();
        assert!(!record.keep_lock(boot(late)));
        assert_eq!(record, before);
    }
    assert!(record.judge(&seen(&[], (8, 0), rule(&[], &[]))).already_locked, "the lock of the later boot stays known");
    assert!(record.keep_lock(boot(9)));
    assert_eq!(record.tpm.unwrap().went_back_at, None);
}

#[test]
fn a_waiting_change_is_not_forgotten_by_a_boot_in_which_its_registers_were_not_asked_for() {
    let strict = rule(&[], &[0, 2]);
    let mut record = record();
    record.keep(&seen(&[(0, 1), (2, 1)], (1, 0), strict), NOW);
    record.keep(&seen(&[(0, 9), (2, 1)], (2, 0), strict), NOW);
    let waiting = record.firmware.as_ref().unwrap().changed.clone();
    assert!(waiting.is_some());
    // A manifest or a policy takes the register out of sight; what is seen is as on record.
    for unseeing in [seen(&[], (3, 0), strict), seen(&[(2, 1)], (3, 0), strict)] {
        assert!(!record.judge(&unseeing).is_news());
        record.keep(&unseeing, NOW);
        assert_eq!(record.firmware.as_ref().unwrap().changed, waiting);
    }
    // The register that differed, as it was before, ends it; the others need not be there.
    record.keep(&seen(&[(0, 1)], (4, 0), strict), NOW);
    assert_eq!(record.firmware.as_ref().unwrap().changed, None);
}

#[test]
fn a_record_without_firmware_is_read_and_one_with_it_is_checked() {
    let files = tempfile::tempdir().unwrap();
    let store = ClusterStore::make(files.path()).unwrap();
    let path = files.path().join(format!("nodes/{EK}.json"));
    let old = json!({
        "version": 1, "ek_sha256": EK, "name": "w-1", "role": "worker", "first_joined_at": NOW,
        "disks": [{"uuid": "0a0a0a0a-0000-4000-8000-000000000001", "epoch": 1, "state": "confirmed", "key_version": 1, "issued_at": NOW}],
    });
    fs::write(&path, old.to_string()).unwrap();
    let mut read = store.record(&record().ek_sha256).unwrap().unwrap().into_inner();
    assert_eq!((&read.firmware, &read.tpm), (&None, &None));
    let first = seen(&[(0, 1), (2, 1)], (1, 0), rule(&[0, 2], &[]));
    assert_eq!(read.judge(&first).unrecorded, set(&[0, 2]));
    read.keep(&first, NOW);
    read.keep(&seen(&[(0, 1), (2, 2)], (2, 0), rule(&[0, 2], &[])), NOW);
    store.writer().unwrap().put(&read).unwrap();
    assert_eq!(store.record(&read.ek_sha256).unwrap().as_deref(), Some(&read));
    let good = fs::read_to_string(&path).unwrap();
    for (part, bad) in [
        ("\"pcrs\": {\n        \"0\"", "\"pcrs\": {\n        \"4\""),
        ("\"reset_count\": 2", "\"reset_count\": -2"),
        ("\"recorded_at\"", "\"recorded\""),
        ("\"what\": \"firmware\"", "\"what\": \"firm\\nware\""),
    ] {
        assert!(good.contains(part), "{part}: {good}");
        fs::write(&path, good.replacen(part, bad, 1)).unwrap();
        assert!(store.record(&read.ek_sha256).is_err(), "{bad}");
    }
}

#[test]
fn the_largest_record_can_be_read_again() {
    let files = tempfile::tempdir().unwrap();
    let store = ClusterStore::make(files.path()).unwrap();
    let (mut record, warn) = (record(), rule(&[0, 1, 2, 3, 6], &[]));
    let of = |value: u8| {
        let values = PcrValues::new([0, 1, 2, 3, 6].map(|pcr| (pcr, [value; 32])).into()).unwrap();
        let event = ExpectedEvent::new(2, "EV_ACTION", &"\"".repeat(5000), Digest([value; 32]));
        let firmware = MeasuredFirmware::new(&values, &vec![event; MeasuredFirmware::MAX_EVENTS]);
        BootSeen { firmware, boot: TpmBoot::default(), rule: warn }
    };
    record.keep(&of(1), NOW);
    record.keep(&of(2), NOW);
    record.retired = (0..256).map(|_| latchkey_keys::Uuid::random().unwrap()).collect();
    store.writer().unwrap().put(&record).unwrap();
    assert_eq!(store.record(&record.ek_sha256).unwrap().as_deref(), Some(&record));
}

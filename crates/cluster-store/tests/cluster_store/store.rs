//! Files as operators, crashes and other programs leave them.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use latchkey_attestation::reference::{Description, ManifestName, Origin, PlatformProfile, Reference};
use latchkey_attestation::{
    AuthenticManifest, Digest, EkDigest, FirmwareStanding, Policy, ReasonCode, ReferenceValues, References,
};
use latchkey_cluster_store::{
    ClusterFile, ClusterStore, ContentError, Enrolment, MAX_PAYLOAD, MAX_PENDING, NodeRecord, Part, PendingRecord,
    ReleaseError, Role, StoreError,
};
use latchkey_keys::ClusterId;
use latchkey_test_support::in_time;
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

fn directory() -> (TempDir, ClusterStore) {
    let files = tempfile::tempdir().unwrap();
    let directory = ClusterStore::make(files.path()).unwrap();
    (files, directory)
}

fn ek(byte: u8) -> EkDigest {
    EkDigest::from_hex(&format!("{byte:02x}").repeat(32)).unwrap()
}

fn record(byte: u8, name: &str) -> NodeRecord {
    let disk = format!("0a0a0a0a-0000-4000-8000-{byte:012}").parse().unwrap();
    NodeRecord::first(ek(byte), name.parse().unwrap(), Role::Worker, disk, 1, 1_800_000_000)
}

fn cluster() -> ClusterFile {
    ClusterFile::new("demo", ClusterId::from_bytes([0xc1; 32]), [0x5a; 32], 1, 1_800_000_000)
}

#[test]
fn a_cluster_is_made_once_with_its_first_node() {
    let (_files, directory) = directory();
    assert_eq!(directory.cluster().unwrap(), None);
    let mut writer = directory.writer().unwrap();
    writer.initialise(&cluster(), &record(1, "cp-1")).unwrap();
    assert_eq!(directory.cluster().unwrap(), Some(cluster()));
    assert_eq!(directory.record(&ek(1)).unwrap().as_deref(), Some(&record(1, "cp-1")));
    let mut other = cluster();
    other.name = "other".into();
    assert!(matches!(writer.initialise(&other, &record(2, "cp-2")), Err(StoreError::Exists { .. })));
    assert_eq!(directory.cluster().unwrap(), Some(cluster()));
    assert_eq!(directory.record(&ek(2)).unwrap(), None, "nothing was written for the second one");
}

#[test]
fn a_power_cut_between_the_first_record_and_the_cluster_leaves_no_cluster() {
    let (_files, directory) = directory();
    directory.writer().unwrap().put(&record(1, "cp-1")).unwrap();
    assert_eq!(directory.cluster().unwrap(), None);
    directory.writer().unwrap().initialise(&cluster(), &record(1, "cp-1")).unwrap();
}

/// A pipe without a writer would hold its reader for ever.
#[test]
fn what_is_no_regular_file_is_refused_before_it_is_read() {
    let (files, directory) = directory();
    let path = files.path().join("enrolment.json");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = directory.clone();
    let read = in_time("a pipe in the place of a file", move || reader.enrolment());
    assert!(matches!(read, Err(StoreError::Malformed { fault: ContentError::NotRegular, .. })), "{read:?}");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let read = directory.enrolment();
    assert!(matches!(read, Err(StoreError::Malformed { fault: ContentError::NotRegular, .. })), "{read:?}");
}

#[test]
fn half_written_files_are_never_read_and_go_with_the_next_start() {
    let (files, directory) = directory();
    directory.writer().unwrap().put(&record(1, "cp-1")).unwrap();
    let half = files.path().join(format!("nodes/.new-77-{}.json", ek(2)));
    let other = files.path().join(format!("nodes/.{}.json.new", ek(3)));
    fs::write(&half, "{\"ver").unwrap();
    fs::write(&other, "{\"ver").unwrap();
    assert_eq!(directory.records().unwrap().len(), 1);
    directory.writer().unwrap().tidy().unwrap();
    assert!(!half.exists() && !other.exists());
    assert_eq!(directory.record(&ek(1)).unwrap().as_deref(), Some(&record(1, "cp-1")));
}

#[test]
fn a_directory_that_leads_elsewhere_is_none_of_the_clusters() {
    let (elsewhere, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(elsewhere.path(), files.path().join("denied")).unwrap();
    assert!(matches!(ClusterStore::make(files.path()), Err(StoreError::Io { action: "make", .. })));
    assert!(matches!(ClusterStore::open(files.path()), Err(StoreError::Place { .. })));
}

#[test]
fn writers_take_turns_and_count() {
    let (_files, directory) = directory();
    let mut first = directory.writer().unwrap();
    assert_eq!(first.writes(), 0);
    let (begun, waits) = std::sync::mpsc::channel();
    let second = std::thread::spawn({
        let directory = directory.clone();
        move || {
            begun.send(()).unwrap();
            directory.writer().unwrap().writes()
        }
    });
    waits.recv().unwrap();
    for byte in 1..=3 {
        first.put(&record(byte, &format!("w-{byte}"))).unwrap();
    }
    drop(first);
    let seen = in_time("the second writer", move || second.join().unwrap());
    assert_eq!(seen, 3, "the second one sees what the first one wrote");
}

#[test]
fn a_record_under_another_tpms_name_is_refused() {
    let (files, directory) = directory();
    directory.writer().unwrap().put(&record(1, "cp-1")).unwrap();
    let nodes = files.path().join("nodes");
    fs::copy(nodes.join(format!("{}.json", ek(1))), nodes.join(format!("{}.json", ek(2)))).unwrap();
    let error = directory.record(&ek(2)).unwrap_err().to_string();
    assert!(error.contains("not of the one in the file's name"), "{error}");
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_name() {
    type Fault = fn(&ContentError) -> bool;
    let (files, directory) = directory();
    let json = serde_json::to_string(&cluster()).unwrap();
    let table: [(String, Fault); 9] = [
        (json.replace("\"version\":2", "\"version\":1"), |fault| matches!(fault, ContentError::Rule(_))),
        (json.replace(",\"denials\":{\"count\":0}", ""), |fault| matches!(fault, ContentError::Rule(_))),
        // None of them is being taken back.
        (json.replace("\"version\":2", "\"version\":3"), |fault| matches!(fault, ContentError::Rule(_))),
        (json.replace("\"version\":2", "\"version\":4"), |fault| {
            matches!(fault, ContentError::Version { got: 4, known: 3 })
        }),
        (json.replace("\"name\"", "\"debug\":1,\"name\""), |fault| matches!(fault, ContentError::Syntax(_))),
        (json.replace("\"demo\"", "\"\""), |fault| matches!(fault, ContentError::Rule(_))),
        (json.replace(&"5a".repeat(32), "5a"), |fault| matches!(fault, ContentError::Syntax(_))),
        (json.replace("\"key_version\":1", "\"key_version\":0"), |fault| matches!(fault, ContentError::Rule(_))),
        (" ".repeat(1024 * 1024 + 1), |fault| matches!(fault, ContentError::TooLarge(_))),
    ];
    for (text, expected) in table {
        fs::write(files.path().join("cluster.json"), &text).unwrap();
        let error = directory.cluster().unwrap_err();
        assert!(error.to_string().contains("cluster.json"), "{error}");
        assert!(matches!(&error, StoreError::Malformed { fault, .. } if expected(fault)), "{error}");
    }
    fs::write(files.path().join("payload"), vec![0; MAX_PAYLOAD + 1]).unwrap();
    assert!(directory.payload().is_err());
}

#[test]
fn a_record_that_breaks_its_own_rules_is_neither_written_nor_read() {
    type Spoil = fn(&mut NodeRecord);
    let (files, directory) = directory();
    let good = record(1, "w-1");
    let table: [Spoil; 6] = [
        |record| record.disks.clear(),
        |record| record.disks = (0..9).map(|_| record.disks[0].clone()).collect(),
        |record| record.disks.push(record.disks[0].clone()),
        |record| record.retired.push(record.disks[0].uuid),
        |record| record.disks[0].epoch = 0,
        |record| record.version = 2,
    ];
    for (number, spoil) in table.into_iter().enumerate() {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert!(directory.writer().unwrap().put(&bad).is_err(), "{number}");
        fs::write(files.path().join(format!("nodes/{}.json", ek(1))), bad.to_json()).unwrap();
        assert!(directory.record(&ek(1)).is_err(), "{number}");
    }
}

#[test]
fn rules_that_contradict_themselves_are_refused() {
    let mut rules = Enrolment::workers_and([ek(1), ek(2)]);
    let parse = |rules: &Enrolment| Enrolment::parse(&serde_json::to_vec(rules).unwrap());
    assert_eq!(parse(&rules).unwrap(), rules);
    for rule in &mut rules.pinned {
        rule.name = Some("cp-1".parse().unwrap());
    }
    assert!(matches!(parse(&rules), Err(ContentError::Rule(_))));
    assert!(matches!(parse(&Enrolment::workers_and([ek(1), ek(1)])), Err(ContentError::Rule(_))));
    assert!(parse(&Enrolment::workers_and([])).is_ok());
    assert!(Enrolment::parse(br#"{"version": 1, "pinned": []}"#).is_err(), "there is no default for the default rule");
}

#[test]
fn fingerprints_follow_content_through_links_and_nothing_else() {
    let (files, directory) = directory();
    let path = |name: &str| files.path().join(name);
    let absent = directory.fingerprint(Part::Enrolment);
    fs::write(path("v1"), "one").unwrap();
    symlink("v1", path("enrolment.json")).unwrap();
    let one = directory.fingerprint(Part::Enrolment);
    assert_ne!(absent, one);
    fs::write(path("v1"), "one").unwrap();
    assert_eq!(directory.fingerprint(Part::Enrolment), one);
    fs::write(path("v2"), "two").unwrap();
    symlink("v2", path("next")).unwrap();
    fs::rename(path("next"), path("enrolment.json")).unwrap();
    assert_ne!(directory.fingerprint(Part::Enrolment), one);
    let attestation = directory.fingerprint(Part::Attestation);
    fs::create_dir(path("references")).unwrap();
    fs::write(path("references/a.json"), "{}").unwrap();
    assert_ne!(directory.fingerprint(Part::Attestation), attestation);
}

proptest! {
    #[test]
    fn bytes_that_are_none_of_ours_are_refused_in_any_file_and_it_is_named(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (files, directory) = directory();
        let nodes = format!("nodes/{}.json", ek(1));
        for name in ["cluster.json", "enrolment.json", "policy.json", "revisions.json", &nodes] {
            fs::write(files.path().join(name), &bytes).unwrap();
        }
        let policy = policy_of(&[manifest("edge", 1, "edge-1")]);
        let refused = [
            ("cluster.json", directory.cluster().err()),
            ("enrolment.json", directory.enrolment().err()),
            ("policy.json", directory.policy().err()),
            ("revisions.json", directory.references(&policy).err()),
            (&nodes, directory.record(&ek(1)).err()),
        ];
        for (name, error) in refused {
            let path = error.map(|error| error.path().to_owned());
            prop_assert_eq!(path, Some(files.path().join(name)));
        }
        // Who lists them learns of the damaged one.
        let records = directory.records().unwrap();
        prop_assert_eq!((records.len(), records.iter().filter(|record| record.is_err()).count()), (1, 1));
    }

    #[test]
    fn a_changed_byte_of_a_record_never_makes_another_tpms_record(at in 0..600_usize, byte: u8) {
        let (files, directory) = directory();
        let mut json = record(1, "w-1").to_json().into_bytes();
        let at = at % json.len();
        json[at] = byte;
        fs::write(files.path().join(format!("nodes/{}.json", ek(1))), &json).unwrap();
        // It is there: it may be refused, and is never passed over.
        if let Ok(read) = directory.record(&ek(1)) {
            prop_assert_eq!(read.map(|record| record.ek_sha256), Some(ek(1)));
        }
    }
}

fn manifest(name: &str, serial: u64, image: &str) -> AuthenticManifest {
    let manifest = ManifestName::new(name).unwrap();
    let about = Description { manifest, serial, image, version: "1.0.0".parse().unwrap(), by: "a test", at: None };
    let value = Digest([7; 32]);
    let origin = Origin { products: [("image.raw".to_owned(), value)].into(), ..Origin::default() };
    let machine = PlatformProfile::new("test", [(11, Reference::enforced(value))].into());
    AuthenticManifest::local(ReferenceValues::predicted(&about, origin, vec![machine]).unwrap())
}

fn references(manifests: &[AuthenticManifest]) -> References {
    References::new(&policy_of(manifests), manifests.to_vec()).unwrap()
}

fn policy_of(manifests: &[AuthenticManifest]) -> Policy {
    let rule = |manifest: &AuthenticManifest| {
        let name = manifest.values().name();
        serde_json::json!({"manifest": name, "minimum_version": "0.0.0", "unsigned": "trust-local-file"})
    };
    let policy = serde_json::json!({
        "version": 3, "ek_templates": ["ecc-p256"],
        "ak_trust": [{"kind": "pinned-ek", "ek_sha256": [ek(1)]}], "lock": "pcr-15",
        "ak_algorithms": ["ecdsa-p256-sha256"], "pcrs": {"enforce": [11], "warn": []},
        "references": manifests.iter().map(rule).collect::<Vec<_>>(),
    });
    Policy::from_json(policy.to_string().as_bytes()).unwrap()
}

fn code(error: &StoreError) -> Option<ReasonCode> {
    match error {
        StoreError::Malformed { fault: ContentError::Attestation(refusal), .. } => Some(refusal.code()),
        _ => None,
    }
}

#[test]
fn no_revision_older_than_one_that_was_accepted_is_accepted_again() {
    let (files, directory) = directory();
    let accept = |manifests: &[AuthenticManifest]| directory.remember(&references(manifests), 1_800_000_000);
    accept(&[manifest("edge", 5, "edge"), manifest("bench", 1, "bench")]).unwrap();
    accept(&[manifest("edge", 5, "edge")]).unwrap();
    let older = accept(&[manifest("edge", 4, "edge")]).unwrap_err();
    assert_eq!(code(&older), Some(ReasonCode::ReferenceRolledBack));
    let other = accept(&[manifest("edge", 5, "other")]).unwrap_err();
    assert_eq!(code(&other), Some(ReasonCode::ReferenceSerialReused));
    // What was refused is not remembered for its other manifests either.
    accept(&[manifest("bench", 9, "bench"), manifest("edge", 4, "edge")]).unwrap_err();
    accept(&[manifest("bench", 2, "bench")]).unwrap();
    // A manifest that the policy does not name any more is not forgotten.
    accept(&[manifest("edge", 6, "edge")]).unwrap();
    assert_eq!(code(&accept(&[manifest("bench", 1, "bench")]).unwrap_err()), Some(ReasonCode::ReferenceRolledBack));
    let again = ClusterStore::open(files.path()).unwrap();
    assert!(again.remember(&references(&[manifest("edge", 5, "edge")]), 0).is_err(), "it is on the disk");
}

/// The largest serial would lock out every later revision for ever.
#[test]
fn an_operator_goes_back_behind_a_revision_that_was_accepted_by_mistake_and_only_that_one() {
    const LARGEST: u64 = (1 << 53) - 1;
    let (_files, directory) = directory();
    let accept = |manifests: &[AuthenticManifest]| directory.remember(&references(manifests), 1_800_000_000);
    accept(&[manifest("edge", LARGEST, "edge"), manifest("bench", 9, "bench")]).unwrap();
    assert_eq!(code(&accept(&[manifest("edge", 6, "edge")]).unwrap_err()), Some(ReasonCode::ReferenceRolledBack));
    directory.writer().unwrap().go_back_to(&manifest("edge", 6, "edge"), 1_800_000_001).unwrap();
    accept(&[manifest("edge", 6, "edge")]).unwrap();
    for older in [manifest("edge", 5, "edge"), manifest("bench", 8, "bench")] {
        assert_eq!(code(&accept(&[older]).unwrap_err()), Some(ReasonCode::ReferenceRolledBack));
    }
    accept(&[manifest("edge", 7, "edge")]).unwrap();
}

#[test]
fn two_programs_that_accept_at_once_forget_nothing_for_each_other() {
    let (_files, directory) = directory();
    let accept = |name: &'static str| {
        let directory = directory.clone();
        std::thread::spawn(move || {
            for serial in 1..=20 {
                directory.remember(&references(&[manifest(name, serial, "image")]), 0).unwrap();
            }
        })
    };
    for done in [accept("a"), accept("b"), accept("c")] {
        in_time("one that accepts", move || done.join().unwrap());
    }
    for name in ["a", "b", "c"] {
        assert!(directory.remember(&references(&[manifest(name, 19, "image")]), 0).is_err(), "{name}");
    }
}

#[test]
fn a_memory_of_revisions_that_is_damaged_accepts_nothing() {
    let (files, directory) = directory();
    let path = files.path().join("revisions.json");
    directory.remember(&references(&[manifest("edge", 5, "edge")]), 0).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    for bad in ["", "{", &good.replace("\"version\": 1", "\"version\": 2"), &good.replace("serial", "serials")] {
        assert_ne!(bad, good);
        fs::write(&path, bad).unwrap();
        assert!(directory.remember(&references(&[manifest("edge", 6, "edge")]), 0).is_err(), "{bad}");
    }
}

#[test]
fn machines_that_wait_are_bounded_and_the_most_silent_go_first() {
    let (_files, directory) = directory();
    let ek_of = |number: usize| EkDigest::from_hex(&format!("{number:064x}")).unwrap();
    let disk = "0a0a0a0a-0000-4000-8000-000000000001".parse().unwrap();
    let asks = |number: usize, at: u64| PendingRecord::new(ek_of(number), "edge\u{1b}[2J", None, disk, at);
    let hold = |number, at| directory.writer().unwrap().hold(&asks(number, at)).unwrap();
    for number in 0..MAX_PENDING {
        hold(number, 1000 + number as u64);
    }
    // The first one asks again, so the second one is the most silent when there is no room.
    hold(0, 9000);
    hold(MAX_PENDING, 9001);
    let pending = directory.pending().unwrap();
    assert_eq!(pending.len(), MAX_PENDING);
    assert_eq!((pending[0].ek_sha256, pending[0].first_seen, pending[0].last_seen), (ek_of(0), 1000, 9000));
    assert!(pending.iter().all(|one| one.ek_sha256 != ek_of(1)));
    assert_eq!(pending[0].asks_for_name, "edge\u{fffd}[2J");
    directory.writer().unwrap().forget_pending(&ek_of(0)).unwrap();
    assert_eq!(directory.pending().unwrap().len(), MAX_PENDING - 1);
}

/// A file of a service of before says nothing of firmware; the machine's next question says it.
#[test]
fn a_machine_that_waits_is_read_in_the_version_before_and_written_in_this_one() {
    let (files, directory) = directory();
    let disk = "0a0a0a0a-0000-4000-8000-000000000001".parse().unwrap();
    let asks = PendingRecord::new(ek(1), "edge-1", None, disk, 1000).on_firmware(FirmwareStanding::Unknown);
    directory.writer().unwrap().hold(&asks).unwrap();
    assert_eq!(directory.pending().unwrap(), std::slice::from_ref(&asks));
    let path = files.path().join("pending").join(format!("{}.json", ek(1)));
    let mut before: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((&before["version"], &before["firmware"]["standing"]), (&2.into(), &"unknown".into()));
    before.as_object_mut().unwrap().remove("firmware");
    before["version"] = 1.into();
    fs::write(&path, before.to_string()).unwrap();
    assert_eq!(directory.pending().unwrap()[0].firmware, FirmwareStanding::NotJudged);
    directory.writer().unwrap().hold(&asks).unwrap();
    assert_eq!(directory.pending().unwrap(), [asks]);
    before["version"] = 3.into();
    assert!(PendingRecord::parse(before.to_string().as_bytes()).is_err());
}

#[test]
fn a_disk_is_released_to_the_machine_on_whose_record_it_is_and_to_no_other() {
    let (_files, directory) = directory();
    let mine = record(1, "one").disks[0].uuid;
    let code = |ek, disk| match directory.release(&ek, disk) {
        Err(ReleaseError::Refused(refusal)) => refusal.code().as_str(),
        Err(ReleaseError::Store(error)) => panic!("{error}"),
        Ok(_) => "released",
    };
    assert_eq!(code(ek(1), mine), "machine-not-on-record");
    directory.writer().unwrap().put(&record(1, "one")).unwrap();
    directory.writer().unwrap().put(&record(2, "two")).unwrap();
    assert_eq!(code(ek(1), mine), "released");
    assert_eq!(code(ek(2), mine), "disk-of-another-machine");
    assert_eq!(code(ek(3), mine), "disk-of-another-machine");
    assert_eq!(code(ek(1), "0a0a0a0a-0000-4000-8000-000000000099".parse().unwrap()), "disk-not-on-record");
    // That another one is not shut out says nothing of this one.
    let (others, stands) = (directory.not_denied(&ek(2)).unwrap(), directory.record(&ek(1)).unwrap().unwrap());
    assert_eq!(stands.release(mine, &others).unwrap_err().code().as_str(), "machine-denied");
    // Nor does a record that may be another's yet.
    let own = directory.not_denied(&ek(1)).unwrap();
    assert!(stands.release(mine, &own).is_ok());
    assert_eq!(stands.unconfirmed().release(mine, &own).unwrap_err().code().as_str(), "machine-not-on-record");
    directory.deny(&ek(1), "").unwrap();
    assert_eq!(code(ek(1), mine), "machine-denied");
}

//! Places that are gone, denials that are lost, and a cluster of the version before.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use latchkey_attestation::EkDigest;
use latchkey_cluster_store::{
    ClusterFile, ClusterStore, CountedDenials, FolderRecords, NodeRecord, ReleaseError, Role, StoreError,
};
use latchkey_keys::ClusterId;
use latchkey_test_support::in_time;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn ek(byte: u8) -> EkDigest {
    EkDigest::from_hex(&format!("{byte:02x}").repeat(32)).unwrap()
}

/// A cluster's document, and the record of its first node.
fn founded() -> (ClusterFile, NodeRecord) {
    let file = ClusterFile::new("demo", ClusterId::from_bytes([0xc1; 32]), [0x5a; 32], 1, 1_800_000_000);
    let disk = "0a0a0a0a-0000-4000-8000-000000000001".parse().unwrap();
    (file, NodeRecord::first(ek(1), "cp-1".parse().unwrap(), Role::ControlPlane, disk, 1, 1_800_000_000))
}

/// A cluster with one node.
fn cluster() -> (TempDir, ClusterStore) {
    let files = tempfile::tempdir().unwrap();
    let directory = ClusterStore::make(files.path()).unwrap();
    let (file, first) = founded();
    directory.writer().unwrap().initialise(&file, &first).unwrap();
    (files, directory)
}

fn counted(directory: &ClusterStore) -> CountedDenials {
    directory.cluster().unwrap().unwrap().denials.unwrap()
}

/// Every path below a directory.
fn paths(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(paths(&path));
        }
        found.insert(path);
    }
    found
}

#[test]
fn a_place_that_is_gone_is_refused_and_nothing_is_left_behind() {
    for place in ["nodes", "denied"] {
        let (files, directory) = cluster();
        fs::remove_dir_all(files.path().join(place)).unwrap();
        let before = paths(files.path());
        let error = ClusterStore::open(files.path()).unwrap_err();
        assert!(matches!(&error, StoreError::Place { path, .. } if path.ends_with(place)), "{error}");
        let command = format!("latchkey upgrade store --cluster {}", files.path().display());
        assert!(error.to_string().contains(&command) && error.to_string().contains("cluster-place-missing"), "{error}");
        if place == "denied" {
            // Whoever opened it before does not make it anew either.
            assert!(matches!(directory.deny(&ek(7), ""), Err(StoreError::Place { .. })));
            assert!(matches!(directory.allow(&ek(7)), Err(StoreError::Place { .. })));
            assert!(matches!(directory.not_denied(&ek(7)), Err(ReleaseError::Store(StoreError::Place { .. }))));
        } else {
            assert!(matches!(directory.records(), Err(StoreError::Place { .. })));
        }
        assert_eq!(paths(files.path()), before, "{place}");
        assert_eq!(directory.missing_places().unwrap(), [files.path().join(place)]);
    }
}

#[test]
fn denials_are_counted_and_one_that_gets_lost_stops_every_release() {
    let (files, directory) = cluster();
    for byte in 7..10 {
        directory.deny(&ek(byte), "stolen").unwrap();
        directory.deny(&ek(byte), "twice").unwrap();
    }
    assert_eq!(counted(&directory), CountedDenials { last: Some(ek(9)), ..CountedDenials::of(3) });
    assert!(directory.allow(&ek(9)).unwrap());
    assert_eq!(counted(&directory), CountedDenials::of(2));
    // By hand: it counts as a denial, and is missed by nobody.
    fs::write(files.path().join(format!("denied/{}", ek(5))), "").unwrap();
    drop(directory.not_denied(&ek(1)).unwrap());
    fs::remove_file(files.path().join(format!("denied/{}", ek(5)))).unwrap();
    drop(directory.not_denied(&ek(1)).unwrap());
    fs::remove_file(files.path().join(format!("denied/{}", ek(7)))).unwrap();
    let code = |ek| match directory.not_denied(&ek) {
        Err(ReleaseError::Refused(refusal)) => refusal.code().as_str(),
        other => panic!("{other:?}"),
    };
    assert_eq!((code(ek(1)), code(ek(7)), code(ek(8))), ("denials-lost", "denials-lost", "machine-denied"));
    // Who denies others makes nobody forget it.
    directory.deny(&ek(6), "").unwrap();
    assert_eq!((code(ek(1)), counted(&directory).count), ("denials-lost", 3));
    assert!(!directory.count_anew(3).unwrap(), "there are two");
    assert_eq!(code(ek(1)), "denials-lost");
    assert!(directory.count_anew(2).unwrap());
    drop(directory.not_denied(&ek(1)).unwrap());
}

#[test]
fn a_denial_counts_while_every_other_file_is_broken() {
    let (files, directory) = cluster();
    directory.deny(&ek(7), "stolen").unwrap();
    let cluster_json = fs::read(files.path().join("cluster.json")).unwrap();
    for name in ["policy.json", "enrolment.json", "cluster.json", "denied/not-a-digest", "nodes/x.json"] {
        fs::write(files.path().join(name), "{").unwrap();
    }
    // By hand, as somebody does it in a hurry; what is in the file does not matter, nor that it is a directory.
    fs::write(files.path().join(format!("denied/{}.json", ek(8).to_string().to_uppercase())), b"\xff{").unwrap();
    fs::create_dir(files.path().join(format!("denied/{}", ek(9)))).unwrap();
    let denials = directory.denials().unwrap();
    assert!([7, 8, 9].iter().all(|byte| denials.has(&ek(*byte))), "{denials:?}");
    assert!(!denials.has(&ek(6)));
    assert_eq!(denials.unreadable(), ["not-a-digest"]);
    assert_eq!(directory.denial_reason(&ek(7)).unwrap(), "stolen");
    fs::write(files.path().join("cluster.json"), cluster_json).unwrap();
    assert!(directory.allow(&ek(7)).unwrap());
    assert!(directory.allow(&ek(8)).unwrap());
    assert!(!directory.allow(&ek(7)).unwrap());
    assert_eq!(directory.denials().unwrap().iter().collect::<Vec<_>>(), [&ek(9)]);
}

#[test]
fn denials_that_cannot_be_listed_are_an_error_and_not_none() {
    let (files, directory) = cluster();
    fs::remove_dir(files.path().join("denied")).unwrap();
    assert!(matches!(directory.denials(), Err(StoreError::Place { .. })));
}

/// The emergency path.
#[test]
fn a_machine_is_shut_out_although_it_cannot_be_counted() {
    let (files, directory) = cluster();
    fs::write(files.path().join("cluster.json"), "{").unwrap();
    let error = directory.deny(&ek(7), "stolen").unwrap_err();
    assert!(matches!(error, StoreError::NotCounted { .. }) && error.to_string().contains("cluster.json"), "{error}");
    assert!(directory.denials().unwrap().has(&ek(7)));
    assert!(directory.allow(&ek(7)).is_err(), "it stays shut out");
    assert!(directory.denials().unwrap().has(&ek(7)));
}

/// Whoever follows the cluster's document hears of it.
#[test]
fn a_machine_is_shut_out_although_it_cannot_be_listed() {
    let (files, directory) = cluster();
    // What has the name of the file that is being written, and cannot be removed.
    let in_the_way = files.path().join(format!("denied/.{}.new", ek(7)));
    fs::create_dir(&in_the_way).unwrap();
    let error = directory.deny(&ek(7), "stolen").unwrap_err();
    assert!(matches!(error, StoreError::NotListed { .. }), "{error}");
    assert!(error.to_string().contains("denial-not-listed") && error.path().starts_with(files.path()), "{error}");
    assert!(directory.denials().unwrap().has(&ek(7)));
    fs::remove_dir(&in_the_way).unwrap();
    directory.deny(&ek(7), "stolen").unwrap();
    assert_eq!(
        (directory.denials().unwrap().lost(), directory.denial_reason(&ek(7)).unwrap()),
        (0, "stolen".to_owned())
    );
    // Where nothing counts, a denial that is not listed is none.
    let mut cluster = directory.cluster().unwrap().unwrap();
    (cluster.version, cluster.denials) = (1, None);
    fs::write(files.path().join("cluster.json"), cluster.to_json()).unwrap();
    fs::create_dir(files.path().join(format!("denied/.{}.new", ek(8)))).unwrap();
    assert!(matches!(directory.deny(&ek(8), "").unwrap_err(), StoreError::Io { .. }));
    assert!(!directory.denials().unwrap().has(&ek(8)));
    // But one that was listed before is.
    directory.deny(&ek(9), "").unwrap();
    fs::create_dir(files.path().join(format!("denied/.{}.new", ek(9)))).unwrap();
    assert!(matches!(directory.deny(&ek(9), "again").unwrap_err(), StoreError::NotListed { .. }));
}

#[test]
fn two_who_deny_and_allow_at_once_forget_nothing_for_each_other() {
    let (_files, directory) = cluster();
    let work = |bytes: std::ops::Range<u8>| {
        let directory = directory.clone();
        std::thread::spawn(move || {
            for byte in bytes {
                directory.deny(&ek(byte), "").unwrap();
                if byte % 2 == 0 {
                    assert!(directory.allow(&ek(byte)).unwrap());
                }
            }
        })
    };
    for done in [work(10..40), work(40..70), work(70..100)] {
        in_time("one that denies", move || done.join().unwrap());
    }
    let denials = directory.denials().unwrap();
    assert_eq!((counted(&directory).count, denials.listed(), denials.lost()), (45, 45, 0));
}

/// What a machine's service does at its start after a power cut.
#[test]
fn a_service_that_starts_lists_a_denial_that_was_counted_and_not_listed() {
    let (files, directory) = cluster();
    directory.deny(&ek(7), "").unwrap();
    fs::remove_file(files.path().join(format!("denied/{}", ek(7)))).unwrap();
    assert_eq!(directory.denials().unwrap().lost(), 1);
    drop(FolderRecords::open(directory.clone()).unwrap());
    assert!(files.path().join(format!("denied/{}", ek(7))).exists());
    assert_eq!(directory.denials().unwrap().lost(), 0);
}

/// Its place went before its entry was written: the cluster's own document still has it, and it is not forgotten with the others.
#[test]
fn a_denial_that_was_counted_last_is_known_where_the_place_is_gone_and_is_listed_when_that_is_begun_anew() {
    let (files, directory) = cluster();
    directory.deny(&ek(6), "").unwrap();
    directory.deny(&ek(7), "").unwrap();
    fs::remove_dir_all(files.path().join("denied")).unwrap();
    assert_eq!(directory.known_denials().unwrap().iter().collect::<Vec<_>>(), [&ek(7)]);
    assert!(!directory.count_anew(0).unwrap(), "one is known");
    assert!(directory.count_anew(1).unwrap());
    let denials = directory.denials().unwrap();
    assert_eq!((counted(&directory).count, denials.listed(), denials.has(&ek(7))), (1, 1, true));
}

#[test]
fn a_cluster_that_is_made_counts_the_denials_that_were_there_before_it() {
    let files = tempfile::tempdir().unwrap();
    ClusterStore::make(files.path()).unwrap().deny(&ek(7), "stolen").unwrap();
    let (file, first) = founded();
    ClusterStore::make(files.path()).unwrap().writer().unwrap().initialise(&file, &first).unwrap();
    let directory = ClusterStore::open(files.path()).unwrap();
    assert_eq!(counted(&directory), CountedDenials::of(1));
    fs::remove_file(files.path().join(format!("denied/{}", ek(7)))).unwrap();
    assert!(directory.not_denied(&ek(1)).is_err(), "its loss is noticed");
}

/// In the form that the release before counting wrote.
fn of_the_version_before() -> (TempDir, ClusterStore) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cluster-version-1");
    let files = tempfile::tempdir().unwrap();
    for path in paths(&fixture) {
        let to = files.path().join(path.strip_prefix(&fixture).unwrap());
        if path.is_dir() {
            fs::create_dir_all(to).unwrap();
        } else {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&path, to).unwrap();
        }
    }
    let directory = ClusterStore::open(files.path()).unwrap();
    (files, directory)
}

#[test]
fn a_cluster_of_the_version_before_is_used_as_it_is_and_counts_once_it_is_told_to() {
    let (files, directory) = of_the_version_before();
    let before = directory.cluster().unwrap().unwrap();
    assert_eq!((before.version, &before.denials), (1, &None));
    assert_eq!(directory.records().unwrap().into_iter().flatten().count(), 1);
    let text = fs::read_to_string(files.path().join("cluster.json")).unwrap();
    directory.deny(&ek(7), "").unwrap();
    assert!(directory.allow(&ek(7)).unwrap());
    drop(directory.not_denied(&ek(1)).unwrap());
    assert_eq!(
        fs::read_to_string(files.path().join("cluster.json")).unwrap(),
        text,
        "nobody changes its version in passing"
    );
    assert!(!directory.count_anew(0).unwrap(), "one is shut out");
    assert!(directory.count_anew(1).unwrap());
    assert_eq!(counted(&directory), CountedDenials::of(1));
    assert_eq!(directory.cluster().unwrap().unwrap(), before.counting(CountedDenials::of(1)));
    directory.deny(&ek(7), "").unwrap();
    assert_eq!(counted(&directory).count, 2);
    // The same where a place was lost.
    let (files, directory) = of_the_version_before();
    fs::remove_dir_all(files.path().join("denied")).unwrap();
    assert!(directory.count_anew(0).unwrap());
    assert_eq!(ClusterStore::open(files.path()).unwrap().denials().unwrap().listed(), 0);
}

#[test]
fn a_document_is_of_version_3_while_it_names_one_that_leaves_and_at_no_other_time() {
    let (_files, directory) = cluster();
    let cluster = directory.cluster().unwrap().unwrap();
    let counted = CountedDenials { leaving: [ek(7)].into(), ..CountedDenials::of(2) };
    let leaving = cluster.clone().counting(counted.clone());
    assert_eq!((cluster.version, leaving.version), (2, 3));
    assert_eq!(ClusterFile::parse(leaving.to_json().as_bytes()).unwrap().denials, Some(counted.clone()));
    assert_eq!(leaving.clone().counting(CountedDenials::of(2)).version, 2);
    for wrong in [ClusterFile { version: 2, ..leaving.clone() }, ClusterFile { version: 3, ..cluster }] {
        let error = ClusterFile::parse(wrong.to_json().as_bytes()).unwrap_err().to_string();
        assert!(error.contains("leaving"), "{error}");
    }
    let error = ClusterFile::parse(ClusterFile { version: 4, ..leaving }.to_json().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("knows version 3"), "{error}");
}

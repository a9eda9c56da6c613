//! Denials and their count, cut after each step.

use super::*;
use crate::cluster::ClusterFile;
use crate::folder::FolderRecords;
use crate::record::{NodeRecord, Role};
use latchkey_keys::ClusterId;
use latchkey_test_support::in_time;
use std::time::Duration;

fn ek(byte: u8) -> EkDigest {
    EkDigest::from_hex(&format!("{byte:02x}").repeat(32)).unwrap()
}

fn cluster() -> (tempfile::TempDir, ClusterStore) {
    let files = tempfile::tempdir().unwrap();
    let directory = ClusterStore::make(files.path()).unwrap();
    let file = ClusterFile::new("demo", ClusterId::from_bytes([0xc1; 32]), [0x5a; 32], 1, 1_800_000_000);
    let disk = "0a0a0a0a-0000-4000-8000-000000000001".parse().unwrap();
    let first = NodeRecord::first(ek(1), "cp-1".parse().unwrap(), Role::ControlPlane, disk, 1, 1_800_000_000);
    directory.writer().unwrap().initialise(&file, &first).unwrap();
    directory.deny(&ek(8), "before").unwrap();
    (files, directory)
}

/// What a crash leaves of a write that it ended.
fn leave(files: &tempfile::TempDir, name: &str) {
    fs::write(files.path().join(name), "{\"ver").unwrap();
}

/// How many are counted, listed and lost.
fn state(directory: &ClusterStore) -> (u64, u64, u64) {
    let denials = directory.denials().unwrap();
    (denials.counted().unwrap().count, denials.listed(), denials.lost())
}

#[test]
fn a_denial_that_is_cut_after_any_step_is_in_force_or_was_not_begun_and_the_next_writer_ends_it() {
    type Cut = fn(&tempfile::TempDir, &ClusterStore);
    type Next = fn(&ClusterStore);
    let cuts: [(Cut, bool); 4] = [
        (|files, _| leave(files, ".denied.new"), false),
        (|files, _| leave(files, ".cluster.json.new"), false),
        (|_, directory| assert!(directory.count_one_more(ek(7)).unwrap()), true),
        (
            |files, directory| {
                directory.count_one_more(ek(7)).unwrap();
                leave(files, &format!("denied/.{}.new", ek(7)));
            },
            true,
        ),
    ];
    let next: [(Next, u64); 5] = [
        (|directory| directory.deny(&ek(7), "again").unwrap(), 2),
        (|directory| directory.deny(&ek(6), "another").unwrap(), 3),
        (|directory| assert!(directory.allow(&ek(8)).unwrap()), 1),
        (|directory| assert!(directory.allow(&ek(7)).unwrap()), 1),
        (|directory| directory.finish_denials().unwrap(), 2),
    ];
    for (number, (cut, counted)) in cuts.into_iter().enumerate() {
        for (next, left) in next {
            let (files, directory) = cluster();
            cut(&files, &directory);
            let known = directory.denials().unwrap();
            assert_eq!(
                (known.has(&ek(7)), known.has(&ek(8)), known.lost()),
                (counted, true, counted.into()),
                "{number}"
            );
            assert_eq!(directory.not_denied(&ek(1)).is_err(), counted, "nobody gets a key before it is mended");
            if counted {
                next(&directory);
                assert_eq!(state(&directory), (left, left, 0), "{number}");
            } else {
                directory.deny(&ek(7), "again").unwrap();
                assert_eq!(state(&directory), (2, 2, 0), "{number}");
            }
            drop(directory.not_denied(&ek(1)).unwrap());
        }
    }
}

#[test]
fn a_denial_that_is_taken_back_and_cut_stays_until_the_same_is_done_again() {
    let (files, directory) = cluster();
    directory.deny(&ek(7), "").unwrap();
    let cut = |byte| {
        let known = directory.denials().unwrap();
        directory.count(|counted| counted.without(ek(byte), &known)).unwrap();
    };
    cut(7);
    assert_eq!(directory.cluster().unwrap().unwrap().version, 3);
    assert!(directory.denials().unwrap().has(&ek(7)));
    drop(directory.not_denied(&ek(1)).unwrap());
    // Others who come in between do not count it a second time.
    directory.deny(&ek(6), "").unwrap();
    assert!(directory.allow(&ek(6)).unwrap());
    assert_eq!(state(&directory), (1, 2, 0));
    assert!(directory.allow(&ek(7)).unwrap());
    assert_eq!(state(&directory), (1, 1, 0));
    assert_eq!(directory.cluster().unwrap().unwrap().version, 2, "releases before this one read it");
    // Of two entries of one machine the first was removed.
    fs::write(files.path().join(format!("denied/{}.json", ek(8))), "").unwrap();
    cut(8);
    fs::remove_file(files.path().join(format!("denied/{}", ek(8)))).unwrap();
    assert!(directory.allow(&ek(8)).unwrap());
    assert_eq!(state(&directory), (0, 0, 0));
    // Of its only entry, and who did it did not come to say so.
    directory.deny(&ek(9), "").unwrap();
    cut(9);
    fs::remove_file(files.path().join(format!("denied/{}", ek(9)))).unwrap();
    assert_eq!((state(&directory), directory.cluster().unwrap().unwrap().version), ((0, 0, 0), 3));
    assert!(directory.allow(&ek(9)).unwrap());
    assert_eq!(directory.cluster().unwrap().unwrap().version, 2);
    assert!(!directory.allow(&ek(9)).unwrap());
}

#[test]
fn a_service_that_starts_settles_what_one_who_took_a_denial_back_did_not_come_to() {
    let (_files, directory) = cluster();
    directory.deny(&ek(7), "").unwrap();
    let known = directory.denials().unwrap();
    directory.count(|counted| counted.without(ek(7), &known)).unwrap();
    let version_after_a_start = || {
        drop(FolderRecords::open(directory.clone()).unwrap());
        directory.cluster().unwrap().unwrap().version
    };
    assert_eq!((version_after_a_start(), state(&directory)), (3, (1, 2, 0)), "still shut out");
    directory.unlist_denial(&ek(7)).unwrap();
    assert_eq!((version_after_a_start(), state(&directory)), (2, (1, 1, 0)));
}

#[test]
fn a_service_starts_while_one_who_changes_denials_does_not_come_to_his_end() {
    let (_files, directory) = cluster();
    assert!(directory.count_one_more(ek(7)).unwrap());
    let opened = directory.opened().unwrap();
    let held = directory.denials_turn(&opened, DENY_PATIENCE).unwrap();
    let starting = directory.clone();
    in_time("a start that waits for nobody", move || FolderRecords::open(starting).map(drop)).unwrap();
    assert_eq!(state(&directory), (2, 1, 1), "nobody else writes meanwhile");
    assert!(directory.denials().unwrap().has(&ek(7)), "it is in force");
    drop(held);
    drop(FolderRecords::open(directory.clone()).unwrap());
    assert_eq!(state(&directory), (2, 2, 0));
}

/// Who follows them gives a denial that is being written its time; who begins to, or looks once, has not seen for how long it lacks.
#[test]
fn a_denial_that_lacks_for_ten_seconds_is_lost_and_not_before() {
    let at = |count, names: &[EkDigest]| {
        Denials::of_names(names.iter().map(ToString::to_string)).counted_by(Some(CountedDenials::of(count)))
    };
    let (now, whole) = (Instant::now(), at(1, &[ek(8)]));
    let lacking = at(2, &[ek(8)]);
    let long_ago = now.checked_sub(LOST_AFTER + Duration::from_secs(1)).unwrap();
    let refused = |denials: &Denials| denials.check(&ek(1), now).is_err();
    assert!(refused(&lacking));
    assert!(!refused(&lacking.clone().following(&whole, now)));
    assert!(refused(&lacking.clone().following(&whole, long_ago)));
    // It is not begun anew with each look, nor with each change.
    let since = lacking.clone().following(&whole, long_ago);
    assert!(refused(&at(3, &[ek(8)]).following(&since, now)));
    assert!(refused(&lacking.clone().following(&lacking, now)), "as it was at the start");
    let mended = at(2, &[ek(8), ek(7)]).following(&since, now);
    assert!(!refused(&mended));
    assert_eq!(mended.check(&ek(7), now).unwrap_err().code().as_str(), "machine-denied");
    // A document that cannot be read any more takes no count back.
    assert!(refused(&Denials::of_names([ek(8).to_string()]).following(&since, now)));
    assert!(!refused(&Denials::of_names([ek(8).to_string()]).following(&Denials::default(), now)));
}

#[test]
fn one_who_denies_a_machine_waits_for_nobody_who_does_not_come_to_his_end() {
    let (files, directory) = cluster();
    let opened = directory.opened().unwrap();
    let held = directory.denials_turn(&opened, DENY_PATIENCE).unwrap();
    let same = ClusterStore::at(files.path());
    let error = in_time("a denial", move || same.deny_within(&ek(7), "stolen", Duration::from_millis(20)).unwrap_err());
    assert!(matches!(error, StoreError::NotCounted { .. }) && error.to_string().contains("stopped"), "{error}");
    assert_eq!(state(&directory), (1, 2, 0), "it is in force");
    drop(held);
    directory.deny(&ek(7), "stolen").unwrap();
    assert_eq!(state(&directory), (2, 2, 0), "denied again, it is counted");
}

/// Count and entries are heard of one after the other.
#[test]
fn while_a_denial_is_lost_nobody_is_let_in_again_who_was_shut_out() {
    let at = |count, last, names: &[u8]| {
        let counted = CountedDenials { count, last, ..CountedDenials::default() };
        Denials::of_names(names.iter().map(|byte| ek(*byte).to_string())).counted_by(Some(counted))
    };
    let now = Instant::now();
    let first = at(1, Some(ek(7)), &[]).following(&Denials::default(), now);
    assert!(first.has(&ek(7)) && !first.is_listed(&ek(7)));
    let next = at(2, Some(ek(8)), &[]).following(&first, now);
    assert!(next.has(&ek(7)) && next.has(&ek(8)), "the next one lifts none");
    let listed = at(2, Some(ek(8)), &[7, 8]).following(&next, now);
    assert_eq!((listed.lost(), listed.iter().count()), (0, 2));
    // Taken back, it is none that is lost.
    let allowed = at(1, None, &[8]).following(&listed, now);
    assert!(!allowed.has(&ek(7)));
}

//! Many writers, one file.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use latchkey_group_commit::{Change, OpenError, Store, WAITING_WRITES, WriteError};
use latchkey_test_support::{block_on, output};
use smol::future::FutureExt;

const TABLES: &[&str] = &["entries"];

fn open(path: &Path) -> (Store, BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut entries = BTreeMap::new();
    let store = Store::open(path, TABLES, |_, key, value| {
        entries.insert(key.to_vec(), value.to_vec());
        Ok(())
    });
    (store.unwrap(), entries)
}

fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Vec<Change> {
    vec![Change::put("entries", key, value)]
}

#[test]
fn writes_become_durable_in_the_order_in_which_they_were_handed_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let (store, _) = open(&path);
    let writes: Vec<_> = (0_u32..500).map(|number| store.write(put("last", number.to_be_bytes()))).collect();
    drop(store.write(put("nobody waits", "x")));
    block_on(async {
        for write in writes {
            write.await.unwrap();
        }
    });
    drop(store);
    let (_, entries) = open(&path);
    assert_eq!(entries[b"last".as_slice()], 499_u32.to_be_bytes());
    assert_eq!(entries[b"nobody waits".as_slice()], b"x");
}

#[test]
fn an_acknowledged_write_is_in_the_file_of_a_process_that_was_killed() {
    const PATH: &str = "LATCHKEY_TEST_KILLED_WRITER";
    if let Some(path) = std::env::var_os(PATH) {
        let (store, _) = open(Path::new(&path));
        block_on(store.write(put("acknowledged", "yes"))).unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "store::an_acknowledged_write_is_in_the_file_of_a_process_that_was_killed"])
        .env(PATH, &path);
    let ended = output(&mut child).unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended.status), Some(9));
    assert_eq!(open(&path).1[b"acknowledged".as_slice()], b"yes");
}

#[test]
fn a_second_opener_is_refused_and_told_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let (store, _) = open(&path);
    let error = Store::open(&path, TABLES, |_, _, _| Ok(())).unwrap_err();
    assert!(matches!(error, OpenError::InUse(_)));
    assert!(error.to_string().contains("is in use by another process"), "{error}");
    drop(store);
    open(&path);
}

#[test]
fn the_files_are_their_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (store, _) = open(&path);
    let copy = directory.path().join("copy");
    block_on(store.copy_to(&copy)).unwrap();
    for path in [&path, &copy, &directory.path().join("file.lock")] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn a_copy_is_the_file_at_one_moment_while_writes_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(&directory.path().join("file"));
    block_on(async {
        // Each write changes both keys: a copy in which they differ is of no moment.
        let pair = |number: u32| {
            let value = number.to_be_bytes();
            vec![Change::put("entries", "one", value), Change::put("entries", "other", value)]
        };
        store.write(pair(0)).await.unwrap();
        let writer = async {
            for number in 1_u32.. {
                store.write(pair(number)).await.unwrap();
            }
            unreachable!()
        };
        let copies = async {
            let mut seen = 0;
            for round in 0..5 {
                let path = directory.path().join(format!("copy-{round}"));
                store.copy_to(&path).await.unwrap();
                let (_, entries) = open(&path);
                let one = &entries[b"one".as_slice()];
                assert_eq!(*one, entries[b"other".as_slice()]);
                let number = u32::from_be_bytes(one.as_slice().try_into().unwrap());
                assert!(number >= seen, "a later copy is of a later moment");
                seen = number;
            }
        };
        writer.or(copies).await;
    });
}

#[test]
fn a_copy_that_cannot_be_made_leaves_nothing_and_the_store_works() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(&directory.path().join("file"));
    let error = block_on(store.copy_to(directory.path().join("missing/copy"))).unwrap_err();
    assert!(error.to_string().contains("missing/copy"), "{error}");
    block_on(store.write(put("a", "b"))).unwrap();
}

#[test]
fn more_writes_than_may_wait_are_refused_and_the_others_written() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(&directory.path().join("file"));
    // Faster than any disk; the thread takes a few away meanwhile.
    let writes: Vec<_> = (0..WAITING_WRITES * 20).map(|_| store.write(put("a", "b"))).collect();
    block_on(async {
        let (mut written, mut refused) = (0, 0);
        for write in writes {
            match write.await {
                Ok(()) => written += 1,
                Err(WriteError::Busy) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(written >= WAITING_WRITES, "{written} written");
        assert!(refused > 0, "none of {written} refused");
    });
}

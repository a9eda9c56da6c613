//! Several writers of one file.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use latchkey_durable_file::{Directory, Existing, Links, put, remove};
use latchkey_test_support::{PATIENCE, in_time};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

const WRITERS: usize = 8;
const WRITES: usize = 25;

fn number(directory: &Directory) -> usize {
    let bytes = directory.read("count", 16, Links::Refused).unwrap();
    std::str::from_utf8(&bytes).unwrap().parse().unwrap()
}

#[test]
fn what_is_read_with_the_turn_is_changed_by_nobody_else() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().to_owned();
    put(&path.join("count"), 0o600, b"0", Existing::Keep).unwrap();
    let counted = in_time("all writers", move || {
        let count = || {
            let directory = Directory::open(&path).unwrap();
            for _ in 0..WRITES {
                let turn = directory.turn_within("count", 0o600, PATIENCE).unwrap();
                let next = number(&directory) + 1;
                turn.put(next.to_string().as_bytes(), Existing::Replace).unwrap();
            }
        };
        std::thread::scope(|scope| (0..WRITERS).for_each(|_| drop(scope.spawn(count))));
        number(&Directory::open(&path).unwrap())
    });
    assert_eq!(counted, WRITERS * WRITES);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1);
}

#[test]
fn of_many_that_make_a_file_one_does() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("file");
    let made = std::thread::scope(|scope| {
        let path = &path;
        let make = |n: usize| scope.spawn(move || put(path, 0o600, n.to_string().as_bytes(), Existing::Keep).is_ok());
        let makers: Vec<_> = (0..WRITERS).map(make).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect::<Vec<_>>()
    });
    let maker = made.iter().position(|made| *made).unwrap();
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), maker.to_string());
    assert_eq!(put(&path, 0o600, b"another", Existing::Keep).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1);
}

#[test]
fn a_turn_that_is_given_up_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = Directory::open(temporary.path()).unwrap();
    let turn = directory.turn("file", 0o600).unwrap();
    turn.file().write_all(b"half").unwrap();
    drop(turn);
    assert!(directory.names().unwrap().is_empty());
}

#[test]
fn a_file_has_the_mode_that_was_asked_for_whatever_the_old_one_had() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("file");
    fs::write(&path, "theirs").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    put(&path, 0o600, b"ours", Existing::Replace).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(remove(&path).unwrap());
    assert!(!remove(&path).unwrap());
}

#[test]
fn one_who_has_something_else_to_do_waits_only_so_long_and_for_nobody_who_died() {
    const MOMENT: Duration = Duration::from_millis(20);
    let temporary = tempfile::tempdir().unwrap();
    let directory = Directory::open(temporary.path()).unwrap();
    let held = directory.turn("file", 0o600).unwrap();
    let path = temporary.path().to_owned();
    let kind = in_time("its end", move || {
        let directory = Directory::open(&path).unwrap();
        directory.turn_within("file", 0o600, MOMENT).unwrap_err().kind()
    });
    assert_eq!(kind, ErrorKind::TimedOut);
    drop(held);
    directory.turn_within("file", 0o600, MOMENT).unwrap().put(b"1", Existing::Replace).unwrap();
    // What a crash left.
    fs::write(temporary.path().join(".file.new"), "").unwrap();
    directory.turn_within("file", 0o600, MOMENT).unwrap().put(b"2", Existing::Replace).unwrap();
    assert_eq!(fs::read(temporary.path().join("file")).unwrap(), b"2");
}

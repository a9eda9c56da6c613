//! A write that ends after each of its steps, as a crash ends it: nothing is tidied up, and its locks are gone.

use crate::{Directory, Existing, Links, is_unfinished, place};
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::io;

thread_local! {
    static TAKEN: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    static ENDS_AFTER: Cell<usize> = const { Cell::new(usize::MAX) };
}

pub(crate) fn step(name: &'static str) -> io::Result<()> {
    let taken = TAKEN.with_borrow_mut(|taken| {
        taken.push(name);
        taken.len()
    });
    if taken == ENDS_AFTER.get() { Err(io::Error::other("the crash")) } else { Ok(()) }
}

pub(crate) fn crashed() -> bool {
    TAKEN.with_borrow(Vec::len) >= ENDS_AFTER.get()
}

/// Takes the first steps of a write, all but those after the crash. Gives what was taken.
fn until(steps: usize, write: impl FnOnce() -> io::Result<()>) -> Vec<&'static str> {
    TAKEN.take();
    ENDS_AFTER.set(steps);
    let written = write();
    assert_eq!(written.is_err(), crashed(), "{written:?}");
    ENDS_AFTER.set(usize::MAX);
    TAKEN.take()
}

const ALL: [&str; 5] = ["make", "write", "sync", "place", "sync the directory"];

#[test]
fn a_crash_after_any_step_leaves_the_old_file_or_the_new_one_and_the_next_write_takes_over() {
    let whole = tempfile::tempdir().unwrap();
    let directory = Directory::open(whole.path()).unwrap();
    // A name before its content were an empty file after a power cut.
    assert_eq!(until(usize::MAX, || directory.put("file", 0o600, b"old", Existing::Replace)), ALL);
    for steps in 1..=ALL.len() {
        for existing in [Existing::Replace, Existing::Keep] {
            let temporary = tempfile::tempdir().unwrap();
            let directory = Directory::open(temporary.path()).unwrap();
            let read = || directory.read("file", 16, Links::Refused).ok().map(|bytes| bytes.to_vec());
            let before = (existing == Existing::Replace).then(|| b"old".to_vec());
            if let Some(old) = &before {
                directory.put("file", 0o600, old, Existing::Keep).unwrap();
            }
            let taken = until(steps, || directory.put("file", 0o600, b"new, and longer", existing));
            assert_eq!(taken, ALL[..steps]);
            let placed = taken.contains(&"place");
            assert_eq!(read(), if placed { Some(b"new, and longer".to_vec()) } else { before }, "{steps} {existing:?}");
            let left = directory.names().unwrap();
            assert_eq!(left.iter().any(|name| is_unfinished(name)), !placed, "{left:?}");
            directory.put("file", 0o600, b"next", Existing::Replace).unwrap();
            assert_eq!(read(), Some(b"next".to_vec()));
            assert_eq!(directory.names().unwrap(), [OsString::from("file")]);
        }
    }
}

#[test]
fn a_crash_while_a_finished_file_is_placed_leaves_the_old_one_or_all_of_the_new_one() {
    for steps in [1, 2, 3, usize::MAX] {
        let temporary = tempfile::tempdir().unwrap();
        let (from, to) = (temporary.path().join("made/new"), temporary.path().join("file"));
        std::fs::create_dir(temporary.path().join("made")).unwrap();
        std::fs::write(&to, "old").unwrap();
        std::fs::write(&from, "new").unwrap();
        let taken = until(steps, || place(&from, &to));
        // The name before the content were an empty file after a power cut.
        assert_eq!(taken, ALL[2..][..steps.min(3)]);
        let placed = taken.contains(&"place");
        assert_eq!(std::fs::read_to_string(&to).unwrap(), if placed { "new" } else { "old" });
        assert_eq!(from.exists(), !placed);
    }
    let temporary = tempfile::tempdir().unwrap();
    let (link, to) = (temporary.path().join("link"), temporary.path().join("file"));
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    assert!(place(&link, &to).is_err() && !to.exists());
}

/// After a power cut the name could be there again.
#[test]
fn a_removal_that_was_cut_before_it_was_durable_is_made_durable_by_the_next_one() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = Directory::open(temporary.path()).unwrap();
    directory.put("file", 0o600, b"", Existing::Keep).unwrap();
    let remove = || directory.remove("file").map(drop);
    assert_eq!(until(1, remove), ["remove"]);
    assert!(directory.names().unwrap().is_empty());
    assert_eq!(until(usize::MAX, remove), ["sync the directory"]);
    directory.put("file", 0o600, b"", Existing::Keep).unwrap();
    assert_eq!(until(usize::MAX, remove), ["remove", "sync the directory"]);
}

//! What others put where a file is written.
#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use latchkey_durable_file::{Directory, Existing};
use latchkey_test_support::{in_time, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

/// Writes `file` once something lies where the new one is made.
fn writes(put: impl FnOnce(&Path)) -> tempfile::TempDir {
    let temporary = tempfile::tempdir().unwrap();
    fs::write(temporary.path().join("victim"), "theirs").unwrap();
    put(temporary.path());
    let directory = Directory::open(temporary.path()).unwrap();
    in_time("a write", move || directory.put("file", 0o600, b"ours", Existing::Replace)).unwrap();
    assert_eq!(fs::read_to_string(temporary.path().join("victim")).unwrap(), "theirs");
    assert_eq!(fs::read_to_string(temporary.path().join("file")).unwrap(), "ours");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 2);
    temporary
}

#[test]
fn nothing_is_written_through_a_link() {
    writes(|at| symlink(at.join("victim"), at.join(".file.new")).unwrap());
    writes(|at| symlink(at.join("nowhere"), at.join(".file.new")).unwrap());
    writes(|at| fs::hard_link(at.join("victim"), at.join(".file.new")).unwrap());
    writes(|at| symlink(at.join("victim"), at.join("file")).unwrap());
}

#[test]
fn nobody_is_waited_for_who_is_no_writer() {
    writes(|at| mknodat(CWD, at.join(".file.new"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap());
}

#[test]
fn a_lock_of_another_user_holds_nobody() {
    if !rustix::process::geteuid().is_root() {
        skip("only root can give files away");
        return;
    }
    let mut held = None;
    writes(|at| {
        let path = at.join(".file.new");
        let file = fs::File::create(&path).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        chown(&path, Some(4711), None).unwrap();
        held = Some(file);
    });
}

#[test]
fn a_name_leads_nowhere_else() {
    let temporary = tempfile::tempdir().unwrap();
    fs::create_dir_all(temporary.path().join("a/b")).unwrap();
    symlink("b", temporary.path().join("a/link")).unwrap();
    let directory = Directory::open(&temporary.path().join("a")).unwrap();
    for name in ["", ".", "..", "../file", "b/file", "/file", "b/"] {
        assert!(directory.put(name, 0o600, b"", Existing::Replace).is_err(), "{name:?}");
        assert!(directory.inner(name).is_err() && directory.make(name, 0o700).is_err(), "{name:?}");
    }
    assert!(directory.inner("link").is_err() && directory.make("link", 0o700).is_err());
    directory.make("b", 0o700).unwrap();
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1);
}

#[test]
fn a_directory_stays_the_same_when_another_takes_its_path() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name);
    fs::create_dir(path("ours")).unwrap();
    fs::create_dir(path("theirs")).unwrap();
    let directory = Directory::open(&path("ours")).unwrap();
    fs::rename(path("ours"), path("moved")).unwrap();
    symlink("theirs", path("ours")).unwrap();
    directory.put("file", 0o600, b"", Existing::Keep).unwrap();
    assert!(path("moved/file").exists() && !path("theirs/file").exists());
}

/// A command of root's that was cut in a directory of a service's: the service cannot see whether it still works.
#[test]
fn what_root_left_in_anothers_directory_is_named_with_its_owner() {
    const OWNER: u32 = 4711;
    if !rustix::process::geteuid().is_root() {
        skip("only root can give directories away");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    chown(temporary.path(), Some(OWNER), None).unwrap();
    let left = temporary.path().join(".file.new");
    fs::write(&left, "half").unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o600)).unwrap();
    let at = temporary.path().to_owned();
    // Of this thread alone: the kernel keeps users by thread.
    let put = in_time("a write", move || {
        let user = rustix::process::Uid::from_raw(OWNER);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        Directory::open(&at).unwrap().put("file", 0o600, b"", Existing::Replace)
    });
    let error = put.unwrap_err();
    let words = error.to_string();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(words.contains(".file.new") && words.contains("user 0"), "{words}");
    fs::remove_file(left).unwrap();
}

//! Components from folders, and what lies where they go.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use latchkey_kubernetes::Download;
use latchkey_kubernetes::fetch::{FetchCode, FetchError, Fetched, Fetcher, Limits, Origin};

use crate::hostile::{names, wanted};

const FILE: &[u8] = b"a kubelet";

struct Place {
    from: tempfile::TempDir,
    into: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { from: tempfile::tempdir().unwrap(), into: tempfile::tempdir().unwrap() }
    }

    fn fetch(&self, wanted: &Download) -> Result<Fetched, FetchError> {
        let origin = Origin::Folder(self.from.path().into());
        Fetcher::new(origin, Limits::default()).unwrap().fetch(wanted, self.into.path(), &mut |_| ())
    }
}

#[test]
fn a_folder_s_file_is_copied_once_and_readable_by_all() {
    let place = Place::new();
    fs::write(place.from.path().join("kubelet-1"), FILE).unwrap();
    let fetched = place.fetch(&wanted(FILE)).unwrap();
    assert_eq!((fs::read(&fetched.path).unwrap(), fetched.was_there), (FILE.to_vec(), false));
    assert_eq!(fs::metadata(&fetched.path).unwrap().permissions().mode() & 0o7777, 0o644);
    assert!(place.fetch(&wanted(FILE)).unwrap().was_there);
    assert_eq!(names(place.into.path()), ["kubelet-1"]);
}

#[test]
fn a_wrong_file_in_the_place_is_replaced_and_one_in_the_folder_refused() {
    let place = Place::new();
    fs::write(place.into.path().join("kubelet-1"), b"damaged").unwrap();
    fs::write(place.from.path().join("kubelet-1"), FILE).unwrap();
    assert!(!place.fetch(&wanted(FILE)).unwrap().was_there);
    assert_eq!(fs::read(place.into.path().join("kubelet-1")).unwrap(), FILE);

    let place = Place::new();
    fs::write(place.from.path().join("kubelet-1"), b"another").unwrap();
    assert_eq!(place.fetch(&wanted(FILE)).unwrap_err().code(), FetchCode::HashDiffers);
    fs::write(place.from.path().join("kubelet-1"), [0; 1000]).unwrap();
    assert_eq!(place.fetch(&wanted(FILE)).unwrap_err().code(), FetchCode::TooLarge);
    assert!(names(place.into.path()).is_empty());
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_it() {
    let place = Place::new();
    assert_eq!(place.fetch(&wanted(FILE)).unwrap_err().code(), FetchCode::Missing);
    fs::create_dir(place.from.path().join("kubelet-1")).unwrap();
    assert_eq!(place.fetch(&wanted(FILE)).unwrap_err().code(), FetchCode::FileUnusable);
    fs::remove_dir(place.from.path().join("kubelet-1")).unwrap();
    // A pipe that nobody writes into.
    let made = std::process::Command::new("mkfifo").arg(place.from.path().join("kubelet-1")).status().unwrap();
    assert!(made.success());
    assert_eq!(place.fetch(&wanted(FILE)).unwrap_err().code(), FetchCode::FileUnusable);
}

#[test]
fn nothing_is_written_through_a_link_in_the_place() {
    let place = Place::new();
    fs::write(place.from.path().join("kubelet-1"), FILE).unwrap();
    let other = place.from.path().join("other");
    fs::write(&other, b"precious").unwrap();
    symlink(&other, place.into.path().join(".kubelet-1.part")).unwrap();
    assert_eq!(place.fetch(&wanted(FILE)).unwrap_err().code(), FetchCode::FileUnusable);
    assert_eq!(fs::read(&other).unwrap(), b"precious");
}

#[test]
fn two_at_once_do_not_write_into_one_file() {
    let place = Place::new();
    fs::write(place.from.path().join("kubelet-1"), FILE).unwrap();
    let part = fs::File::create(place.into.path().join(".kubelet-1.part")).unwrap();
    part.lock().unwrap();
    assert_eq!(place.fetch(&wanted(FILE)).unwrap_err().code(), FetchCode::Busy);
    drop(part);
    assert!(place.fetch(&wanted(FILE)).is_ok());
}

#[test]
fn what_has_no_official_address_is_named() {
    let official = match Fetcher::new(Origin::Official, Limits::default()) {
        Ok(fetcher) => fetcher,
        // A machine without certificate authorities cannot ask anybody at all.
        Err(error) => return assert_eq!(error.code(), FetchCode::NoAuthorities),
    };
    let place = Place::new();
    let error = official.fetch(&wanted(FILE), place.into.path(), &mut |_| ()).unwrap_err();
    assert_eq!(error.code(), FetchCode::NoAddress);
    assert_eq!(error.to_string(), "kubelet-1 has no official address in the version table");
}

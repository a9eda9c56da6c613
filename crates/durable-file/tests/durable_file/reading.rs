//! What is read, and what is not.

use latchkey_durable_file::{Directory, Links, ReadError, read_bounded};
use latchkey_test_support::in_time;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn a_file_is_read_up_to_its_limit_and_no_other_kind_of_file_is() {
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name);
    fs::write(path("file"), "1234").unwrap();
    symlink("file", path("link")).unwrap();
    fs::create_dir(path("directory")).unwrap();
    mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let directory = Directory::open(temporary.path()).unwrap();
    in_time("all readings", move || {
        let read = |name, limit, links| directory.read(name, limit, links);
        assert_eq!(read("file", 4, Links::Refused).unwrap().as_slice(), b"1234");
        assert!(matches!(read("file", 3, Links::Refused), Err(ReadError::TooLong(3))));
        assert!(matches!(read("pipe", 4, Links::Refused), Err(ReadError::NotRegular)));
        assert!(matches!(read("directory", 4, Links::Refused), Err(ReadError::NotRegular)));
        assert!(matches!(read("link", 4, Links::Refused), Err(ReadError::Io(_))));
        assert_eq!(read("link", 4, Links::Followed).unwrap().as_slice(), b"1234");
        let absent = read("absent", 4, Links::Refused);
        assert!(matches!(absent, Err(ReadError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound));
    });
}

#[test]
fn an_input_of_another_length_than_expected_is_read_as_it_is() {
    for expected in [0, 1, 9, 10, 11, u64::MAX] {
        assert_eq!(read_bounded(&b"0123456789"[..], 10, expected).unwrap().as_slice(), b"0123456789", "{expected}");
        assert!(matches!(read_bounded(&b"0123456789"[..], 9, expected), Err(ReadError::TooLong(9))), "{expected}");
    }
}

//! The master secret's file: who may own it, what it may hold, and that it never leaks.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its rig shall fail there")]

use latchkey_durable_file::Directory;
use latchkey_keys::{KeyError, MasterSecret, SecretFileError};
use latchkey_test_support::in_time;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SECRET: &str = "a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90";

struct Rig {
    directory: TempDir,
}

impl Rig {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.path("master.json");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }
}

fn valid() -> String {
    format!(r#"{{"schema":1,"current":1,"secrets":[{{"version":1,"secret":"{SECRET}"}}]}}"#)
}

fn fault(path: &Path) -> SecretFileError {
    match MasterSecret::load(path) {
        Err(KeyError::File(error)) => error.error,
        other => panic!("expected a refusal of {}, got {other:?}", path.display()),
    }
}

#[test]
fn a_file_that_others_can_read_or_write_is_refused() {
    let rig = Rig::new();
    let path = rig.file(&valid());
    for mode in [0o644, 0o640, 0o660, 0o620, 0o604, 0o601, 0o610, 0o777] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert_eq!(fault(&path), SecretFileError::Permissions { mode }, "{mode:o}");
    }
    for mode in [0o600, 0o400] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        MasterSecret::load(&path).unwrap();
    }
}

#[test]
fn a_systemd_credential_is_accepted_and_any_other_access_list_is_not() {
    let rig = Rig::new();
    let path = rig.file(&valid());
    let user = fs::metadata(&path).unwrap().uid();
    let list = |reader: u32| {
        let entry = |tag: u16, rights: u16, id: u32| {
            [tag.to_le_bytes(), rights.to_le_bytes()].concat().into_iter().chain(id.to_le_bytes())
        };
        let nobody = u32::MAX;
        let entries =
            [entry(1, 4, nobody), entry(2, 4, reader), entry(4, 0, nobody), entry(16, 4, nobody), entry(32, 0, nobody)];
        2_u32.to_le_bytes().into_iter().chain(entries.into_iter().flatten()).collect::<Vec<u8>>()
    };
    let file = fs::File::open(&path).unwrap();
    for (reader, accepted) in [(user, true), (user + 1, false)] {
        let set =
            rustix::fs::fsetxattr(&file, "system.posix_acl_access", &list(reader), rustix::fs::XattrFlags::empty());
        if set == Err(rustix::io::Errno::OPNOTSUPP) {
            latchkey_test_support::skip("this file system has no access lists");
            return;
        }
        set.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o440, "the mask shows as group bits");
        assert_eq!(MasterSecret::load(&path).is_ok(), accepted, "readable by user {reader}");
    }
}

#[test]
fn a_file_of_another_user_is_refused() {
    let rig = Rig::new();
    let path = rig.file(&valid());
    if fs::metadata(&path).unwrap().uid() != 0 {
        latchkey_test_support::skip("only root can give files away");
        return;
    }
    chown(&path, Some(4711), None).unwrap();
    assert_eq!(fault(&path), SecretFileError::Owner { uid: 4711 });
}

#[test]
fn a_symbolic_link_is_refused_even_if_its_target_is_good() {
    let rig = Rig::new();
    let target = rig.file(&valid());
    let link = rig.path("link.json");
    symlink(target, &link).unwrap();
    assert_eq!(fault(&link), SecretFileError::Symlink);
}

#[test]
fn directories_devices_and_pipes_are_refused_without_waiting() {
    let rig = Rig::new();
    assert_eq!(fault(rig.directory.path()), SecretFileError::NotRegular);
    assert_eq!(fault(Path::new("/dev/zero")), SecretFileError::NotRegular);
    let pipe = rig.path("pipe");
    let made =
        latchkey_test_support::output(std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&pipe)).unwrap();
    assert!(made.status.success());
    assert_eq!(
        latchkey_test_support::in_time("the fault of a pipe", move || fault(&pipe)),
        SecretFileError::NotRegular
    );
}

#[test]
fn a_missing_file_says_so_with_its_path() {
    let rig = Rig::new();
    let error = MasterSecret::load(&rig.path("absent.json")).unwrap_err().to_string();
    assert!(error.contains("absent.json") && error.contains("No such file"), "{error}");
}

#[test]
fn a_giant_file_is_refused_after_a_bounded_read() {
    let rig = Rig::new();
    let path = rig.file(&(valid() + &" ".repeat(20_000)));
    assert_eq!(fault(&path), SecretFileError::TooLarge);
}

#[test]
fn everything_outside_the_schema_is_refused_and_the_message_never_shows_the_text() {
    let entry = |version: &str, secret: &str| format!(r#"{{"version":{version},"secret":{secret}}}"#);
    let file = |schema: &str, current: &str, entries: &[String]| {
        format!(r#"{{"schema":{schema},"current":{current},"secrets":[{}]}}"#, entries.join(","))
    };
    let quoted = format!("\"{SECRET}\"");
    let good = entry("1", &quoted);
    let syntax = [
        String::new(),
        "null".into(),
        format!("\"{SECRET}\""),
        valid().replace("\"schema\":1", "\"schema\":1,\"extra\":1"),
        valid().replace("\"version\":1", "\"version\":1,\"note\":\"x\""),
        valid().replace("\"schema\":1,", ""),
        valid() + "x",
        file("1", "0", std::slice::from_ref(&good)),
        file("1", &quoted, std::slice::from_ref(&good)),
        file("1", "-1", std::slice::from_ref(&good)),
        file("1", "1", &[entry("0", &quoted)]),
        file("1", "1", &[entry("1", "\"\"")]),
        file("1", "1", &[entry("1", &format!("\"{SECRET}00\""))]),
        file("1", "1", &[entry("1", &format!("\"{}\"", &SECRET[1..]))]),
        file("1", "1", &[entry("1", &format!("\"{}zz\"", &SECRET[2..]))]),
        file("1", "1", &[entry("1", &format!("\"\\u0061{}\"", &SECRET[1..]))]),
        file("1", "1", &[entry("1", "12345")]),
    ];
    let rig = Rig::new();
    for text in syntax {
        let path = rig.file(&text);
        let error = MasterSecret::load(&path).unwrap_err();
        assert!(
            matches!(&error, KeyError::File(file) if matches!(file.error, SecretFileError::Syntax { .. })),
            "{text}"
        );
        let told = format!("{error} {error:?}");
        assert!(!told.contains(&SECRET[2..10]) && !told.contains("12345"), "{told}");
    }
    let one = std::slice::from_ref(&good);
    assert_eq!(fault(&rig.file(&file("2", "1", one))), SecretFileError::Schema { got: 2 });
    assert_eq!(fault(&rig.file(&file("1", "1", &[]))), SecretFileError::VersionCount { got: 0 });
    let many: Vec<_> = (1..=65).map(|version| entry(&version.to_string(), &quoted)).collect();
    assert_eq!(fault(&rig.file(&file("1", "1", &many))), SecretFileError::VersionCount { got: 65 });
    assert!(matches!(
        fault(&rig.file(&file("1", "1", &[good.clone(), good.clone()]))),
        SecretFileError::VersionTwice(_)
    ));
    assert!(matches!(fault(&rig.file(&file("1", "2", one))), SecretFileError::CurrentMissing(_)));
}

#[test]
fn the_largest_valid_file_still_loads() {
    let rig = Rig::new();
    let mut master = MasterSecret::random().unwrap();
    for _ in 1..64 {
        master = master.rotated().unwrap();
    }
    let path = rig.path("large.json");
    master.write_new(&path).unwrap();
    assert_eq!(MasterSecret::load(&path).unwrap().versions().count(), 64);
    assert!(master.rotated().is_err(), "a set that could not be loaded again must not be made");
}

#[test]
fn a_new_file_is_private_and_never_replaces_another() {
    let rig = Rig::new();
    let path = rig.path("new.json");
    let first = MasterSecret::random().unwrap();
    first.write_new(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    let refusal = MasterSecret::random().unwrap().write_new(&path).unwrap_err();
    assert!(matches!(refusal, KeyError::File(error) if error.error == SecretFileError::Exists));
    let secret = |master: &MasterSecret| master.measurement_secret(master.current()).unwrap();
    assert_eq!(secret(&MasterSecret::load(&path).unwrap()), secret(&first));
}

#[test]
fn rotation_keeps_the_old_keys_and_gives_new_ones() {
    let rig = Rig::new();
    let path = rig.path("master.json");
    let first = MasterSecret::random().unwrap();
    first.write_new(&path).unwrap();
    let rotated = MasterSecret::rotate(&path).unwrap();
    let both = MasterSecret::load(&path).unwrap();
    assert_eq!(rotated.current(), both.current());
    assert_eq!(both.current().number(), 2);
    let before = first.measurement_secret(first.current()).unwrap();
    assert_eq!(both.measurement_secret(first.current()).unwrap(), before);
    assert_ne!(both.measurement_secret(both.current()).unwrap(), before);
    assert_eq!(fs::read_dir(rig.directory.path()).unwrap().count(), 1);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn rotations_at_once_make_a_version_each_and_lose_none() {
    const ROTATIONS: usize = 12;
    let rig = Rig::new();
    let path = rig.path("master.json");
    MasterSecret::random().unwrap().write_new(&path).unwrap();
    let made = std::thread::scope(|scope| {
        let path = &path;
        let rotations: Vec<_> = (0..ROTATIONS).map(|_| scope.spawn(move || MasterSecret::rotate(path))).collect();
        rotations.into_iter().map(|rotation| rotation.join().unwrap().unwrap()).collect::<Vec<_>>()
    });
    let kept = MasterSecret::load(&path).unwrap();
    assert_eq!(kept.versions().count(), 1 + ROTATIONS);
    for master in made {
        let version = master.current();
        let secret = |master: &MasterSecret| master.measurement_secret(version).unwrap();
        assert_eq!(secret(&master), secret(&kept), "a disk was made with version {version}");
    }
}

/// It may be the user whose directory it is who holds it.
#[test]
fn a_rotation_waits_for_nobody_who_does_not_come_to_his_end() {
    let rig = Rig::new();
    let path = rig.path("master.json");
    MasterSecret::random().unwrap().write_new(&path).unwrap();
    let before = fs::read(&path).unwrap();
    let (directory, name) = Directory::of(&path).unwrap();
    let held = directory.turn(name, 0o600).unwrap();
    let same = path.clone();
    let refusal = in_time("a rotation", move || MasterSecret::rotate(&same).unwrap_err());
    assert!(matches!(refusal, KeyError::File(error) if matches!(error.error, SecretFileError::Io { .. })));
    drop(held);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(MasterSecret::rotate(&path).unwrap().current().number(), 2);
}

#[test]
fn what_a_crash_left_is_in_no_rotations_way_and_is_no_secret() {
    let rig = Rig::new();
    let path = rig.path("master.json");
    MasterSecret::random().unwrap().write_new(&path).unwrap();
    // As this program leaves it, and as the one before did; the latter may be of an operator.
    fs::write(rig.path(".master.json.new"), "half").unwrap();
    fs::write(rig.path("master.json.new"), "kept").unwrap();
    assert_eq!(MasterSecret::rotate(&path).unwrap().current().number(), 2);
    assert_eq!(MasterSecret::load(&path).unwrap().versions().count(), 2);
    assert!(!rig.path(".master.json.new").exists());
    assert_eq!(fs::read_to_string(rig.path("master.json.new")).unwrap(), "kept");
}

#[test]
fn a_rotation_that_fails_leaves_the_file_and_nothing_else() {
    let rig = Rig::new();
    let path = rig.file("{}");
    assert!(MasterSecret::rotate(&path).is_err());
    assert!(MasterSecret::rotate(&rig.path("absent.json")).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    assert_eq!(fs::read_dir(rig.directory.path()).unwrap().count(), 1);
}

#[test]
fn debug_output_shows_versions_only() {
    let rig = Rig::new();
    let master = MasterSecret::load(&rig.file(&valid())).unwrap();
    assert_eq!(format!("{master:?}"), "MasterSecret(current 1, versions [1], hidden)");
}

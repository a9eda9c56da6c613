//! The file on a disk that fails: full, or with an fsync that gives an error for what it wrote.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::*;

const TABLES: &[&str] = &["a", "b"];

/// What the disk refuses from now on.
#[derive(Debug, Default)]
struct Fault(AtomicU8);

const NOTHING: u8 = 0;
const WRITES: u8 = 1;
/// What is written stands in the file, and the fsync fails nevertheless.
const SYNCS: u8 = 2;

/// A fake disk: the real file, with failures before it.
#[derive(Debug)]
struct FakeDisk<F> {
    file: F,
    fault: Arc<Fault>,
}

impl<F> FakeDisk<F> {
    fn refused(&self, fault: u8) -> Result<(), io::Error> {
        if self.fault.0.load(Ordering::SeqCst) == fault {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for FakeDisk<FileBackend> {
    fn len(&self) -> Result<u64, io::Error> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.refused(WRITES)?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> Result<(), io::Error> {
        self.refused(SYNCS)?;
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.refused(WRITES)?;
        self.file.write(offset, data)
    }
    fn close(&self) -> Result<(), io::Error> {
        self.file.close()
    }
}

impl Disk for FakeDisk<File> {
    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        Disk::read(&self.file, at, into)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.fault.0.load(Ordering::SeqCst) == WRITES && bytes.len() > 1 {
            // A part of it still found room.
            Disk::write(&self.file, at, &bytes[..bytes.len() / 2])?;
        }
        self.refused(WRITES)?;
        Disk::write(&self.file, at, bytes)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        Disk::set_len(&self.file, length)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.refused(SYNCS)?;
        Disk::sync_data(&self.file)
    }
    fn sync_all(&self) -> io::Result<()> {
        Disk::sync_all(&self.file)
    }
}

/// Two disks: that of the database, and that of the log.
fn open_on(path: &Path, database: &Arc<Fault>, log: &Arc<Fault>) -> DurableFile {
    try_open_on(path, database, log).unwrap()
}

fn try_open_on(path: &Path, database: &Arc<Fault>, log: &Arc<Fault>) -> Result<DurableFile, OpenError> {
    let (of_database, of_log) = (Arc::clone(database), Arc::clone(log));
    let make = move |file| {
        let disk = FakeDisk { file: FileBackend::new(file)?, fault: Arc::clone(&of_database) };
        Database::builder().create_with_backend(disk)
    };
    let disk = move |file| -> Box<dyn Disk> { Box::new(FakeDisk { file, fault: Arc::clone(&of_log) }) };
    let means = Means { make: Box::new(make), disk: Box::new(disk) };
    DurableFile::open_with(path, TABLES, means, |_, _, _| Ok(()))
}

fn entries(path: &Path) -> BTreeMap<(String, Vec<u8>), Vec<u8>> {
    let mut found = BTreeMap::new();
    let file = DurableFile::open(path, TABLES, |table, key, value| {
        found.insert((table.to_owned(), key.to_vec()), value.to_vec());
        Ok(())
    });
    drop(file.unwrap());
    found
}

fn entry(table: &str, key: &str, value: &str) -> ((String, Vec<u8>), Vec<u8>) {
    ((table.into(), key.into()), value.into())
}

/// As after a power cut: nothing is closed, and only the two files are left.
fn taken(path: &Path, to: &Path) -> PathBuf {
    let copy = to.join("taken");
    std::fs::copy(path, &copy).unwrap();
    std::fs::copy(Place::of(path).path(), Place::of(&copy).path()).unwrap();
    copy
}

fn a_failing_log_loses_nothing_and_shows_nothing(kind: u8) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let fault = Arc::new(Fault::default());
    let mut file = open_on(&path, &Arc::default(), &fault);
    file.commit(&[Change::put("a", "kept", "1"), Change::put("a", "gone", "1")]).unwrap();
    let failing = [
        Change::put("b", "new", "2"),
        Change::put("a", "kept", "2"),
        Change::remove("a", "gone"),
        Change::put("a", "kept", "3"),
    ];
    for _ in 0..3 {
        fault.0.store(kind, Ordering::SeqCst);
        assert!(matches!(file.commit(&failing), Err(WriteError::Storage(_))));
        assert!(matches!(file.commit(&failing), Err(WriteError::Storage(_))), "the disk still fails");
        let there = entries(&taken(&path, directory.path()));
        assert_eq!(there.get(&entry("a", "kept", "").0).map(Vec::as_slice), Some(&b"1"[..]), "after a power cut");
        fault.0.store(NOTHING, Ordering::SeqCst);
        file.commit(&[Change::put("b", "later", "4")]).unwrap();
    }
    let expected = BTreeMap::from([entry("a", "gone", "1"), entry("a", "kept", "1"), entry("b", "later", "4")]);
    assert_eq!(entries(&taken(&path, directory.path())), expected);
    drop(file);
    assert_eq!(entries(&path), expected);
}

#[test]
fn after_a_full_disk_the_file_goes_on_from_what_was_acknowledged() {
    a_failing_log_loses_nothing_and_shows_nothing(WRITES);
}

#[test]
fn what_a_failed_fsync_left_in_the_file_is_taken_back() {
    a_failing_log_loses_nothing_and_shows_nothing(SYNCS);
}

#[test]
fn a_file_that_could_not_be_made_completely_is_made_by_the_next_start() {
    for kind in [WRITES, SYNCS] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let fault = Arc::new(Fault(kind.into()));
        assert!(matches!(try_open_on(&path, &fault, &Arc::default()), Err(OpenError::Io { .. })), "{kind}");
        assert!(!path.exists(), "what has the name is complete");
        open_on(&path, &Arc::default(), &Arc::default()).commit(&[Change::put("a", "x", "1")]).unwrap();
        assert_eq!(entries(&path), BTreeMap::from([entry("a", "x", "1")]));
    }
}

/// More than fits into a log beside another one of these.
fn large(number: u8) -> Change {
    Change::put("a", [number], vec![number; 3 << 20])
}

fn a_failing_database_loses_nothing_and_is_written_later(kind: u8) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let fault = Arc::new(Fault::default());
    let mut file = open_on(&path, &fault, &Arc::default());
    file.commit(&[large(1)]).unwrap();
    fault.0.store(kind, Ordering::SeqCst);
    for _ in 0..2 {
        assert!(matches!(file.commit(&[large(2)]), Err(WriteError::Storage(_))), "the log is full");
        file.commit(&[Change::put("b", "small", "1")]).unwrap();
        assert!(file.moment().is_err(), "there is nothing to copy");
    }
    let there = |path: &Path| entries(path).into_keys().map(|(_, key)| key).collect::<Vec<_>>();
    assert_eq!(there(&taken(&path, directory.path())), [vec![1], b"small".to_vec()]);
    fault.0.store(NOTHING, Ordering::SeqCst);
    file.commit(&[large(2)]).unwrap();
    file.commit(&[large(3)]).unwrap();
    assert_eq!(there(&taken(&path, directory.path())), [vec![1], vec![2], vec![3], b"small".to_vec()]);
    fault.0.store(kind, Ordering::SeqCst);
    drop(file); // what the database does not take stays in the log
    assert_eq!(there(&path), [vec![1], vec![2], vec![3], b"small".to_vec()]);
}

#[test]
fn while_the_database_finds_no_room_the_log_takes_what_it_can() {
    a_failing_database_loses_nothing_and_is_written_later(WRITES);
}

#[test]
fn while_the_database_cannot_be_synced_the_log_keeps_all() {
    a_failing_database_loses_nothing_and_is_written_later(SYNCS);
}

#[test]
fn a_group_longer_than_the_log_is_written_and_its_room_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut file = DurableFile::open(&path, TABLES, |_, _, _| Ok(())).unwrap();
    file.commit(&[large(1), large(2), large(3)]).unwrap();
    assert_eq!(entries(&taken(&path, directory.path())).len(), 3);
    file.commit(&[Change::put("b", "x", "1")]).unwrap();
    assert_eq!(Place::of(&path).path().metadata().unwrap().len(), log::LENGTH);
    drop(file);
    assert!(!Place::of(&path).path().exists(), "a closed file is one file");
    assert_eq!(entries(&path).len(), 4);
}

#[test]
fn a_log_that_is_damaged_or_missing_or_of_another_file_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut file = DurableFile::open(&path, TABLES, |_, _, _| Ok(())).unwrap();
    file.commit(&[Change::put("a", "x", "1")]).unwrap();
    file.commit(&[Change::put("a", "y", "2")]).unwrap();
    let refused = |path: &Path| DurableFile::open(path, TABLES, |_, _, _| Ok(())).unwrap_err().to_string();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let copy = taken(&path, directory.path());
        let mut bytes = std::fs::read(Place::of(&copy).path()).unwrap();
        change(&mut bytes);
        std::fs::write(Place::of(&copy).path(), bytes).unwrap();
        let said = refused(&copy);
        assert!(said.contains("taken.log") && said.contains("restore"), "{said}");
        said
    };
    let said = changed(&|bytes| bytes[4096 + 40] ^= 1);
    assert!(said.contains("at byte 4096 is damaged") && said.contains("group 1 was acknowledged"), "{said}");
    let said = changed(&|bytes| bytes[20] ^= 1);
    assert!(said.contains("its first bytes are damaged"), "{said}");
    let copy = taken(&path, directory.path());
    std::fs::remove_file(Place::of(&copy).path()).unwrap();
    assert!(refused(&copy).contains("it is not there"));
    let other = directory.path().join("restored");
    drop(DurableFile::open(&other, TABLES, |_, _, _| Ok(())).unwrap());
    std::fs::copy(Place::of(&path).path(), Place::of(&other).path()).unwrap();
    assert!(refused(&other).contains("writes of another file"));
}

#[test]
fn a_group_that_can_never_be_written_is_refused_before_the_disk_sees_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut file = DurableFile::open(&path, TABLES, |_, _, _| Ok(())).unwrap();
    let refused = |file: &mut DurableFile, change| file.commit(&[Change::put("a", "x", "1"), change]).unwrap_err();
    assert!(matches!(refused(&mut file, Change::put("c", "x", "1")), WriteError::UnknownTable("c")));
    assert!(matches!(refused(&mut file, Change::put("a", vec![0; 1025], "1")), WriteError::KeyTooLong(1025)));
    let long = vec![0; crate::LONGEST_VALUE + 1];
    assert!(matches!(refused(&mut file, Change::put("a", "x", long)), WriteError::ValueTooLong(_)));
    drop(file);
    assert!(entries(&path).is_empty());
}

#[test]
fn bad_entries_and_other_files_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    DurableFile::open(&path, TABLES, |_, _, _| Ok(())).unwrap().commit(&[Change::put("a", "x", "1")]).unwrap();
    let error = DurableFile::open(&path, TABLES, |_, _, _| Err("no number".into())).unwrap_err();
    assert_eq!(error.to_string(), format!("{}, table a: no number", path.display()));

    std::fs::write(&path, "this is no database").unwrap();
    let error = DurableFile::open(&path, TABLES, |_, _, _| Ok(())).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("restore it from a backup"), "{error}");
}

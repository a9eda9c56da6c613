//! The file on a disk that fails: full, or with an fsync that gives an error for what it wrote.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

use redb::StorageBackend;

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
struct FakeDisk {
    file: FileBackend,
    fault: Arc<Fault>,
}

impl FakeDisk {
    fn refused(&self, fault: u8) -> Result<(), io::Error> {
        if self.fault.0.load(Ordering::SeqCst) == fault {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for FakeDisk {
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

fn open_on(path: &Path, fault: &Arc<Fault>) -> DurableFile {
    let fault = Arc::clone(fault);
    let open = move |file| {
        let disk = FakeDisk { file: FileBackend::new(file)?, fault: Arc::clone(&fault) };
        Database::builder().set_cache_size(CACHE).create_with_backend(disk)
    };
    DurableFile::open_with(path, TABLES, Box::new(open), |_, _, _| Ok(())).unwrap()
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

fn a_failing_disk_loses_nothing_and_shows_nothing(kind: u8) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let fault = Arc::new(Fault::default());
    let mut file = open_on(&path, &fault);
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
        assert!(matches!(file.commit(&failing), Err(WriteError::Storage(_))), "the disk is still full");
        fault.0.store(NOTHING, Ordering::SeqCst);
        file.commit(&[Change::put("b", "later", "4")]).unwrap();
    }
    drop(file);
    let expected = BTreeMap::from([entry("a", "gone", "1"), entry("a", "kept", "1"), entry("b", "later", "4")]);
    assert_eq!(entries(&path), expected);
}

#[test]
fn after_a_full_disk_the_file_goes_on_from_what_was_acknowledged() {
    a_failing_disk_loses_nothing_and_shows_nothing(WRITES);
}

#[test]
fn what_a_failed_fsync_left_in_the_file_is_taken_back() {
    a_failing_disk_loses_nothing_and_shows_nothing(SYNCS);
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

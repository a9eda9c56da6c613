//! Processes that are killed while they write, and a disk that is full: what was acknowledged is there, and nothing by halves.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use latchkey_group_commit::{Change, Store, WriteError};
use latchkey_test_support::{block_on, output};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const TABLES: &[&str] = &["entries", "last"];
/// Where a child of this program writes.
const PATH: &str = "LATCHKEY_TEST_WRITER";
/// The log has room for some twenty, so the database gets them often.
const LENGTH: usize = 200 << 10;

fn open(path: &Path) -> (Store, BTreeMap<(&'static str, u32), Vec<u8>>) {
    let mut found = BTreeMap::new();
    let store = Store::open(path, TABLES, |table, key, value| {
        found.insert((table, u32::from_be_bytes(key.try_into().unwrap())), value.to_vec());
        Ok(())
    });
    (store.unwrap(), found)
}

/// One write: three changes that belong together.
fn write(store: &Store, number: u32) -> Result<(), WriteError> {
    block_on(store.write(vec![
        Change::put("last", 0_u32.to_be_bytes(), number.to_be_bytes()),
        Change::put("entries", number.to_be_bytes(), vec![u8::try_from(number % 251).unwrap(); LENGTH]),
        Change::put("last", 1_u32.to_be_bytes(), number.to_be_bytes()),
    ]))
}

/// The number of the last write, after a look at all of them.
fn last_whole(path: &Path) -> u32 {
    let (_, found) = open(path);
    let last = |key| found.get(&("last", key)).map_or(0, |last| u32::from_be_bytes(last[..].try_into().unwrap()));
    let entries: Vec<u32> = found.keys().filter(|(table, _)| *table == "entries").map(|(_, number)| *number).collect();
    assert_eq!(last(0), last(1), "a write by halves");
    assert_eq!(entries, (1..=last(0)).collect::<Vec<_>>());
    for ((_, number), value) in found.iter().filter(|((table, _), _)| *table == "entries") {
        assert!(value.len() == LENGTH && value.iter().all(|byte| u32::from(*byte) == number % 251), "{number}");
    }
    last(0)
}

fn path_of_child() -> Option<PathBuf> {
    std::env::var_os(PATH).map(PathBuf::from)
}

fn this() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

/// This program again, for one test alone.
fn child(mut command: Command, test: &str, path: &Path) -> Command {
    command.args(["--exact", test, "--nocapture"]).env(PATH, path);
    command
}

#[test]
fn a_writer_that_is_killed_at_any_moment_loses_nothing_that_it_was_told() {
    if let Some(path) = path_of_child() {
        let (store, found) = open(&path);
        let before = u32::try_from(found.len().saturating_sub(2)).unwrap();
        for number in before + 1.. {
            write(&store, number).unwrap();
            println!("acknowledged {number}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    // Around the moments at which the database gets what the log has, too.
    for after in [1, 3, 18, 19, 20, 21, 22, 5] {
        let test = "crashes::a_writer_that_is_killed_at_any_moment_loses_nothing_that_it_was_told";
        let mut writer = child(this(), test, &path).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut told = lines
            .filter_map(|line| line.split_once("acknowledged ").and_then(|(_, number)| number.parse::<u32>().ok()));
        let mut acknowledged = told.by_ref().take(after).last().unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        acknowledged = told.last().unwrap_or(acknowledged);
        let there = last_whole(&path);
        // One write may have become durable that nobody was told of any more.
        assert!((acknowledged..=acknowledged + 1).contains(&there), "{acknowledged} acknowledged, {there} there");
    }
}

#[test]
fn a_full_disk_is_an_error_and_the_store_goes_on_when_there_is_room() {
    if let Some(path) = path_of_child() {
        return fill_the_disk(&path);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    drop(open(&path));
    // Files of at most 6 MiB; a process that ignores SIGXFSZ gets an error.
    let test = "crashes::a_full_disk_is_an_error_and_the_store_goes_on_when_there_is_room";
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -S -f 12288; exec \"$0\" \"$@\""]).arg(this().get_program());
    let ended = output(&mut child(limited, test, &path)).unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}\n{}", String::from_utf8_lossy(&ended.stderr));
    let last = said.lines().find_map(|line| line.split_once("all 1 to ")?.1.parse::<u32>().ok()).unwrap();
    assert_eq!(last_whole(&path), last);
}

fn fill_the_disk(path: &Path) {
    let (store, _) = open(path);
    let mut number = 0;
    let refused = loop {
        match write(&store, number + 1) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 1000, "the disk is never full");
    };
    assert!(number > 0 && refused.to_string().contains("File too large"), "{refused}, after {number}");
    assert!(write(&store, number + 1).is_err(), "it is still full");
    // Whoever is killed now has lost nothing.
    let copy = path.with_file_name("copy");
    std::fs::copy(path, &copy).unwrap();
    std::fs::copy(path.with_file_name("file.log"), path.with_file_name("copy.log")).unwrap();
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: maximum, maximum }).unwrap();
    assert_eq!(last_whole(&copy), number);
    for _ in 0..30 {
        number += 1;
        write(&store, number).unwrap();
    }
    println!("all 1 to {number}");
}

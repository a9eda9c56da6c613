//! What is read of a log that was cut, or damaged.

use super::record::{HEAD, Record};
use super::*;

const KEY: Key = Key(7);

/// A log's bytes with these groups, the first of number `first`; where each record ends.
fn log(first: u64, groups: &[Vec<Change>]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = vec![0; BEGIN];
    let mut record = Vec::new();
    let mut ends = Vec::new();
    for (number, changes) in (first..).zip(groups) {
        record::write(&mut record, KEY, number, changes).unwrap();
        assert_eq!(record.len() as u64, record::length(changes));
        bytes.extend_from_slice(&record);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn groups() -> Vec<Vec<Change>> {
    vec![
        vec![Change::put("a", "x", "1"), Change::remove("b", "gone")],
        vec![Change::put("a", "", "")],
        vec![Change::put("b", "y", vec![b'v'; 300])],
        vec![Change::put("a", "x", "2")],
    ]
}

fn found(bytes: &[u8], applied: u64) -> Result<Vec<Change>, Damage> {
    let name = |table: &str| if table == "a" { "a" } else { "b" };
    let changes = Scan::of(bytes, KEY, applied)?.changes().collect::<Vec<_>>();
    let change = |change: Logged<'_>| Change {
        table: name(change.table),
        key: change.key.to_vec(),
        value: change.value.map(<[u8]>::to_vec),
    };
    Ok(changes.into_iter().map(change).collect())
}

#[test]
fn a_log_that_ends_anywhere_has_all_whole_groups_and_no_part_of_one() {
    let (bytes, ends) = log(1, &groups());
    for length in BEGIN..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= length).count();
        let expected = groups()[..whole].concat();
        assert_eq!(found(&bytes[..length], 0).unwrap(), expected, "{length} bytes");
        // As a disk leaves it: the file has its length, and what was not written is zero.
        let mut zeroed = bytes[..length].to_vec();
        zeroed.resize(bytes.len() + 100, 0);
        // A record may end in zeros itself.
        let whole = ends.iter().filter(|end| zeroed[..**end] == bytes[..**end]).count();
        assert_eq!(found(&zeroed, 0).unwrap(), groups()[..whole].concat(), "{length} bytes, then zeros");
    }
}

#[test]
fn a_record_with_a_damaged_byte_ends_the_log_or_is_refused_where_others_stand_behind() {
    let (bytes, ends) = log(1, &groups());
    for at in BEGIN..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x20;
        let whole = ends.iter().filter(|end| **end <= at).count();
        let said = found(&damaged, 0);
        if whole == groups().len() - 1 {
            assert_eq!(said.unwrap(), groups()[..whole].concat(), "byte {at}: the last may not have been acknowledged");
        } else {
            let begin = ends[..whole].last().copied().unwrap_or(BEGIN);
            let expected = Damage::Middle { at: begin, later: ends[whole], lost: whole as u64 + 1 };
            assert_eq!(said.unwrap_err(), expected, "byte {at}");
        }
    }
}

#[test]
fn groups_that_the_database_has_are_left_out_and_missing_ones_are_named() {
    let (bytes, _) = log(5, &groups());
    assert_eq!(found(&bytes, 6).unwrap(), groups()[2..].concat());
    assert_eq!(found(&bytes, 8).unwrap(), []);
    assert_eq!(found(&bytes, 20).unwrap(), [], "of before the log began anew");
    assert_eq!(found(&bytes, 3).unwrap_err(), Damage::Gap { applied: 3, after: 4 });
}

#[test]
fn what_stood_in_the_log_before_it_began_anew_is_no_group() {
    let (mut bytes, _) = log(5, &groups());
    // Groups of the same lengths, in the same places.
    let groups_now = [vec![Change::put("a", "x", "7"), Change::remove("b", "gone")], vec![Change::put("b", "", "")]];
    let (new, _) = log(9, &groups_now);
    bytes[..new.len()].copy_from_slice(&new);
    assert_eq!(found(&bytes, 8).unwrap(), groups_now.concat());
    // The same, with the first one not whole.
    bytes[BEGIN + HEAD] ^= 1;
    assert!(matches!(found(&bytes, 8), Err(Damage::Middle { lost: 9, .. })));
    let (mut torn, _) = log(5, &groups());
    torn[..BEGIN + 40].copy_from_slice(&new[..BEGIN + 40]);
    assert_eq!(found(&torn, 8).unwrap(), []);
}

#[test]
fn a_value_that_looks_like_a_record_is_none() {
    let mut forged = Vec::new();
    record::write(&mut forged, Key(8), 2, &[Change::put("a", "admin", "1")]).unwrap();
    let (bytes, _) = log(1, &[vec![Change::put("a", "x", forged)]]);
    assert!(found(&bytes[..bytes.len() - 1], 0).unwrap().is_empty(), "cut within the value");
    let place = bytes.windows(4).enumerate().skip(BEGIN + 1).find(|(_, window)| window == b"LKgc").unwrap().0;
    assert!(record::read(&bytes[place..], KEY).is_none());
    assert!(record::read(&bytes[place..], Key(8)).is_some(), "another log's");
}

#[test]
fn a_body_that_is_no_changes_is_refused() {
    for body in
        [&b"\x01"[..], b"\x01a\x05\x00x", b"\x01a\x00\x00\x03\x00\x00\x00x", b"\x01\xff\x00\x00\x00\x00\x00\x00"]
    {
        assert_eq!(Record { number: 1, body }.changes(), None, "{body:?}");
    }
    let empty = Record { number: 1, body: b"" };
    assert_eq!((empty.changes(), empty.length()), (Some(vec![]), HEAD));
}

#[test]
fn a_head_is_whole_or_none() {
    let file = tempfile::tempfile().unwrap();
    let log = Log::create(Box::new(file.try_clone().unwrap()), 0).unwrap();
    let mut bytes = vec![0; BEGIN];
    Disk::read(&file, 0, &mut bytes).unwrap();
    assert!(key_of(&bytes) == Some(log.key()) && !has_records(&bytes, log.key()));
    for at in 0..40 {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(key_of(&damaged).is_none() && key_of(&bytes[..at]).is_none(), "byte {at}");
    }
    assert_eq!(file.metadata().unwrap().len(), LENGTH);
}

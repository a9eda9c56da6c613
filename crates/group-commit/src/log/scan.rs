//! What a log has for the database, when it is found at a start.

use super::BEGIN;
use super::record::{self, Key, Logged, Record};

/// The groups of a log that the database lacks, in order.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    records: Vec<Record<'a>>,
    /// The number of the last group, of the log or of the database.
    last: u64,
}

/// Why a log is refused: groups were acknowledged that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("it goes on from group {after}, and the database has only group {applied}")]
    Gap { applied: u64, after: u64 },
    #[error(
        "the record at byte {at} is damaged, and a later one stands at byte {later}: group {lost} was acknowledged, and is lost"
    )]
    Middle { at: usize, later: usize, lost: u64 },
    #[error("it does not read as it was written, up to group {last}")]
    Changed { last: u64 },
    #[error("the record at byte {at} has bytes that are no changes")]
    Body { at: usize },
}

impl<'a> Scan<'a> {
    /// Reads a whole log's bytes, beside a database that has all groups up to `applied`.
    ///
    /// A record is written once the one before is durable. So a record that is not whole was never acknowledged if it is the last
    /// one: it is cut. If a later one stands behind it, it was.
    pub(crate) fn of(bytes: &'a [u8], key: Key, applied: u64) -> Result<Self, Damage> {
        let mut scan = Self { records: Vec::new(), last: applied };
        let mut at = BEGIN;
        let mut next = None;
        while let Some(record) = bytes.get(at..).and_then(|bytes| record::read(bytes, key)) {
            match next {
                None if record.number > applied + 1 => {
                    return Err(Damage::Gap { applied, after: record.number - 1 });
                }
                Some(next) if record.number != next => break,
                _ => {}
            }
            next = Some(record.number + 1);
            let length = record.length();
            if record.number > applied {
                record.changes().ok_or(Damage::Body { at })?;
                scan.last = record.number;
                scan.records.push(record);
            }
            at += length;
        }
        let behind = bytes.get(at + 1..).unwrap_or_default();
        match record::find_above(behind, key, scan.last + 1) {
            Some(later) => Err(Damage::Middle { at, later: at + 1 + later, lost: scan.last + 1 }),
            None => Ok(scan),
        }
    }

    /// The number of the last group, of the log or of the database.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// All changes, in order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Logged<'a>> {
        self.records.iter().filter_map(Record::changes).flatten()
    }
}

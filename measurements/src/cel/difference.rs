//! Where two canonical logs part.

use latchkey_attestation::{Component, PcrSet};

use super::{CelLog, Record, explain};
use crate::bank::Bank;
use crate::difference::{EventDifference, EventSummary};

/// The first difference of each of these PCRs, in the order of the reported log. As for event logs: digests are compared,
/// and two logs without a bank in common have no differences.
pub fn explain_differences(reference: &CelLog, reported: &CelLog, pcrs: PcrSet) -> Vec<EventDifference> {
    let both = |bank: &Bank| [reference, reported].iter().all(|log| log.banks().any(|other| other == *bank));
    let best = [Bank::Sha256, Bank::Sha384, Bank::Sha512, Bank::Sha1].into_iter().find(both);
    let Some(bank) = best else { return Vec::new() };
    let mut differences: Vec<_> = pcrs.iter().filter_map(|pcr| first(reference, reported, pcr, bank)).collect();
    differences.sort_by_key(|difference| difference.got.as_ref().map_or(usize::MAX, |event| event.index));
    differences
}

fn first(reference: &CelLog, reported: &CelLog, pcr: u8, bank: Bank) -> Option<EventDifference> {
    let of = |log| extending(log, pcr);
    let (mut expected, mut got) = (of(reference), of(reported));
    loop {
        let (expected, got) = (expected.next(), got.next());
        if expected.is_none() && got.is_none() {
            return None;
        }
        let digest = |record: Option<&Record>| record.and_then(|record| record.digest(bank)).map(<[u8]>::to_vec);
        if digest(expected) != digest(got) {
            let summary = |record: &Record| summary(record, bank);
            let component = Component::of(pcr);
            return Some(EventDifference { pcr, component, expected: expected.map(summary), got: got.map(summary) });
        }
    }
}

fn extending(log: &CelLog, pcr: u8) -> impl Iterator<Item = &Record> {
    log.extending().filter(move |(other, _)| *other == pcr).map(|(_, record)| record)
}

fn summary(record: &Record, bank: Bank) -> EventSummary {
    EventSummary {
        index: record.index,
        kind: record.content.kind(),
        description: explain::describe(record),
        digest: record.digest(bank).map(hex::encode).unwrap_or_default(),
    }
}

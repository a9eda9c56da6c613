//! Where two boots part: the events that differ between a trusted machine's log and a reported one.

use std::fmt;

use latchkey_attestation::{Component, PcrSet};
use serde::Serialize;

use crate::bank::Bank;
use crate::event::{Event, EventType};
use crate::explain::describe;
use crate::log::EventLog;

/// The first event of a PCR that is not as in the reference log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventDifference {
    /// The PCR.
    pub pcr: u8,
    /// What is measured into it.
    pub component: Component,
    /// The reference log's event; `None` when it has no more for this PCR.
    pub expected: Option<EventSummary>,
    /// The reported log's event; `None` when it has no more for this PCR.
    pub got: Option<EventSummary>,
}

/// An event, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventSummary {
    /// Position in its log, from 0.
    pub index: usize,
    /// The specification's name of its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was measured, in words.
    pub description: String,
    /// The digest in the compared bank, lower-case hexadecimal.
    pub digest: String,
}

/// The most telling of the [`explain_differences`]: the first that is about a part and not only a whole image, whose
/// digest changes with every part.
pub fn explain_difference(reference: &EventLog<'_>, reported: &EventLog<'_>, pcrs: PcrSet) -> Option<EventDifference> {
    let differences = explain_differences(reference, reported, pcrs);
    let whole = |difference: &&EventDifference| {
        let kind = difference.got.as_ref().or(difference.expected.as_ref()).map(|event| event.kind.as_str());
        kind == EventType::EFI_BOOT_SERVICES_APPLICATION.name()
    };
    let part = differences.iter().find(|difference| !whole(difference));
    part.or(differences.first()).cloned()
}

/// The first difference of each of these PCRs, in the order of the reported log. Two logs without a bank in common have
/// none: there is nothing to compare.
///
/// Only digests are compared: the same thing may be described by other words. The reported log means something only after
/// [`replay::check`](crate::replay::check).
pub fn explain_differences(reference: &EventLog<'_>, reported: &EventLog<'_>, pcrs: PcrSet) -> Vec<EventDifference> {
    let Some(bank) = common_bank(reference, reported) else { return Vec::new() };
    let mut differences: Vec<_> = pcrs.iter().filter_map(|pcr| first(reference, reported, pcr, bank)).collect();
    differences.sort_by_key(|difference| difference.got.as_ref().map_or(usize::MAX, |event| event.index));
    differences
}

/// The bank that is quoted, or else the best that both have.
fn common_bank(one: &EventLog<'_>, other: &EventLog<'_>) -> Option<Bank> {
    let both = |bank: &Bank| one.banks().any(|b| b == *bank) && other.banks().any(|b| b == *bank);
    [Bank::Sha256, Bank::Sha384, Bank::Sha512, Bank::Sha1].into_iter().find(both)
}

fn first(reference: &EventLog<'_>, reported: &EventLog<'_>, pcr: u8, bank: Bank) -> Option<EventDifference> {
    let mut expected = extending(reference, pcr);
    let mut got = extending(reported, pcr);
    loop {
        let (expected, got) = (expected.next(), got.next());
        if expected.is_none() && got.is_none() {
            return None;
        }
        let digest = |event: Option<&Event<'_>>| event.and_then(|event| event.digest(bank)).map(<[u8]>::to_vec);
        if digest(expected) != digest(got) {
            let summary = |event: &Event<'_>| EventSummary::of(event, bank);
            let component = Component::of(pcr);
            return Some(EventDifference { pcr, component, expected: expected.map(summary), got: got.map(summary) });
        }
    }
}

fn extending<'a, 'log>(log: &'a EventLog<'log>, pcr: u8) -> impl Iterator<Item = &'a Event<'log>> {
    log.events().iter().filter(move |event| event.extends() == Some(pcr))
}

impl EventSummary {
    fn of(event: &Event<'_>, bank: Bank) -> Self {
        Self {
            index: event.index,
            kind: event.kind.to_string(),
            description: describe(event),
            digest: event.digest(bank).map(hex::encode).unwrap_or_default(),
        }
    }
}

impl fmt::Display for EventDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PCR {} ({}): ", self.pcr, self.component.describe())?;
        match (&self.expected, &self.got) {
            (Some(expected), Some(got)) if expected.description == got.description => {
                let EventSummary { index, kind, description, digest } = got;
                write!(f, "event {index} ({kind}, {description}): expected {}, got {digest}", expected.digest)
            }
            (Some(expected), Some(got)) => {
                let EventSummary { index, kind, description, .. } = got;
                write!(f, "event {index} ({kind}): expected {}, got {description}", expected.description)
            }
            (Some(missing), None) => write!(f, "without the event {} ({})", missing.description, missing.kind),
            (None, Some(EventSummary { index, kind, description, .. })) => {
                write!(f, "event {index} ({kind}, {description}) is not expected")
            }
            (None, None) => Ok(()),
        }
    }
}

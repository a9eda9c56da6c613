//! Where two boots part: the events that differ between a trusted machine's log and a reported one.

use std::fmt;

use latchkey_attestation::reference::ExpectedEvent;
use latchkey_attestation::{Component, PcrSet};
use serde::Serialize;

use crate::bank::{AlgorithmId, Bank};
use crate::event::{Event, EventType};
use crate::explain::text::Text;
use crate::explain::{describe, tagged_text};
use crate::log::EventLog;

/// The first event of a PCR that is not as in the reference log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventDifference {
    /// The PCR.
    pub pcr: u8,
    /// What is measured into it.
    pub component: Component,
    /// The event of the reference log or the prediction; `None` when there is no more for this PCR.
    pub expected: Option<EventSummary>,
    /// The reported log's event; `None` when it has no more for this PCR.
    pub got: Option<EventSummary>,
}

/// An event, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventSummary {
    /// Position in its log or prediction, from 0.
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
    most_specific(explain_differences(reference, reported, pcrs))
}

/// The most telling of these, in the sense of [`explain_difference`].
pub(crate) fn most_specific(differences: Vec<EventDifference>) -> Option<EventDifference> {
    let whole = |difference: &&EventDifference| {
        let kind = difference.got.as_ref().or(difference.expected.as_ref()).map(|event| event.kind.as_str());
        kind == EventType::EFI_BOOT_SERVICES_APPLICATION.name()
    };
    let part = differences.iter().position(|difference| !whole(&difference));
    differences.into_iter().nth(part.unwrap_or(0))
}

/// The first event of each of these PCRs that is not as expected, in the order of the log. The log's digests of the SHA-256
/// bank are compared; it means something only after [`replay::check`](crate::replay::check).
///
/// Logs only name the kernel's command line. Where the boot stub has logged a foreign one (PCR 12), and it is what the
/// kernel measured, its text is said.
pub fn unexpected(expected: &[ExpectedEvent], log: &EventLog<'_>, pcrs: PcrSet) -> Vec<EventDifference> {
    let expected: Vec<_> = expected.iter().enumerate().map(|(index, event)| Numbered(index, event)).collect();
    let mut differences = differences(&expected, log.events(), pcrs, Bank::Sha256);
    for got in differences.iter_mut().filter_map(|difference| difference.got.as_mut()) {
        if let Some(text) = foreign_command_line(log, &got.digest) {
            got.description = format!("kernel command line \"{text}\"");
        }
    }
    differences
}

/// The first event of each of these PCRs that is not as before, in the order of what was measured now. `now` is of a log that
/// replays to quoted values.
pub fn between(before: &[ExpectedEvent], now: &[ExpectedEvent], pcrs: PcrSet) -> Vec<EventDifference> {
    let numbered = |events| -> Vec<Numbered<'_>> {
        let events: &[ExpectedEvent] = events;
        events.iter().enumerate().map(|(index, event)| Numbered(index, event)).collect()
    };
    differences(&numbered(before), &numbered(now), pcrs, Bank::Sha256)
}

/// The text that the boot stub logged and that has this digest in the form the kernel gets it in.
fn foreign_command_line(log: &EventLog<'_>, digest: &str) -> Option<Text> {
    let of_stub = |event: &&Event<'_>| event.extends() == Some(12);
    let texts = log.events().iter().filter(of_stub).filter_map(|event| match event.kind {
        EventType::EVENT_TAG => tagged_text(event.data).map(|(_, text)| text),
        _ => Text::parse(event.data),
    });
    let handed_over =
        |text: &Text| -> Vec<u8> { text.raw().encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect() };
    let mut texts = texts.filter(|text| hex::encode(Bank::Sha256.digest(&[&handed_over(text)])) == digest);
    texts.next()
}

/// The first difference of each of these PCRs, in the order of the reported log. Two logs without a bank in common have
/// none: there is nothing to compare.
///
/// Only digests are compared: the same thing may be described by other words. The reported log means something only after
/// [`replay::check`](crate::replay::check).
pub fn explain_differences(reference: &EventLog<'_>, reported: &EventLog<'_>, pcrs: PcrSet) -> Vec<EventDifference> {
    let bank = common_bank(reference.algorithms(), reported.algorithms());
    bank.map_or_else(Vec::new, |bank| differences(reference.events(), reported.events(), pcrs, bank))
}

/// What extends a PCR: an event of some kind of log.
pub(crate) trait Extension {
    /// The PCR, unless it only informs.
    fn extends(&self) -> Option<u8>;
    /// The digest that `bank` was extended with.
    fn digest(&self, bank: Bank) -> Option<&[u8]>;
    /// For people, with the digest in `bank`.
    fn summary(&self, bank: Bank) -> EventSummary;
}

/// The bank that is quoted, or else the best that both have.
pub(crate) fn common_bank(one: &[AlgorithmId], other: &[AlgorithmId]) -> Option<Bank> {
    let both = |bank: &Bank| [one, other].iter().all(|list| list.contains(&bank.algorithm()));
    [Bank::Sha256, Bank::Sha384, Bank::Sha512, Bank::Sha1].into_iter().find(both)
}

/// The first difference of each of these PCRs, in the order of what was reported.
pub(crate) fn differences<E: Extension, G: Extension>(
    expected: &[E],
    got: &[G],
    pcrs: PcrSet,
    bank: Bank,
) -> Vec<EventDifference> {
    let mut differences: Vec<_> = pcrs.iter().filter_map(|pcr| first(expected, got, pcr, bank)).collect();
    differences.sort_by_key(|difference| difference.got.as_ref().map_or(usize::MAX, |event| event.index));
    differences
}

fn first<E: Extension, G: Extension>(expected: &[E], got: &[G], pcr: u8, bank: Bank) -> Option<EventDifference> {
    let mut expected = expected.iter().filter(|event| event.extends() == Some(pcr));
    let mut got = got.iter().filter(|event| event.extends() == Some(pcr));
    loop {
        let (expected, got) = (expected.next(), got.next());
        if expected.is_none() && got.is_none() {
            return None;
        }
        let same = match (expected, got) {
            (Some(expected), Some(got)) => expected.digest(bank) == got.digest(bank),
            _ => false,
        };
        if !same {
            let (expected, got) = (expected.map(|event| event.summary(bank)), got.map(|event| event.summary(bank)));
            return Some(EventDifference { pcr, component: Component::of(pcr), expected, got });
        }
    }
}

/// An expected event and its place among all.
struct Numbered<'a>(usize, &'a ExpectedEvent);

impl Extension for Numbered<'_> {
    fn extends(&self) -> Option<u8> {
        Some(self.1.pcr)
    }

    fn digest(&self, bank: Bank) -> Option<&[u8]> {
        (bank == Bank::Sha256).then(|| self.1.digest.as_bytes().as_slice())
    }

    fn summary(&self, _: Bank) -> EventSummary {
        let Self(index, ExpectedEvent { kind, what, digest, .. }) = self;
        EventSummary { index: *index, kind: kind.clone(), description: what.clone(), digest: digest.to_string() }
    }
}

impl Extension for Event<'_> {
    fn extends(&self) -> Option<u8> {
        Event::extends(self)
    }

    fn digest(&self, bank: Bank) -> Option<&[u8]> {
        Event::digest(self, bank)
    }

    fn summary(&self, bank: Bank) -> EventSummary {
        EventSummary {
            index: self.index,
            kind: self.kind.to_string(),
            description: describe(self),
            digest: Event::digest(self, bank).map(hex::encode).unwrap_or_default(),
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

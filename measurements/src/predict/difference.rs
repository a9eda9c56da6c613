//! Where a log parts from what was predicted.

use latchkey_attestation::PcrSet;

use super::{PredictedEvent, Prediction};
use crate::bank::Bank;
use crate::difference::{EventDifference, EventSummary, Extension, differences};
use crate::event::{Event, EventType};
use crate::explain::tagged_text;
use crate::explain::text::Text;
use crate::log::EventLog;

impl Prediction {
    /// The first event of each predicted PCR in `pcrs` that is not as predicted, in the order of the log. The log's digests
    /// of the SHA-256 bank are compared; it means something only after [`replay::check`](crate::replay::check).
    ///
    /// Logs only name the kernel's command line. Where the boot stub has logged a foreign one (PCR 12), and it is what the
    /// kernel measured, its text is said.
    pub fn differences(&self, log: &EventLog<'_>, pcrs: PcrSet) -> Vec<EventDifference> {
        let expected: Vec<_> = self.events.iter().enumerate().map(|(index, event)| Numbered(index, event)).collect();
        let which = pcrs.intersection(Self::predicted());
        let mut differences = differences(&expected, log.events(), which, Bank::Sha256);
        for got in differences.iter_mut().filter_map(|difference| difference.got.as_mut()) {
            if let Some(text) = foreign_command_line(log, &got.digest) {
                got.description = format!("kernel command line {text:?}");
            }
        }
        differences
    }
}

struct Numbered<'a>(usize, &'a PredictedEvent);

impl Extension for Numbered<'_> {
    fn extends(&self) -> Option<u8> {
        Some(self.1.pcr)
    }

    fn digest(&self, bank: Bank) -> Option<&[u8]> {
        (bank == Bank::Sha256).then(|| self.1.digest.as_bytes().as_slice())
    }

    fn summary(&self, _: Bank) -> EventSummary {
        let Self(index, PredictedEvent { kind, what, digest, .. }) = self;
        EventSummary { index: *index, kind: kind.to_string(), description: what.clone(), digest: digest.to_string() }
    }
}

/// The text that the boot stub logged and that has this digest in the form the kernel gets it in.
fn foreign_command_line(log: &EventLog<'_>, digest: &str) -> Option<String> {
    let of_stub = |event: &&Event<'_>| event.extends() == Some(12);
    let texts = log.events().iter().filter(of_stub).filter_map(|event| match event.kind {
        EventType::EVENT_TAG => tagged_text(event.data).map(|(_, text)| text),
        _ => Text::parse(event.data),
    });
    let handed_over =
        |text: &Text| -> Vec<u8> { text.raw().encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect() };
    let mut texts = texts.filter(|text| hex::encode(Bank::Sha256.digest(&[&handed_over(text)])) == digest);
    texts.next().map(|text| text.raw().to_owned())
}

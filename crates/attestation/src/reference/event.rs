//! What a PCR's value is made of: so that whoever has a log can say which event differs, and not only which register.

use latchkey_reason::{misleads, printable};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::parse::Digest;

/// An event that extends a PCR, as an event log tells of it. For people: admission compares the PCRs' values alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedEvent {
    /// PCR index, 0 to 23.
    pub pcr: u8,
    /// Name of the event's type, such as `EV_IPL` (TCG PC Client Platform Firmware Profile 1.06, table 27).
    #[serde(rename = "type")]
    pub kind: String,
    /// What is measured, in words on one line.
    pub what: String,
    /// What extends the PCR in the SHA-256 bank.
    pub digest: Digest,
}

impl ExpectedEvent {
    /// An event, with words that a manifest takes: control characters are replaced, overlong ones cut.
    pub fn new(pcr: u8, kind: &str, what: &str, digest: Digest) -> Self {
        Self::with_words(pcr, kind, what, digest, MAX_WORDS)
    }

    /// The same event, in at most so many bytes of words.
    #[must_use]
    pub(crate) fn shortened(&self, most: usize) -> Self {
        if self.what.len() <= most {
            return self.clone();
        }
        Self::with_words(self.pcr, &self.kind, &self.what, self.digest, most)
    }

    fn with_words(pcr: u8, kind: &str, what: &str, digest: Digest, most: usize) -> Self {
        let mut room = most.saturating_sub(ELLIPSIS.len_utf8());
        let fits = |c: &char| room.checked_sub(c.len_utf8()).map(|left| room = left).is_some();
        let mut words: String = printable(what).take_while(fits).collect();
        if words.chars().count() < what.chars().count() {
            words.push(ELLIPSIS);
        }
        if words.is_empty() {
            words.push_str(kind);
        }
        Self { pcr, kind: kind.to_owned(), what: words, digest }
    }

    /// Whether its words are ones for people, and few enough.
    pub(crate) fn is_sound(&self) -> bool {
        let words = |text: &str, most: usize| !text.is_empty() && text.len() <= most && !text.contains(misleads);
        words(&self.kind, MAX_KIND) && words(&self.what, MAX_WORDS)
    }

    /// The value of a PCR that begins at zero, after those of these events that extend it: `TPM2_PCR_Extend`, folded.
    pub fn fold(events: &[Self], pcr: u8) -> Digest {
        events.iter().filter(|event| event.pcr == pcr).fold(Digest::ZERO, |value, event| {
            let mut hash = Context::new(&SHA256);
            hash.update(value.as_bytes());
            hash.update(event.digest.as_bytes());
            let mut extended = Digest::ZERO;
            extended.0.copy_from_slice(hash.finish().as_ref());
            extended
        })
    }
}

const MAX_KIND: usize = 64;
const MAX_WORDS: usize = 1024;
const ELLIPSIS: char = '…';

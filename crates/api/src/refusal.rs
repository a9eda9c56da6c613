//! Reason codes that travel, and on which the peer acts.
//!
//! All other codes travel as text for people: in the sentence of a status, in `Failed.code`, in a report. What a later
//! release sends and this one does not know is such a text, too.

use std::fmt;

use latchkey_reason::{Reason, ReasonCode, reason_codes};

/// The longest code that a peer may send, in bytes.
const MAX_CODE: usize = 64;

reason_codes! {
    /// Why a waiting node does not take an offered key.
    pub enum OfferRefusal {
        /// Another offer won in this boot.
        AlreadyActivating = "already-activating":
            "look at the node's console to see which offer it took; if that was not yours, choose another node";
        /// Too many offers wait while one key is tried.
        Busy = "busy": "offer the key again in a moment";
        /// The node's disk does not wait for such an offer.
        WrongFlow = "wrong-flow": "see `latchkey verify` for what the node waits for";
        /// The offer is gone before its key was tried.
        OfferGone = "offer-gone": "offer the key again";
        /// The disk has no header that a key could open.
        NoHeader = "no-header": "see `latchkey verify` for what the node waits for";
        /// The key does not open the disk.
        DiskWrongKey = "disk-wrong-key": "use the master secret of the cluster that this disk belongs to";
        /// The key opens the disk, and its header has no token.
        DiskTokenMissing = "disk-token-missing":
            "wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) and let the node join anew: its header lost what says who the node is";
        /// The key opens the disk, and its header is not as Latchkey wrote it.
        DiskTokenForged = "disk-token-forged":
            "restore the disk, or wipe the first 16 MiB and the last MiB of the state disk (in a built image the partition `state`, never the whole disk) and let the node join anew: somebody changed its header";
        /// The secret, or the ticket, is of another cluster than the disk.
        WrongCluster = "wrong-cluster": "use the master secret of the cluster that this disk belongs to";
        /// The first bootstrap of the cluster never finished: the disk is reset.
        BootstrapUnfinished = "bootstrap-unfinished": "wait until the node has restarted, and initialise it again";
    }
}

/// Every reason code of this crate.
pub fn reason_codes() -> impl Iterator<Item = Reason> {
    latchkey_reason::reasons::<OfferRefusal>()
}

/// A code that a peer sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentCode {
    /// One that this release knows, and may act on.
    Known(OfferRefusal),
    /// Any other: to be shown, never compared. Lower-case letters, digits and `-`, at most 64 bytes.
    Other(String),
}

impl SentCode {
    /// Reads a code; `None` for what has not the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(known) = OfferRefusal::parse(text) {
            return Some(Self::Known(known));
        }
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let coded = text.len() <= MAX_CODE && text.contains('-') && text.bytes().all(plain);
        coded.then(|| Self::Other(text.to_owned()))
    }

    /// Reads a status' message, `CODE: SENTENCE`; one without a code is all sentence.
    pub fn of_message(message: &str) -> (Option<Self>, &str) {
        let parts = message.split_once(": ").and_then(|(code, sentence)| Some((Self::parse(code)?, sentence)));
        parts.map_or((None, message), |(code, sentence)| (Some(code), sentence))
    }

    /// The code if this release knows it.
    pub fn known(&self) -> Option<OfferRefusal> {
        match self {
            Self::Known(known) => Some(*known),
            Self::Other(_) => None,
        }
    }

    /// The code's text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(known) => known.as_str(),
            Self::Other(text) => text,
        }
    }
}

impl fmt::Display for SentCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_a_later_release_is_shown_and_is_none_to_act_on() {
        let (code, sentence) = SentCode::of_message("disk-on-fire: put it out");
        assert_eq!((code.as_ref().map(SentCode::as_str), sentence), (Some("disk-on-fire"), "put it out"));
        assert_eq!(code.unwrap().known(), None);
    }

    #[test]
    fn every_known_code_is_read_back() {
        for &refusal in OfferRefusal::ALL {
            let message = format!("{refusal}: why");
            let (code, sentence) = SentCode::of_message(&message);
            assert_eq!((code.and_then(|code| code.known()), sentence), (Some(refusal), "why"));
        }
    }

    #[test]
    fn what_has_not_the_form_of_a_code_is_a_sentence() {
        let long = format!("{}-a: x", "a".repeat(MAX_CODE));
        for message in ["", ": ", "no code", "two words: x", "Upper-case: x", "a\u{7}-b: x", "plain: x", &long] {
            assert_eq!(SentCode::of_message(message), (None, message));
        }
    }
}

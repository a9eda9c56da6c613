//! One predicted event.

use latchkey_attestation::Digest;
use latchkey_attestation::reference::ExpectedEvent;

use super::sha256::sha256;
use crate::bank::Bank;
use crate::event::{Event, EventType, Register};
use crate::explain::describe;

/// What a PCR will be extended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictedEvent {
    /// The PCR.
    pub pcr: u8,
    /// The type that the event has in a log.
    pub kind: EventType,
    /// What is measured, in words.
    pub what: String,
    /// The digest that extends the PCR (SHA-256 bank).
    pub digest: Digest,
    /// What is hashed, where that is short.
    pub data: Option<Vec<u8>>,
}

impl PredictedEvent {
    /// An event whose digest is that of its data, described as one in a log would be.
    pub(super) fn of_data(pcr: u8, kind: EventType, data: Vec<u8>) -> Self {
        let digest = sha256(&[&data]);
        let digests = vec![(Bank::Sha256.algorithm(), digest.as_bytes().as_slice())];
        let what =
            describe(&Event { index: 0, offset: 0, register: Some(Register::Pcr(pcr)), kind, digests, data: &data });
        Self { pcr, kind, what, digest, data: Some(data) }
    }

    /// An event of something larger.
    pub(super) fn of_digest(pcr: u8, kind: EventType, what: String, digest: Digest) -> Self {
        Self { pcr, kind, what, digest, data: None }
    }

    /// As a manifest tells of it.
    pub fn expected(&self) -> ExpectedEvent {
        ExpectedEvent::new(self.pcr, &self.kind.to_string(), &self.what, self.digest)
    }

    /// The firmware's measurements of this PCR end.
    pub(super) fn separator(pcr: u8) -> Self {
        Self::of_data(pcr, EventType::SEPARATOR, vec![0; 4])
    }
}

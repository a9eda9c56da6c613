//! Why we refuse the peer: for our own log and decision record, in full.

use std::fmt;

use latchkey_attestation::refusal::{ReasonCode, Refusal};

use super::PeerReason;
use crate::purpose::{Kind, Kinds, Purpose};
use crate::tls::SpkiHash;

/// Why we refuse the peer, in full.
#[derive(Debug)]
pub enum Refused {
    /// Its TPM evidence, or its claimed TPM identity.
    Evidence(Refusal),
    /// Its key is none of the pinned ones.
    KeyNotPinned {
        /// The key it showed; `None` if what it showed is no P-256 key.
        got: Option<SpkiHash>,
    },
    /// The signature with its pinned key does not cover this session.
    KeySignature {
        /// The key it showed.
        key: SpkiHash,
    },
    /// It shows a kind of evidence that this purpose and our demands do not allow.
    KindNotAccepted {
        /// What would do.
        accepted: Kinds,
        /// What it shows.
        got: Kind,
    },
    /// We can show none of the kinds of evidence it accepts.
    NothingInCommon {
        /// What it accepts.
        accepted: Kinds,
        /// What we could show in this purpose.
        offered: Kinds,
    },
    /// Its evidence is of another kind than its identity, or it demands another kind than ours.
    KindChanged {
        /// The kind agreed upon.
        expected: Kind,
        /// The kind that came.
        got: Kind,
    },
    /// The purpose is not served here.
    Purpose {
        /// The purpose it asked for.
        got: Purpose,
    },
}

impl Refused {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Evidence(refusal) => refusal.code().as_str(),
            Self::KeyNotPinned { .. } => "key-not-pinned",
            Self::KeySignature { .. } => "key-signature-invalid",
            Self::KindNotAccepted { .. } => "evidence-kind-refused",
            Self::NothingInCommon { .. } => "no-common-evidence-kind",
            Self::KindChanged { .. } => "evidence-kind-changed",
            Self::Purpose { .. } => "purpose-refused",
        }
    }

    /// The attestation reason code, if evidence was what failed.
    pub fn reason(&self) -> Option<ReasonCode> {
        match self {
            Self::Evidence(refusal) => Some(refusal.code()),
            _ => None,
        }
    }

    /// What the peer is told.
    pub fn coarse(&self) -> PeerReason {
        match self {
            Self::Evidence(refusal) => refusal.coarse().into(),
            Self::KeyNotPinned { .. } => PeerReason::KeyNotTrusted,
            Self::KeySignature { .. } => PeerReason::EvidenceRejected,
            Self::KindNotAccepted { .. } | Self::NothingInCommon { .. } => PeerReason::EvidenceKindRefused,
            Self::KindChanged { .. } => PeerReason::ProtocolViolation,
            Self::Purpose { .. } => PeerReason::PurposeRefused,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evidence(refusal) => write!(f, "{refusal}"),
            Self::KeyNotPinned { got: Some(got) } => write!(
                f,
                "key-not-pinned: the peer's key has SHA-256 {got} (pin it if the peer is yours, else somebody is in the middle)"
            ),
            Self::KeyNotPinned { got: None } => f.write_str("key-not-pinned: the peer's key is no P-256 key"),
            Self::KeySignature { key } => write!(
                f,
                "key-signature-invalid: the signature by {key} does not cover this session (somebody relays or replays evidence)"
            ),
            Self::KindNotAccepted { accepted, got } => {
                write!(f, "evidence-kind-refused: expected {accepted}, the peer shows {}", got.name())
            }
            Self::NothingInCommon { accepted, offered } => write!(
                f,
                "no-common-evidence-kind: the peer accepts {accepted}, this side can show {offered} (change what it demands, or give this side a TPM or key)"
            ),
            Self::KindChanged { expected, got } => {
                write!(f, "evidence-kind-changed: expected {}, got {}", expected.name(), got.name())
            }
            Self::Purpose { got } => {
                write!(f, "purpose-refused: the purpose {got} is not served here (check the address)")
            }
        }
    }
}

impl std::error::Error for Refused {}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Evidence(refusal)
    }
}

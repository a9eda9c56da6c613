//! Why we refuse the peer: for our own log and decision record, in full.

use latchkey_attestation::refusal::{ReasonCode, Refusal};
use latchkey_reason::Reason;

use crate::codes::ChannelCode;
use crate::peer_reason::PeerReason;
use crate::purpose::{Kind, Kinds, Purpose};
use crate::tls::SpkiHash;

/// Why we refuse the peer, in full.
#[derive(Debug, thiserror::Error)]
pub enum PeerRefusal {
    /// Its TPM evidence, or its claimed TPM identity.
    #[error(transparent)]
    Evidence(#[from] Refusal),
    /// Its key is none of the pinned ones.
    #[error("the peer's key {}", shown(.got.as_ref()))]
    KeyNotPinned {
        /// The key it showed; `None` if what it showed is no P-256 key.
        got: Option<SpkiHash>,
    },
    /// The signature with its pinned key does not cover this session.
    #[error("the signature by {key} does not cover this session")]
    KeySignature {
        /// The key it showed.
        key: SpkiHash,
    },
    /// It shows a kind of evidence that this purpose and our demands do not allow.
    #[error("expected {accepted}, the peer shows {}", .got.name())]
    KindNotAccepted {
        /// What would do.
        accepted: Kinds,
        /// What it shows.
        got: Kind,
    },
    /// We can show none of the kinds of evidence it accepts.
    #[error("the peer accepts {accepted}, this side can show {offered}")]
    NothingInCommon {
        /// What it accepts.
        accepted: Kinds,
        /// What we could show in this purpose.
        offered: Kinds,
    },
    /// Its evidence is of another kind than its identity, or it demands another kind than ours.
    #[error("expected {}, got {}", .expected.name(), .got.name())]
    KindChanged {
        /// The kind agreed upon.
        expected: Kind,
        /// The kind that came.
        got: Kind,
    },
    /// The purpose is not served here.
    #[error("the purpose {got} is not served here")]
    Purpose {
        /// The purpose it asked for.
        got: Purpose,
    },
}

fn shown(got: Option<&SpkiHash>) -> String {
    got.map_or_else(|| "is no P-256 key".to_owned(), |got| format!("has SHA-256 {got}"))
}

impl PeerRefusal {
    /// The stable reason code, with its remedy.
    pub fn code(&self) -> Reason {
        match self {
            Self::Evidence(refusal) => refusal.code().into(),
            Self::KeyNotPinned { .. } => ChannelCode::KeyNotPinned.into(),
            Self::KeySignature { .. } => ChannelCode::KeySignature.into(),
            Self::KindNotAccepted { .. } => ChannelCode::KindRefused.into(),
            Self::NothingInCommon { .. } => ChannelCode::NoCommonKind.into(),
            Self::KindChanged { .. } => ChannelCode::KindChanged.into(),
            Self::Purpose { .. } => ChannelCode::Purpose.into(),
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

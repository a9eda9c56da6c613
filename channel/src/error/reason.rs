//! What a refused peer is told.

use std::fmt;

use latchkey_attestation::refusal::CoarseReason;
use serde::{Deserialize, Serialize};

/// What a refused peer is told: the kind of check that failed, without values. On the wire a kebab-case word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerReason {
    /// [`CoarseReason::EvidenceMalformed`].
    EvidenceMalformed,
    /// [`CoarseReason::TpmNotTrusted`].
    TpmNotTrusted,
    /// [`CoarseReason::EvidenceRejected`], or the signature with a pinned key does not verify.
    EvidenceRejected,
    /// [`CoarseReason::MeasurementsRefused`].
    MeasurementsRefused,
    /// [`CoarseReason::LockRefused`].
    LockRefused,
    /// [`CoarseReason::VerifierUnavailable`].
    VerifierUnavailable,
    /// The key is not pinned.
    KeyNotTrusted,
    /// The purpose is not served.
    PurposeRefused,
    /// No kind of evidence suits both sides.
    EvidenceKindRefused,
    /// The refusing side cannot prove itself at the moment.
    ProofUnavailable,
    /// A message that does not belong there, or is none.
    ProtocolViolation,
}

impl PeerReason {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EvidenceMalformed => "evidence-malformed",
            Self::TpmNotTrusted => "tpm-not-trusted",
            Self::EvidenceRejected => "evidence-rejected",
            Self::MeasurementsRefused => "measurements-refused",
            Self::LockRefused => "lock-refused",
            Self::VerifierUnavailable => "verifier-unavailable",
            Self::KeyNotTrusted => "key-not-trusted",
            Self::PurposeRefused => "purpose-refused",
            Self::EvidenceKindRefused => "evidence-kind-refused",
            Self::ProofUnavailable => "proof-unavailable",
            Self::ProtocolViolation => "protocol-violation",
        }
    }

    /// One sentence for the refused side's console, naming the fix.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::EvidenceMalformed => CoarseReason::EvidenceMalformed.remedy(),
            Self::TpmNotTrusted => CoarseReason::TpmNotTrusted.remedy(),
            Self::EvidenceRejected => CoarseReason::EvidenceRejected.remedy(),
            Self::MeasurementsRefused => CoarseReason::MeasurementsRefused.remedy(),
            Self::LockRefused => CoarseReason::LockRefused.remedy(),
            Self::VerifierUnavailable => CoarseReason::VerifierUnavailable.remedy(),
            Self::KeyNotTrusted => "pin this side's key hash at the peer",
            Self::PurposeRefused => "check the address: the peer does not serve this purpose",
            Self::EvidenceKindRefused => "compare what this side can show with what the peer demands",
            Self::ProofUnavailable => "look at the peer's log: it could not prove itself",
            Self::ProtocolViolation => "run the same release on both sides",
        }
    }
}

impl fmt::Display for PeerReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<CoarseReason> for PeerReason {
    fn from(reason: CoarseReason) -> Self {
        match reason {
            CoarseReason::EvidenceMalformed => Self::EvidenceMalformed,
            CoarseReason::TpmNotTrusted => Self::TpmNotTrusted,
            CoarseReason::EvidenceRejected => Self::EvidenceRejected,
            CoarseReason::MeasurementsRefused => Self::MeasurementsRefused,
            CoarseReason::LockRefused => Self::LockRefused,
            CoarseReason::VerifierUnavailable => Self::VerifierUnavailable,
        }
    }
}

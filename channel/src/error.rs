//! Why there is no proven channel: who is at fault, what was expected, what came.
//!
//! Rule: a leaf error stays with its module and says one thing; [`ChannelError`] says where it happened and to whom it
//! matters. What we know about a refusal stays here; the peer is told a [`PeerReason`].

use std::fmt;
use std::io;
use std::time::Duration;

use latchkey_attestation::refusal::{CoarseReason, ReasonCode, Refusal};
use serde::{Deserialize, Serialize};

use crate::frame::{FrameFault, Slot};
use crate::message::{Message, VERSION};
use crate::proof::ProofFailed;
use crate::role::{Kind, Kinds, LockRule, Role, Side};
use crate::tls::{SpkiHash, TlsError};

/// Why a handshake did not end in a proven channel.
#[derive(Debug)]
pub enum ChannelError {
    /// There is no TLS session.
    Tls(TlsError),
    /// A frame could not be read.
    Frame {
        /// Where in the handshake.
        slot: Slot,
        /// What is wrong with it.
        fault: FrameFault,
    },
    /// The transport failed while sending.
    Send(io::Error),
    /// The handshake did not end in time.
    Deadline {
        /// What was being done.
        step: Step,
        /// The time allowed for the whole handshake.
        allowed: Duration,
    },
    /// A well-formed message at the wrong place.
    OutOfTurn {
        /// Where in the handshake.
        slot: Slot,
        /// The name of the message that came.
        got: &'static str,
    },
    /// The peer speaks another version.
    Version {
        /// The peer's; expected is [`VERSION`].
        got: u32,
    },
    /// We refuse the peer.
    Refused(Refused),
    /// The peer refuses us.
    PeerRefused(PeerReason),
    /// We cannot show what we must.
    CannotProve(ProofFailed),
    /// The caller asks for what cannot be.
    Misuse(Misuse),
}

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The peer, or who stands between: it sent what it should not.
    Peer,
    /// This machine.
    Us,
    /// The network between, or nobody.
    Network,
}

impl ChannelError {
    /// Who has to act.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Tls(TlsError::Transport(_))
            | Self::Frame { fault: FrameFault::Io(_) | FrameFault::Truncated, .. }
            | Self::Send(_)
            | Self::Deadline { .. } => Blame::Network,
            Self::CannotProve(_) | Self::Misuse(_) | Self::Tls(TlsError::NoKey) | Self::PeerRefused(_) => Blame::Us,
            Self::Tls(_) | Self::Frame { .. } | Self::OutOfTurn { .. } | Self::Version { .. } | Self::Refused(_) => {
                Blame::Peer
            }
        }
    }

    /// The stable code for logs, metrics and decision records.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Tls(error) => error.code(),
            Self::Frame { fault, .. } => fault.code(),
            Self::Send(_) => "transport-failed",
            Self::Deadline { .. } => "handshake-deadline",
            Self::OutOfTurn { .. } => "message-out-of-turn",
            Self::Version { .. } => "version-unsupported",
            Self::Refused(refused) => refused.code(),
            Self::PeerRefused(reason) => reason.as_str(),
            Self::CannotProve(_) => "proof-unavailable",
            Self::Misuse(_) => "channel-misuse",
        }
    }

    /// The attestation refusal in it, with its reason code, if evidence was what failed.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(Refused::Evidence(refusal)) => Some(refusal),
            _ => None,
        }
    }

    /// What the peer is told, if it is worth telling.
    pub(crate) fn reply(&self) -> Option<Message> {
        let reason = match self {
            Self::Refused(refused) => refused.coarse(),
            Self::Frame { fault: FrameFault::TooLong { .. } | FrameFault::Malformed { .. }, .. } => {
                PeerReason::ProtocolViolation
            }
            Self::OutOfTurn { .. } | Self::Version { .. } => PeerReason::ProtocolViolation,
            Self::CannotProve(_) | Self::Misuse(_) => PeerReason::ProofUnavailable,
            Self::Tls(_) | Self::Frame { .. } | Self::Send(_) | Self::Deadline { .. } | Self::PeerRefused(_) => {
                return None;
            }
        };
        Some(Message::refused(reason))
    }
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(error) => write!(f, "TLS handshake: {error}"),
            Self::Frame { slot, fault } => write!(f, "{slot}: {fault}"),
            Self::Send(error) => write!(f, "the connection failed: {error}"),
            Self::Deadline { step, allowed } => {
                write!(f, "the handshake took longer than {} s; it was at: {step}", allowed.as_secs_f32())
            }
            Self::OutOfTurn { slot, got } => write!(f, "expected the {slot}, got the message \"{got}\""),
            Self::Version { got } => write!(f, "expected version {VERSION}, the peer speaks {got}"),
            Self::Refused(refused) => write!(f, "{refused}"),
            Self::PeerRefused(reason) => write!(f, "the peer refused us: {reason} ({})", reason.remedy()),
            Self::CannotProve(failed) => write!(f, "{failed}"),
            Self::Misuse(misuse) => write!(f, "{misuse}"),
        }
    }
}

impl std::error::Error for ChannelError {}

impl From<Refused> for ChannelError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Misuse> for ChannelError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

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
    /// It shows a kind of evidence that this role and our demands do not allow.
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
        /// What we could show in this role.
        offered: Kinds,
    },
    /// Its evidence is of another kind than its identity, or it demands another kind than ours.
    KindChanged {
        /// The kind agreed upon.
        expected: Kind,
        /// The kind that came.
        got: Kind,
    },
    /// The role is not served here.
    Role {
        /// The role it asked for.
        got: Role,
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
            Self::Role { .. } => "role-refused",
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
            Self::Role { .. } => PeerReason::RoleRefused,
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
            Self::Role { got } => write!(f, "role-refused: the role {got} is not served here (check the address)"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self::Evidence(refusal)
    }
}

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
    /// The role is not served.
    RoleRefused,
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
            Self::RoleRefused => "role-refused",
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
            Self::RoleRefused => "check the address: the peer does not serve this role",
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

/// The caller asks for what the role table does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// This side can show none of the kinds its role allows.
    NothingToShow {
        /// The role.
        role: Role,
        /// Our side.
        side: Side,
        /// What the role allows.
        allowed: Kinds,
        /// What the prover has.
        offered: Kinds,
    },
    /// This side demands no kind that the peer may show in this role.
    NothingAccepted {
        /// The role.
        role: Role,
        /// What the role allows the peer to show.
        allowed: Kinds,
        /// What the appraiser accepts.
        accepts: Kinds,
    },
    /// The appraiser expects another state of the node lock than the role allows.
    Lock {
        /// What the role allows.
        allowed: LockRule,
    },
    /// An appraiser or prover gave a result of another kind than it was asked for.
    WrongKind {
        /// The kind asked for.
        expected: Kind,
        /// The kind of the result.
        got: Kind,
    },
    /// The operating system has no randomness to give.
    NoRandomness,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToShow { role, side, allowed, offered } => {
                write!(f, "a {} in the role {role} shows {allowed}, this one has {offered}", side.name())
            }
            Self::NothingAccepted { role, allowed, accepts } => {
                write!(f, "in the role {role} the peer may show {allowed}, this side accepts {accepts}")
            }
            Self::Lock { allowed } => write!(f, "the role allows the node lock to be {allowed:?} only"),
            Self::WrongKind { expected, got } => {
                write!(f, "asked for {}, the implementation answered with {}", expected.name(), got.name())
            }
            Self::NoRandomness => f.write_str("the operating system has no randomness to give"),
        }
    }
}

impl std::error::Error for Misuse {}

/// What a side was doing when its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// The TLS handshake.
    Tls,
    /// Making this side's identity.
    Identity,
    /// Waiting for the peer's hello or challenge.
    Greeting,
    /// Making this side's evidence.
    Evidence,
    /// Waiting for the peer's evidence or verdict.
    Verdict,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls => "the TLS handshake",
            Self::Identity => "this side's identity",
            Self::Greeting => "waiting for the peer's first message",
            Self::Evidence => "this side's evidence",
            Self::Verdict => "waiting for the peer's evidence or verdict",
        })
    }
}

//! Why there is no proven channel: who is at fault, what was expected, what came.
//!
//! Rule: a leaf error stays with its module and says one thing; [`ChannelError`] says where it happened and to whom it
//! matters. What we know about a refusal stays here; the peer is told a [`PeerReason`].

use std::fmt;
use std::io;
use std::time::Duration;

use latchkey_attestation::refusal::Refusal;
use latchkey_reason::Reason;

use crate::codes::ChannelCode;
use crate::frame::{FrameError, Slot};
use crate::message::{Message, VERSION};
use crate::misuse::MisuseError;
use crate::peer_reason::PeerReason;
use crate::proof::ProofError;
use crate::refusal::PeerRefusal;
use crate::tls::TlsError;

/// Why a handshake did not end in a proven channel.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// There is no TLS session.
    #[error("TLS handshake: {0}")]
    Tls(TlsError),
    /// A frame could not be read.
    #[error("{slot}: {error}")]
    Frame {
        /// Where in the handshake.
        slot: Slot,
        /// What is wrong with it.
        error: FrameError,
    },
    /// The transport failed while sending.
    #[error("the connection failed: {0}")]
    Send(io::Error),
    /// The handshake did not end in time.
    #[error("the handshake took longer than {} s; it was at: {step}", .allowed.as_secs_f32())]
    Deadline {
        /// What was being done.
        step: Step,
        /// The time allowed for the whole handshake.
        allowed: Duration,
    },
    /// A well-formed message at the wrong place.
    #[error("expected the {slot}, got the message \"{got}\"")]
    OutOfTurn {
        /// Where in the handshake.
        slot: Slot,
        /// The name of the message that came.
        got: &'static str,
    },
    /// The peer speaks another version.
    #[error("expected version {VERSION}, the peer speaks {got}")]
    Version {
        /// The peer's; expected is [`VERSION`].
        got: u32,
    },
    /// We refuse the peer.
    #[error(transparent)]
    Refused(#[from] PeerRefusal),
    /// The peer refuses us.
    #[error("the peer refused us: {0}")]
    PeerRefused(PeerReason),
    /// We cannot show what we must.
    #[error(transparent)]
    CannotProve(ProofError),
    /// The caller asks for what cannot be.
    #[error(transparent)]
    Misuse(#[from] MisuseError),
}

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The peer, or who stands between: it sent what it should not.
    Peer,
    /// This machine.
    Us,
    /// The network between, or a peer that says nothing.
    Network,
}

impl ChannelError {
    /// Who has to act.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Tls(TlsError::Transport(_))
            | Self::Frame { error: FrameError::Io(_) | FrameError::Truncated, .. }
            | Self::Send(_)
            | Self::Deadline { step: Step::Tls | Step::Greeting | Step::Verdict, .. } => Blame::Network,
            Self::PeerRefused(PeerReason::VerifierUnavailable | PeerReason::ProofUnavailable) => Blame::Peer,
            // At these steps our own attester is at work.
            Self::Deadline { step: Step::Identity | Step::Evidence, .. }
            | Self::CannotProve(_)
            | Self::Misuse(_)
            | Self::Tls(TlsError::NoKey)
            | Self::PeerRefused(_) => Blame::Us,
            Self::Tls(_) | Self::Frame { .. } | Self::OutOfTurn { .. } | Self::Version { .. } | Self::Refused(_) => {
                Blame::Peer
            }
        }
    }

    /// The stable reason code, with its remedy, for logs, metrics and decision records.
    pub fn code(&self) -> Reason {
        match self {
            Self::Tls(error) => error.code().into(),
            Self::Frame { error, .. } => error.code().into(),
            Self::Send(_) => ChannelCode::Transport.into(),
            Self::Deadline { .. } => ChannelCode::Deadline.into(),
            Self::OutOfTurn { .. } => ChannelCode::OutOfTurn.into(),
            Self::Version { .. } => ChannelCode::Version.into(),
            Self::Refused(refused) => refused.code(),
            Self::PeerRefused(reason) => (*reason).into(),
            Self::CannotProve(_) => ChannelCode::ProofUnavailable.into(),
            Self::Misuse(_) => ChannelCode::Misuse.into(),
        }
    }

    /// The attestation refusal in it, with its reason code, if evidence was what failed.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(PeerRefusal::Evidence(refusal)) => Some(refusal),
            _ => None,
        }
    }

    /// What the peer is told, if it is worth telling.
    pub(crate) fn reply(&self) -> Option<Message> {
        let reason = match self {
            Self::Refused(refused) => refused.coarse(),
            Self::Frame { error: FrameError::TooLong { .. } | FrameError::Malformed { .. }, .. } => {
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

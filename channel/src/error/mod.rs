//! Why there is no proven channel: who is at fault, what was expected, what came.
//!
//! Rule: a leaf error stays with its module and says one thing; [`ChannelError`] says where it happened and to whom it
//! matters. What we know about a refusal stays here; the peer is told a [`PeerReason`].

mod misuse;
mod reason;
mod refused;

use std::fmt;
use std::io;
use std::time::Duration;

use latchkey_attestation::refusal::Refusal;

use crate::frame::{FrameFault, Slot};
use crate::message::{Message, VERSION};
use crate::proof::ProofFailed;
use crate::tls::TlsError;

pub use misuse::Misuse;
pub use reason::PeerReason;
pub use refused::Refused;

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
    /// The network between, or a peer that says nothing.
    Network,
}

impl ChannelError {
    /// Who has to act.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Tls(TlsError::Transport(_))
            | Self::Frame { fault: FrameFault::Io(_) | FrameFault::Truncated, .. }
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

//! What an attempt's failure means for the next one.

use latchkey_api::grpc::{Code, Status};
use latchkey_api::{OfferRefusal, SentCode};
use latchkey_attestation::{ReasonCode, Refusal};
use latchkey_channel::{Blame, ChannelError, PeerReason, PeerRefusal};

use super::Address;
use crate::codes::{CommandCode, ErrorCode};
use crate::error::CommandError;
use crate::exit::Exit;

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// Nobody answers, or not any more. Worth another attempt.
    Lost(CommandError),
    /// The node answers, but does not serve the role: it is in another stage.
    OtherStage(CommandError),
    /// Another attempt would end the same.
    Fatal(CommandError),
}

impl ConnectError {
    pub(crate) fn lost(address: &Address, code: impl Into<ErrorCode>, why: &str) -> Self {
        let failure = CommandError::new(Exit::Unreachable, code, format!("the node at {address} cannot be reached"));
        Self::Lost(
            failure.because(why).fix("check the address, and on the node's console whether it waits for an operator"),
        )
    }

    pub(crate) fn into_error(self) -> CommandError {
        match self {
            Self::Lost(failure) | Self::OtherStage(failure) | Self::Fatal(failure) => failure,
        }
    }

    /// The attestation code, if attestation refused.
    pub(crate) fn reason(&self) -> Option<ReasonCode> {
        match self {
            Self::Fatal(failure) => failure.refusal.as_deref().map(Refusal::code),
            Self::Lost(_) | Self::OtherStage(_) => None,
        }
    }
}

pub(super) fn of_channel(address: &Address, error: &ChannelError) -> ConnectError {
    let what = format!("the node at {address} is not admitted");
    match error {
        ChannelError::Refused(PeerRefusal::Evidence(refusal)) => {
            ConnectError::Fatal(CommandError::refused(Exit::Attestation, what, refusal))
        }
        ChannelError::Refused(refused) => ConnectError::Fatal(
            CommandError::new(Exit::Attestation, ErrorCode::Known(refused.code()), what).because(refused.to_string()),
        ),
        ChannelError::PeerRefused(PeerReason::PurposeRefused) => {
            let what = format!("the node at {address} is in another stage of its life than this command is for");
            ConnectError::OtherStage(CommandError::new(
                Exit::Node,
                ErrorCode::of_peer(PeerReason::PurposeRefused),
                what,
            ))
        }
        ChannelError::PeerRefused(reason @ (PeerReason::ProofUnavailable | PeerReason::VerifierUnavailable)) => {
            let failure = CommandError::new(
                Exit::Node,
                ErrorCode::of_peer(*reason),
                format!("the node at {address} cannot prove itself"),
            );
            ConnectError::Lost(failure)
        }
        ChannelError::PeerRefused(reason) => {
            let failure =
                CommandError::new(Exit::Node, ErrorCode::of_peer(*reason), format!("the node at {address} refuses us"));
            ConnectError::Fatal(failure)
        }
        error if error.blame() == Blame::Network => {
            ConnectError::lost(address, ErrorCode::Known(error.code()), &error.to_string())
        }
        error => {
            let failure = CommandError::new(
                Exit::Failed,
                ErrorCode::Known(error.code()),
                format!("no attested channel to {address}"),
            );
            ConnectError::Fatal(
                failure.because(error.to_string()).fix("check that a Latchkey node listens there, of this release"),
            )
        }
    }
}

/// A call that the node did not do.
#[derive(Debug)]
pub(crate) struct RefusedCall {
    pub(crate) kind: CallKind,
    /// The node's own reason, if it gave one that this release knows.
    pub(crate) known: Option<OfferRefusal>,
    failure: Box<CommandError>,
}

/// What a refused call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// The connection is gone, or the node is; whether it did the call nobody knows.
    Lost,
    /// The node is not in a state to do it.
    State,
    /// The node will not do it for us.
    Refused,
}

impl RefusedCall {
    /// It failed on this side.
    pub(crate) fn local(failure: CommandError) -> Self {
        Self { kind: CallKind::Refused, known: None, failure: Box::new(failure) }
    }

    pub(crate) fn into_connect_error(self) -> ConnectError {
        match self.kind {
            CallKind::Lost => ConnectError::Lost(*self.failure),
            CallKind::State | CallKind::Refused => ConnectError::Fatal(*self.failure),
        }
    }
}

/// Reads the status that a call ended with.
pub(crate) fn refused_call(address: &Address, status: &Status) -> RefusedCall {
    let (sent, why) = SentCode::of_message(status.message());
    let known = sent.as_ref().and_then(SentCode::known);
    let (kind, fallback, what, fix) = match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Aborted => {
            let failure = ConnectError::lost(address, CommandCode::ConnectionLost, status.message()).into_error();
            return RefusedCall { kind: CallKind::Lost, known, failure: Box::new(failure) };
        }
        Code::FailedPrecondition => {
            let fix = "look at the node's console: it says what the node is doing";
            (CallKind::State, CommandCode::WrongState, "is not in a state to do this", fix)
        }
        Code::PermissionDenied => {
            let fix = "use the secret whose hash is in this node's metadata";
            (CallKind::Refused, CommandCode::WrongInitSecret, "does not accept the init secret", fix)
        }
        Code::ResourceExhausted => {
            let fix = "wait as long as the node says, and run the same command again";
            (CallKind::Refused, CommandCode::TooManyTries, "wants no further try yet", fix)
        }
        Code::InvalidArgument => {
            let fix = "correct what the node names";
            (CallKind::Refused, CommandCode::InvalidArgument, "refuses what was sent", fix)
        }
        _ => {
            let fix = "run the same release on both sides";
            (CallKind::Refused, CommandCode::CallFailed, "could not do what was asked", fix)
        }
    };
    let word = sent.map_or_else(|| fallback.into(), ErrorCode::from_node);
    let fix = known.map_or(fix, OfferRefusal::remedy);
    let failure = CommandError::new(Exit::Node, word, format!("the node at {address} {what}")).because(why).fix(fix);
    RefusedCall { kind, known, failure: Box::new(failure) }
}

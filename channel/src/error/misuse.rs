//! What the caller cannot ask for.

use std::fmt;

use crate::purpose::{Kind, Kinds, Purpose, Side};
use latchkey_attestation::LockExpectation;

/// The caller asks for what the purpose table does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// This side can show none of the kinds its purpose allows.
    NothingToShow {
        /// The purpose.
        purpose: Purpose,
        /// Our side.
        side: Side,
        /// What the purpose allows.
        allowed: Kinds,
        /// What the attester has.
        offered: Kinds,
    },
    /// This side demands no kind that the peer may show in this purpose.
    NothingAccepted {
        /// The purpose.
        purpose: Purpose,
        /// What the purpose allows the peer to show.
        allowed: Kinds,
        /// What the verifier accepts.
        accepts: Kinds,
    },
    /// The verifier expects another state of the node lock than the purpose allows.
    Lock {
        /// What the purpose allows.
        allowed: LockExpectation,
    },
    /// An verifier or attester gave a result of another kind than it was asked for.
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
            Self::NothingToShow { purpose, side, allowed, offered } => {
                write!(f, "a {} in the purpose {purpose} shows {allowed}, this one has {offered}", side.name())
            }
            Self::NothingAccepted { purpose, allowed, accepts } => {
                write!(f, "in the purpose {purpose} the peer may show {allowed}, this side accepts {accepts}")
            }
            Self::Lock { allowed } => write!(f, "the purpose allows the node lock to be {allowed:?} only"),
            Self::WrongKind { expected, got } => {
                write!(f, "asked for {}, the implementation answered with {}", expected.name(), got.name())
            }
            Self::NoRandomness => f.write_str("the operating system has no randomness to give"),
        }
    }
}

impl std::error::Error for Misuse {}

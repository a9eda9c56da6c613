//! What the caller cannot ask for.

use std::fmt;

use crate::role::{Kind, Kinds, LockRule, Role, Side};

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

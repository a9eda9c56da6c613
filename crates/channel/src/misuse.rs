//! What the caller cannot ask for.

use crate::purpose::{Kind, Kinds, Purpose, Side};
use latchkey_attestation::LockExpectation;

/// The caller asks for what the purpose table does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MisuseError {
    /// This side can show none of the kinds its purpose allows.
    #[error("a {} in the purpose {purpose} shows {allowed}, this one has {offered}", .side.name())]
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
    #[error("in the purpose {purpose} the peer may show {allowed}, this side accepts {accepts}")]
    NothingAccepted {
        /// The purpose.
        purpose: Purpose,
        /// What the purpose allows the peer to show.
        allowed: Kinds,
        /// What the verifier accepts.
        accepts: Kinds,
    },
    /// The verifier expects another state of the node lock than the purpose allows.
    #[error("the purpose allows the node lock to be {allowed:?} only")]
    Lock {
        /// What the purpose allows.
        allowed: LockExpectation,
    },
    /// An verifier or attester gave a result of another kind than it was asked for.
    #[error("asked for {}, the implementation answered with {}", .expected.name(), .got.name())]
    WrongKind {
        /// The kind asked for.
        expected: Kind,
        /// The kind of the result.
        got: Kind,
    },
    /// The operating system has no randomness to give.
    #[error("the operating system has no randomness to give")]
    NoRandomness,
}

//! Attested TLS: a byte stream whose peer is proven.
//!
//! [`connect`] and [`accept`] turn any byte stream into a [`Proven`] one. First TLS 1.3 with a fresh key on both sides
//! ([`tls`]): a secret channel with somebody. Then five messages ([`message`], [`handshake`]) in which the sides show
//! evidence bound to this very session ([`binding`]): the somebody becomes a machine with a known TPM and image, the
//! holder of a pinned key, or remains nobody where the purpose allows it ([`Purpose::rule`]).
//!
//! What a side shows and demands are its [`Terms`]: an [`Attester`] and a [`Verifier`]. A server gets them from a
//! [`Reception`], once per connection, or chooses them between the steps of [`greet`].
//!
//! What the channel does *not* do: it keeps no record of who came before, limits no rate, and knows no names. It says
//! what the peer's machine proved; what follows from that is the caller's policy.

mod accept;
pub mod binding;
mod codes;
mod driver;
mod error;
pub mod frame;
pub mod handshake;
pub mod message;
mod misuse;
mod nonce;
mod peer_reason;
mod proof;
mod proven;
mod purpose;
mod refusal;
#[cfg(feature = "test-rig")]
pub mod rig;
pub mod tls;

pub use accept::{Claimed, Greeting, Shown, accept, greet};
pub use codes::{ChannelCode, reason_codes};
pub use driver::{HANDSHAKE_TIME, connect};
pub use error::{Blame, ChannelError, Step};
pub use handshake::{Concluded, Reception};
pub use misuse::MisuseError;
pub use nonce::Nonce;
pub use peer_reason::PeerReason;
pub use proof::{
    Appraisal, AppraisalError, Attester, AttesterSet, Claim, NoProof, Observer, PeerProof, PinnedKeyAttester,
    PinnedKeyError, PinnedKeyVerifier, PinnedPeer, ProcessorReports, ProofError, ProofRequest, Terms, TpmAttester,
    TpmPeer, TpmVerifier, Verifier, VerifierSet,
};
pub use proven::Proven;
pub use purpose::{Kind, Kinds, Purpose, PurposeError, PurposeRule, Side, SideRule};
pub use refusal::PeerRefusal;
pub use tls::SpkiHash;

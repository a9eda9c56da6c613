//! What the two sides say to each other. Every type is closed: an unknown field or variant is an error.

use latchkey_attestation::parse::{AttesterIdentity, Bytes, TpmChallenge, TpmEvidence};
use serde::{Deserialize, Serialize};

use crate::nonce::Nonce;
use crate::peer_reason::PeerReason;
use crate::purpose::{Kind, Kinds, Purpose};
use crate::tls::{MAX_SIGNATURE_LEN, SPKI_LEN};

/// The version of the messages. ALPN names it too; this one is for the reader of a log.
pub const VERSION: u32 = 1;

/// One message, the content of one frame: `{"hello": {…}}` and so on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Message {
    /// Client to server.
    Hello(Box<Hello>),
    /// Server to client.
    Challenge(Box<Challenge>),
    /// Client to server.
    Proof(Box<Proof>),
    /// Server to client after the client's proof, client to server after the server's.
    Admitted(Box<Admitted>),
    /// Either side, in place of any other message; nothing follows.
    Refused(RefusedBody),
}

impl Message {
    /// The name on the wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Challenge(_) => "challenge",
            Self::Proof(_) => "proof",
            Self::Admitted(_) => "admitted",
            Self::Refused(_) => "refused",
        }
    }

    pub(crate) fn refused(code: PeerReason) -> Self {
        Self::Refused(RefusedBody { code })
    }
}

/// What the client wants, and who it says it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u32,
    /// What the connection is for.
    pub purpose: Purpose,
    /// The client's nonce.
    pub nonce: Nonce,
    /// Who the client says it is.
    pub identity: Identity,
    /// The kinds of evidence the client takes from the server.
    pub accepts: Kinds,
}

/// What the client must prove, and who the server says it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    /// The server's nonce.
    pub nonce: Nonce,
    /// What the client must prove.
    pub demand: Demand,
    /// Who the server says it is.
    pub identity: Identity,
}

/// The client's evidence, and what the server must prove.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The client's evidence.
    pub evidence: Evidence,
    /// What the server must prove.
    pub demand: Demand,
}

/// The peer's evidence is accepted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admitted {
    /// The server's own evidence; the client, which has shown its own before, says `none`.
    pub evidence: Evidence,
}

/// The peer is not accepted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusedBody {
    /// Why, without values.
    pub code: PeerReason,
}

/// Who a side says it is. Nothing of it is trusted before evidence.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Identity {
    /// A TPM's keys and certificates.
    Tpm(AttesterIdentity),
    /// A key that the peer may know the hash of.
    PinnedKey(KeyIdentity),
    /// Nobody in particular.
    None,
}

impl Identity {
    /// The kind of evidence that must follow.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Tpm(_) => Kind::Tpm,
            Self::PinnedKey(_) => Kind::PinnedKey,
            Self::None => Kind::None,
        }
    }
}

/// A P-256 key: `SubjectPublicKeyInfo`, 91 bytes of DER, base64 in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyIdentity {
    /// The DER.
    pub spki: Bytes<SPKI_LEN>,
}

/// What a side must prove, fresh for this connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Demand {
    /// A credential to activate and PCRs to quote.
    Tpm(TpmChallenge),
    /// A signature over the binding.
    PinnedKey,
    /// Nothing.
    None,
}

impl Demand {
    /// The kind of evidence that is demanded.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Tpm(_) => Kind::Tpm,
            Self::PinnedKey => Kind::PinnedKey,
            Self::None => Kind::None,
        }
    }
}

/// What a side shows for its identity. Nothing of it is trusted before appraisal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Evidence {
    /// A quote over the binding, and the activated credential.
    Tpm(Box<TpmEvidence>),
    /// A signature over the binding.
    PinnedKey(KeyEvidence),
    /// Nothing.
    None,
}

impl Evidence {
    /// The kind of this evidence.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Tpm(_) => Kind::Tpm,
            Self::PinnedKey(_) => Kind::PinnedKey,
            Self::None => Kind::None,
        }
    }
}

/// A signature with a pinned key: ECDSA over P-256 and SHA-256 in DER, base64 in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEvidence {
    /// The DER.
    pub signature: Bytes<MAX_SIGNATURE_LEN>,
}

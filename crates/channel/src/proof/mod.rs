//! What a side proves itself with ([`Attester`]) and what it demands of its peer ([`Verifier`]).
//!
//! Neither is chosen by the peer: a side shows what its [`Terms`] and the purpose table allow, and the peer's evidence is
//! appraised by the side's own verifier or not at all.

mod anybody;
mod pinned;
mod set;
mod tpm;

use std::fmt;
use std::sync::Arc;

use latchkey_attestation::Admission;

pub use anybody::NoProof;
pub use pinned::{PinnedKeyAttester, PinnedKeyError, PinnedKeyVerifier, PinnedPeer};
pub use set::{AttesterSet, VerifierSet};
pub use tpm::{Observer, ProcessorReports, TpmAttester, TpmPeer, TpmVerifier};

use crate::binding::Binding;
use crate::message::{Demand, Evidence, Identity};
use crate::misuse::MisuseError;
use crate::purpose::{Kind, Kinds, SideRule};
use crate::refusal::PeerRefusal;

/// One side's part in one connection.
#[derive(Clone)]
pub struct Terms {
    /// What this side proves itself with.
    pub attester: Arc<dyn Attester>,
    /// What it demands of the peer.
    pub verifier: Arc<dyn Verifier>,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("shows", &self.attester.kinds())
            .field("accepts", &self.verifier.accepts())
            .finish_non_exhaustive()
    }
}

/// Shows who this side is.
///
/// A attester is asked only by the handshake machines, with a binding they computed: nobody can lend it to sign
/// something else, because a [`ProofRequest`] cannot be made outside this crate.
pub trait Attester: Send + Sync {
    /// The kinds it can show.
    fn kinds(&self) -> Kinds;

    /// Whether a call may take long enough to be kept off the executor (a TPM takes tens of milliseconds).
    fn is_slow(&self) -> bool {
        false
    }

    /// Who this side says it is, as evidence of `kind`, one of [`Self::kinds`].
    fn identity(&self, kind: Kind) -> Result<Identity, ProofError>;

    /// Evidence for that identity, as the peer demands, over the binding of this session.
    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError>;
}

/// What a attester is asked for: evidence of the demand's kind over the binding.
#[derive(Clone, Debug)]
pub struct ProofRequest {
    demand: Demand,
    binding: Binding,
}

impl ProofRequest {
    pub(crate) fn new(demand: Demand, binding: Binding) -> Self {
        Self { demand, binding }
    }

    /// What the peer demands.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// What the evidence must cover.
    pub fn binding(&self) -> &Binding {
        &self.binding
    }
}

/// Decides whether the peer is who this side demands.
///
/// Pure: no I/O, and time is given. Two steps, because TPM evidence needs a challenge made for the claimed identity.
pub trait Verifier: Send + Sync {
    /// The kinds it accepts. The purpose table may allow fewer.
    fn accepts(&self) -> Kinds;

    /// Looks at a claimed identity and says what must be proven for it. Nothing is admitted yet.
    fn begin(&self, claim: &Claim<'_>) -> Result<(Demand, Box<dyn Appraisal>), AppraisalError>;
}

/// An identity that a peer claims.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// What it says.
    pub identity: &'a Identity,
    /// What the purpose allows it to show.
    pub rule: SideRule,
    /// Seconds since the Unix epoch.
    pub now: u64,
}

/// An appraisal under way: it waits for the evidence.
pub trait Appraisal: Send {
    /// Decides. `binding` is what the evidence must cover, `now` seconds since the Unix epoch.
    fn conclude(self: Box<Self>, evidence: &Evidence, binding: &Binding, now: u64) -> Result<PeerProof, PeerRefusal>;
}

/// Why an appraisal did not begin.
#[derive(Debug, thiserror::Error)]
pub enum AppraisalError {
    /// The peer's claim is refused.
    #[error(transparent)]
    Refused(#[from] PeerRefusal),
    /// The verifier does not fit the purpose.
    #[error(transparent)]
    Misuse(MisuseError),
}

/// Who the peer is. The first two are witnesses: only an appraisal makes them.
#[derive(Debug)]
pub enum PeerProof {
    /// A machine with this TPM, this image and this state of the node lock.
    Tpm(Box<TpmPeer>),
    /// The holder of this pinned key.
    PinnedKey(PinnedPeer),
    /// Somebody. It must prove itself inside the channel.
    Unproven,
}

impl PeerProof {
    /// The kind of evidence behind it.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Tpm(_) => Kind::Tpm,
            Self::PinnedKey(_) => Kind::PinnedKey,
            Self::Unproven => Kind::None,
        }
    }

    /// The admission, if the peer is a machine with a TPM.
    pub fn admission(&self) -> Option<&Admission> {
        match self {
            Self::Tpm(peer) => Some(peer.admission()),
            Self::PinnedKey(_) | Self::Unproven => None,
        }
    }
}

/// This side cannot show what it must.
#[derive(Debug, thiserror::Error)]
#[error("cannot show evidence of kind {}: {source}", .kind.name())]
pub struct ProofError {
    kind: Kind,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl ProofError {
    /// Evidence of `kind` could not be made because of `source`.
    pub fn new(kind: Kind, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind, source: source.into() }
    }
}

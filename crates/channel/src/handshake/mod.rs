//! The handshake as pure state machines: one struct per state, transitions consume it.
//!
//! ```text
//! client                                            server
//! Start ── hello ─────────────────────────────────▶ AwaitHello → Heard
//! AwaitChallenge ◀───────────────────── challenge ── Greeted
//! Challenged ── proof ─────────────────────────────▶ AwaitProof → Shown
//! AwaitVerdict ◀────────────────────────── admitted ── Appraised
//! Concluded ── admitted ───────────────────────────▶ AwaitVerdict → Concluded
//! ```
//!
//! In place of any message a side may say `refused`; nothing follows. A machine gets messages, the time, and what its
//! own attester made; it gives messages and requests to its attester. The peer is appraised inside the machine, so there
//! is no way to [`Concluded`] around an appraisal. Each side makes evidence only for a nonce of its peer and a binding
//! it computed itself; the server shows its evidence only to a client that it admits.

mod client;
mod server;

pub use client::{AwaitChallenge, AwaitVerdict as AwaitServerVerdict, Challenged, Start};
pub use server::{
    Appraised, AwaitHello, AwaitProof, AwaitVerdict as AwaitClientVerdict, Greeted, Heard, Reception, Shown,
};

use crate::binding::{Binding, Bindings};
use crate::error::ChannelError;
use crate::frame::Slot;
use crate::message::{Demand, Evidence, Identity, Message};
use crate::misuse::MisuseError;
use crate::proof::{Appraisal, AppraisalError, Claim, PeerProof, Terms};
use crate::purpose::{Kind, Kinds, Purpose, Side};
use crate::refusal::PeerRefusal;

/// The end of a handshake: both sides are content. Only the machines make it.
#[derive(Debug)]
pub struct Concluded {
    purpose: Purpose,
    side: Side,
    peer: PeerProof,
    bindings: Bindings,
}

impl Concluded {
    /// What the connection is for.
    pub const fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// This end.
    pub const fn side(&self) -> Side {
        self.side
    }

    /// Who the peer is.
    pub const fn peer(&self) -> &PeerProof {
        &self.peer
    }

    /// Takes the proof out, to be stored with a decision.
    pub fn into_peer(self) -> PeerProof {
        self.peer
    }

    /// What each side's evidence covered.
    pub const fn bindings(&self) -> Bindings {
        self.bindings
    }
}

/// What one side does all along.
#[derive(Debug)]
struct Part {
    purpose: Purpose,
    side: Side,
    terms: Terms,
}

impl Part {
    /// What this side may show: what its attester has and the purpose allows.
    fn shows(&self) -> Kinds {
        self.terms.attester.kinds().and(self.purpose.rule().side(self.side).kinds)
    }

    /// What this side takes: what its verifier accepts and the purpose allows.
    fn accepts(&self) -> Result<Kinds, MisuseError> {
        let allowed = self.purpose.rule().side(self.side.peer()).kinds;
        let accepts = self.terms.verifier.accepts();
        let both = allowed.and(accepts);
        if both.is_empty() {
            Err(MisuseError::NothingAccepted { purpose: self.purpose, allowed, accepts })
        } else {
            Ok(both)
        }
    }

    fn nothing_to_show(&self) -> MisuseError {
        let allowed = self.purpose.rule().side(self.side).kinds;
        MisuseError::NothingToShow {
            purpose: self.purpose,
            side: self.side,
            allowed,
            offered: self.terms.attester.kinds(),
        }
    }

    /// Looks at the peer's claim.
    fn begin_appraisal(&self, identity: &Identity, now: u64) -> Result<(Demand, Pending), ChannelError> {
        let (accepted, kind) = (self.accepts()?, identity.kind());
        if !accepted.contains(kind) {
            return Err(PeerRefusal::KindNotAccepted { accepted, got: kind }.into());
        }
        let rule = self.purpose.rule().side(self.side.peer());
        let begun = self.terms.verifier.begin(&Claim { identity, rule, now });
        let (demand, appraisal) = begun.map_err(|failed| match failed {
            AppraisalError::Refused(refused) => ChannelError::Refused(refused),
            AppraisalError::Misuse(misuse) => ChannelError::Misuse(misuse),
        })?;
        if demand.kind() != kind {
            return Err(MisuseError::WrongKind { expected: kind, got: demand.kind() }.into());
        }
        Ok((demand, Pending { kind, appraisal }))
    }
}

/// The peer's identity is claimed, its evidence due.
struct Pending {
    kind: Kind,
    appraisal: Box<dyn Appraisal>,
}

impl Pending {
    fn conclude(self, evidence: &Evidence, binding: &Binding, now: u64) -> Result<PeerProof, ChannelError> {
        let expected = self.kind;
        if evidence.kind() != expected {
            return Err(PeerRefusal::KindChanged { expected, got: evidence.kind() }.into());
        }
        let proof = self.appraisal.conclude(evidence, binding, now)?;
        if proof.kind() == expected {
            Ok(proof)
        } else {
            Err(MisuseError::WrongKind { expected, got: proof.kind() }.into())
        }
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What the attester made must be of the kind it was asked for.
fn asked_for(expected: Kind, got: Kind) -> Result<(), MisuseError> {
    if got == expected { Ok(()) } else { Err(MisuseError::WrongKind { expected, got }) }
}

/// The peer may demand only evidence of the kind we said we show.
fn demands(expected: Kind, demand: &Demand) -> Result<(), PeerRefusal> {
    let got = demand.kind();
    if got == expected { Ok(()) } else { Err(PeerRefusal::KindChanged { expected, got }) }
}

/// A message that does not belong into `slot`: the peer's refusal, or a violation.
fn out_of_turn(slot: Slot, message: &Message) -> ChannelError {
    match message {
        Message::Refused(body) => ChannelError::PeerRefused(body.code),
        other => ChannelError::OutOfTurn { slot, got: other.name() },
    }
}

//! No proof: for a side that proves itself inside the channel, by a secret.

use super::{Appraisal, AppraisalError, Attester, Claim, PeerProof, ProofError, ProofRequest, Verifier};
use crate::binding::Binding;
use crate::message::{Demand, Evidence, Identity};
use crate::purpose::{Kind, Kinds};
use crate::refusal::PeerRefusal;

/// Shows nothing, and accepts a peer that shows nothing. Where that is allowed, the purpose table says.
#[derive(Clone, Copy, Debug)]
pub struct NoProof;

impl Attester for NoProof {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::None])
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        Ok(Identity::None)
    }

    fn prove(&self, _: &ProofRequest) -> Result<Evidence, ProofError> {
        Ok(Evidence::None)
    }
}

impl Verifier for NoProof {
    fn accepts(&self) -> Kinds {
        Kinds::of(&[Kind::None])
    }

    fn begin(&self, _: &Claim<'_>) -> Result<(Demand, Box<dyn Appraisal>), AppraisalError> {
        Ok((Demand::None, Box::new(Nothing)))
    }
}

struct Nothing;

impl Appraisal for Nothing {
    fn conclude(self: Box<Self>, evidence: &Evidence, _: &Binding, _: u64) -> Result<PeerProof, PeerRefusal> {
        match evidence {
            Evidence::None => Ok(PeerProof::Unproven),
            other => Err(PeerRefusal::KindChanged { expected: Kind::None, got: other.kind() }),
        }
    }
}

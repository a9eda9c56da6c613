//! Several attesters or verifiers where a side has a choice: the purpose table and the peer narrow it to one.

use std::sync::Arc;

use super::{Appraisal, AppraisalError, Attester, Claim, ProofError, ProofRequest, Verifier};
use crate::message::{Demand, Evidence, Identity};
use crate::purpose::{Kind, Kinds};
use crate::refusal::PeerRefusal;

/// Shows what any of these can show, each kind by the first that can.
#[derive(Clone)]
pub struct AttesterSet(pub Vec<Arc<dyn Attester>>);

impl AttesterSet {
    fn attester_of(&self, kind: Kind) -> Result<&dyn Attester, ProofError> {
        let found = self.0.iter().find(|attester| attester.kinds().contains(kind));
        found.map(AsRef::as_ref).ok_or_else(|| ProofError::new(kind, "this side has none"))
    }
}

impl std::fmt::Debug for AttesterSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AttesterSet({})", self.kinds())
    }
}

impl Attester for AttesterSet {
    fn kinds(&self) -> Kinds {
        self.0.iter().fold(Kinds::default(), |kinds, attester| kinds.or(attester.kinds()))
    }

    fn is_slow(&self) -> bool {
        self.0.iter().any(|attester| attester.is_slow())
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        self.attester_of(kind)?.identity(kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        self.attester_of(request.demand().kind())?.prove(request)
    }
}

/// Accepts whom any of these accepts: a pinned key *or* a TPM. Each kind is appraised by the first that accepts it.
#[derive(Clone)]
pub struct VerifierSet(pub Vec<Arc<dyn Verifier>>);

impl std::fmt::Debug for VerifierSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifierSet({})", self.accepts())
    }
}

impl Verifier for VerifierSet {
    fn accepts(&self) -> Kinds {
        self.0.iter().fold(Kinds::default(), |kinds, verifier| kinds.or(verifier.accepts()))
    }

    fn begin(&self, claim: &Claim<'_>) -> Result<(Demand, Box<dyn Appraisal>), AppraisalError> {
        let got = claim.identity.kind();
        match self.0.iter().find(|verifier| verifier.accepts().contains(got)) {
            Some(verifier) => verifier.begin(claim),
            None => Err(PeerRefusal::KindNotAccepted { accepted: self.accepts(), got }.into()),
        }
    }
}

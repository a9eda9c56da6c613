//! Several provers or appraisers where a side has a choice: the role table and the peer narrow it to one.

use std::sync::Arc;

use super::{Appraisal, AppraisalFailed, Appraiser, Claim, ProofFailed, ProofRequest, Prover};
use crate::error::Refused;
use crate::message::{Demand, Evidence, Identity};
use crate::role::{Kind, Kinds};

/// Shows what any of these can show, each kind by the first that can.
#[derive(Clone)]
pub struct ProverSet(pub Vec<Arc<dyn Prover>>);

impl ProverSet {
    fn prover_of(&self, kind: Kind) -> Result<&dyn Prover, ProofFailed> {
        let found = self.0.iter().find(|prover| prover.kinds().contains(kind));
        found.map(AsRef::as_ref).ok_or_else(|| ProofFailed::new(kind, "this side has none"))
    }
}

impl std::fmt::Debug for ProverSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProverSet({})", self.kinds())
    }
}

impl Prover for ProverSet {
    fn kinds(&self) -> Kinds {
        self.0.iter().fold(Kinds::default(), |kinds, prover| kinds.or(prover.kinds()))
    }

    fn is_slow(&self) -> bool {
        self.0.iter().any(|prover| prover.is_slow())
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofFailed> {
        self.prover_of(kind)?.identity(kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofFailed> {
        self.prover_of(request.demand().kind())?.prove(request)
    }
}

/// Accepts whom any of these accepts: a pinned key *or* a TPM. Each kind is appraised by the first that accepts it.
#[derive(Clone)]
pub struct AppraiserSet(pub Vec<Arc<dyn Appraiser>>);

impl std::fmt::Debug for AppraiserSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AppraiserSet({})", self.accepts())
    }
}

impl Appraiser for AppraiserSet {
    fn accepts(&self) -> Kinds {
        self.0.iter().fold(Kinds::default(), |kinds, appraiser| kinds.or(appraiser.accepts()))
    }

    fn begin(&self, claim: &Claim<'_>) -> Result<(Demand, Box<dyn Appraisal>), AppraisalFailed> {
        let got = claim.identity.kind();
        match self.0.iter().find(|appraiser| appraiser.accepts().contains(got)) {
            Some(appraiser) => appraiser.begin(claim),
            None => Err(Refused::KindNotAccepted { accepted: self.accepts(), got }.into()),
        }
    }
}

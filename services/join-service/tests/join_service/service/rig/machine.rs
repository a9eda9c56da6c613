//! A machine with a fake TPM.

use super::{IMAGE, Rig};
use latchkey_attestation::EkDigest;
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{Attester, Kind, Kinds, ProofError, ProofRequest};
use std::sync::Arc;

/// A machine with a fake TPM.
#[derive(Clone)]
pub(crate) struct Machine(Arc<FakeTpm>);

impl Machine {
    /// Has booted the admitted image.
    pub(crate) fn new() -> Self {
        Self::booted(FakeTpm::generate(), IMAGE, [0; 32])
    }

    fn booted(mut tpm: FakeTpm, image: [u8; 32], lock: [u8; 32]) -> Self {
        tpm.set_pcr(11, image);
        tpm.set_pcr(15, lock);
        Self(Arc::new(tpm))
    }

    /// The same machine (its other handles are gone) after it booted something else.
    pub(crate) fn rebooted(self, image: [u8; 32]) -> Self {
        let mut tpm = Arc::into_inner(self.0).unwrap();
        tpm.count_reset();
        Self::booted(tpm, image, [0; 32])
    }

    /// The same machine (its other handles are gone) after this was done to it.
    pub(crate) fn after(self, change: impl FnOnce(&mut FakeTpm)) -> Self {
        let mut tpm = Arc::into_inner(self.0).unwrap();
        change(&mut tpm);
        Self(Arc::new(tpm))
    }

    /// The same machine (its other handles are gone) with another endorsement key beside its attestation key.
    pub(crate) fn with_another_ek(self) -> Self {
        Self(Arc::new(Arc::into_inner(self.0).unwrap().with_another_ek()))
    }

    /// The same machine after it took the lock on this cluster.
    pub(crate) fn locked(self, rig: &Rig) -> Self {
        Self::booted(Arc::into_inner(self.0).unwrap(), IMAGE, rig.cluster.cluster_id.locked_pcr15())
    }

    pub(crate) fn tpm(&self) -> &FakeTpm {
        &self.0
    }

    pub(crate) fn ek(&self) -> EkDigest {
        EkDigest::of_public_area(&self.0.ek_public().marshal()).unwrap()
    }
}

impl Attester for Machine {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Tpm])
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        Ok(Identity::Tpm(self.0.identity()))
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Demand::Tpm(challenge) = request.demand() else { panic!("no TPM evidence is demanded") };
        let evidence = self.0.evidence(challenge, request.binding().as_bytes());
        evidence.map(|evidence| Evidence::Tpm(Box::new(evidence))).ok_or_else(|| ProofError::new(Kind::Tpm, "refused"))
    }
}

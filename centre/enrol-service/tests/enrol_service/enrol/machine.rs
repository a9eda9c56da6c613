//! A machine with a fake TPM, locked to the cluster that it founded.

use latchkey_attestation::EkDigest;
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{Attester, Kind, Kinds, ProofError, ProofRequest};
use std::sync::{Arc, Mutex};

/// PCR 11 of the image that is admitted.
pub(crate) const IMAGE: [u8; 32] = [0x0b; 32];

/// A machine with a fake TPM.
#[derive(Clone)]
pub(crate) struct Machine {
    tpm: Arc<FakeTpm>,
    /// Its state disk.
    pub(crate) disk: String,
}

impl Machine {
    /// Runs the admitted image; founded the cluster of this number.
    pub(crate) fn new(number: u8) -> Self {
        Self::of_cluster([number; 32], number.into())
    }

    /// The same, of a cluster with this lock.
    pub(crate) fn of_cluster(lock: [u8; 32], number: usize) -> Self {
        Self::booted(FakeTpm::generate(), IMAGE, lock, number)
    }

    fn booted(mut tpm: FakeTpm, image: [u8; 32], lock: [u8; 32], number: usize) -> Self {
        tpm.set_pcr(11, image);
        tpm.set_pcr(15, lock);
        Self { tpm: Arc::new(tpm), disk: format!("f1f1f1f1-0000-4000-8000-{number:012x}") }
    }

    /// The same machine (its other handles are gone) with this lock.
    pub(crate) fn locked_as(self, lock: [u8; 32]) -> Self {
        let mut tpm = Arc::into_inner(self.tpm).unwrap();
        tpm.set_pcr(15, lock);
        Self { tpm: Arc::new(tpm), disk: self.disk }
    }

    /// The same machine (its other handles are gone) with another image.
    pub(crate) fn with_image(self, image: [u8; 32]) -> Self {
        let mut tpm = Arc::into_inner(self.tpm).unwrap();
        tpm.set_pcr(11, image);
        Self { tpm: Arc::new(tpm), disk: self.disk }
    }

    pub(crate) fn ek(&self) -> EkDigest {
        EkDigest::of_public_area(&self.tpm.ek_public().marshal()).unwrap()
    }
}

/// Shows what the machine showed first, whatever it is asked then: what somebody can do who was between it and a service.
pub(crate) struct Replaying {
    pub(crate) machine: Arc<dyn Attester>,
    pub(crate) shown: Mutex<Option<String>>,
}

impl Attester for Replaying {
    fn kinds(&self) -> Kinds {
        self.machine.kinds()
    }

    fn is_slow(&self) -> bool {
        self.machine.is_slow()
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        self.machine.identity(kind)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let mut shown = self.shown.lock().unwrap();
        if let Some(json) = &*shown {
            return Ok(serde_json::from_str(json).unwrap());
        }
        let evidence = self.machine.prove(request)?;
        *shown = Some(serde_json::to_string(&evidence).unwrap());
        Ok(evidence)
    }
}

impl Attester for Machine {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Tpm])
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        Ok(Identity::Tpm(self.tpm.identity()))
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Demand::Tpm(challenge) = request.demand() else { panic!("no TPM evidence is demanded") };
        let evidence = self.tpm.evidence(challenge, request.binding().as_bytes());
        evidence.map(|evidence| Evidence::Tpm(Box::new(evidence))).ok_or_else(|| ProofError::new(Kind::Tpm, "refused"))
    }
}

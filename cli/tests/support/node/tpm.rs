//! What the node proves itself with.

use std::sync::{Arc, Mutex};

use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::fake_tpm::FakeTpm;
use latchkey_attestation::parse::SigningKey;
use latchkey_attestation::{EkDigest, report_data};
use latchkey_channel::message::{Demand, Evidence, Identity};
use latchkey_channel::{Attester, Kind, Kinds, ProofError, ProofRequest, TpmAttester};
use latchkey_tpm::device::AttestingTpm;

/// What the node proves itself with.
#[derive(Clone)]
pub enum Tpm {
    Fake(Arc<Mutex<FakeTpm>>),
    /// In a guest that this AMD vouches for.
    Guest(Arc<Mutex<FakeTpm>>, Arc<FakeAmd>),
    Real(Arc<Mutex<AttestingTpm>>),
}

impl Tpm {
    pub(super) fn ek(&self) -> EkDigest {
        let public = match self {
            Self::Fake(tpm) | Self::Guest(tpm, _) => tpm.lock().unwrap().ek_public().marshal(),
            Self::Real(attester) => attester.lock().unwrap().ek_public().marshal(),
        };
        EkDigest::of_public_area(&public).unwrap()
    }

    pub(super) fn set_lock(&self, value: [u8; 32]) {
        self.fake(|tpm| tpm.set_pcr(15, value));
    }

    pub(super) fn fake(&self, change: impl FnOnce(&mut FakeTpm)) {
        if let Self::Fake(tpm) | Self::Guest(tpm, _) = self {
            change(&mut tpm.lock().unwrap());
        }
    }
}

impl Attester for Tpm {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Tpm])
    }

    fn is_slow(&self) -> bool {
        matches!(self, Self::Real(_))
    }

    fn identity(&self, kind: Kind) -> Result<Identity, ProofError> {
        match self {
            Self::Fake(tpm) | Self::Guest(tpm, _) => Ok(Identity::Tpm(tpm.lock().unwrap().identity())),
            Self::Real(attester) => TpmAttester::new(Arc::clone(attester)).identity(kind),
        }
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let (tpm, amd) = match self {
            Self::Fake(tpm) => (tpm.lock().unwrap(), None),
            Self::Guest(tpm, amd) => (tpm.lock().unwrap(), Some(amd)),
            Self::Real(attester) => return TpmAttester::new(Arc::clone(attester)).prove(request),
        };
        let Demand::Tpm(challenge) = request.demand() else { panic!("a TPM is what it has") };
        let evidence = tpm.evidence(challenge, request.binding().as_bytes()).expect("the challenge is for this TPM");
        let Some(amd) = amd.filter(|_| !challenge.processors().is_empty()) else {
            return Ok(Evidence::Tpm(Box::new(evidence)));
        };
        let data = report_data(request.binding().as_bytes(), tpm.ak_public());
        let guest = amd.guest(SigningKey::Vcek, 3, |change| change.report[0x50..0x90].copy_from_slice(&data));
        Ok(Evidence::Tpm(Box::new(evidence.with_processor(guest.evidence().into()))))
    }
}

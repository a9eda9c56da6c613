//! What the node proves itself with.

use std::sync::{Arc, Mutex};

use latchkey_attestation::fake_amd::FakeAmd;
use latchkey_attestation::fake_intel::{FakeIntel, field};
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
    /// In a guest that this Intel vouches for.
    TdxGuest(Arc<Mutex<FakeTpm>>, Arc<FakeIntel>),
    Real(Arc<Mutex<AttestingTpm>>),
}

impl Tpm {
    pub(super) fn ek(&self) -> EkDigest {
        let public = match self {
            Self::Fake(tpm) | Self::Guest(tpm, _) | Self::TdxGuest(tpm, _) => tpm.lock().unwrap().ek_public().marshal(),
            Self::Real(attester) => attester.lock().unwrap().ek_public().marshal(),
        };
        EkDigest::of_public_area(&public).unwrap()
    }

    pub(super) fn set_lock(&self, value: [u8; 32]) {
        self.fake(|tpm| tpm.set_pcr(15, value));
    }

    pub(super) fn fake(&self, change: impl FnOnce(&mut FakeTpm)) {
        if let Self::Fake(tpm) | Self::Guest(tpm, _) | Self::TdxGuest(tpm, _) = self {
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
            Self::Fake(tpm) | Self::Guest(tpm, _) | Self::TdxGuest(tpm, _) => {
                Ok(Identity::Tpm(tpm.lock().unwrap().identity()))
            }
            Self::Real(attester) => TpmAttester::new(Arc::clone(attester)).identity(kind),
        }
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let tpm = match self {
            Self::Fake(tpm) | Self::Guest(tpm, _) | Self::TdxGuest(tpm, _) => tpm.lock().unwrap(),
            Self::Real(attester) => return TpmAttester::new(Arc::clone(attester)).prove(request),
        };
        let Demand::Tpm(challenge) = request.demand() else { panic!("a TPM is what it has") };
        let evidence = tpm.evidence(challenge, request.binding().as_bytes()).expect("the challenge is for this TPM");
        let data = report_data(request.binding().as_bytes(), tpm.ak_public());
        let processor = match self {
            _ if challenge.processors().is_empty() => None,
            Self::Guest(_, amd) => {
                let guest = amd.guest(SigningKey::Vcek, 3, |change| change.report[0x50..0x90].copy_from_slice(&data));
                Some(guest.evidence().into())
            }
            Self::TdxGuest(_, intel) => {
                let over = |report: &mut [u8; 584]| report[field::REPORT_DATA..].copy_from_slice(&data);
                Some(intel.evidence(over).into())
            }
            Self::Fake(_) | Self::Real(_) => None,
        };
        let evidence = processor.into_iter().fold(evidence, latchkey_attestation::TpmEvidence::with_processor);
        Ok(Evidence::Tpm(Box::new(evidence)))
    }
}

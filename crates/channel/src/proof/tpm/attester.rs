//! Shows this node's TPM, and what the processor says where the peer asks for it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use latchkey_attestation::parse::{
    AttesterIdentity, AzureHclEvidence, PcrValues, ProcessorEvidence, ProcessorKind, TpmChallenge, TpmEvidence,
};
use latchkey_attestation::report_data;
use latchkey_tpm::device::AttestingTpm;
use latchkey_tpm::wire::PcrSelection;

use crate::message::{Demand, Evidence, Identity};
use crate::proof::{Attester, ProofError, ProofRequest};
use crate::purpose::{Kind, Kinds};

/// A machine whose processor vouches for it.
pub trait ProcessorReports: Send + Sync {
    /// What the processor says over these 64 bytes, if it is one of these kinds; of a SEV-SNP guest at this privilege level. Takes
    /// milliseconds.
    fn report(
        &self,
        kinds: &BTreeSet<ProcessorKind>,
        vmpl: u32,
        report_data: &[u8; 64],
    ) -> Result<ProcessorEvidence, Box<dyn std::error::Error + Send + Sync>>;
}

/// Proves itself with the node's TPM: activates the peer's credential, quotes the peer's PCRs over the binding.
///
/// The TPM is shared, because the agent also locks the node with it; each call holds it for as long as the TPM
/// takes. The driver runs the calls off the executor.
#[derive(Clone)]
pub struct TpmAttester {
    tpm: Arc<Mutex<AttestingTpm>>,
    event_log: Option<Arc<[u8]>>,
    processor: Option<Arc<dyn ProcessorReports>>,
}

impl TpmAttester {
    /// Proves with this attester.
    pub fn new(tpm: Arc<Mutex<AttestingTpm>>) -> Self {
        Self { tpm, event_log: None, processor: None }
    }

    /// Sends the firmware's event log (at most 128 KiB) with the evidence, so that the verifier can say what differs.
    #[must_use]
    pub fn with_event_log(self, log: impl Into<Arc<[u8]>>) -> Self {
        Self { event_log: Some(log.into()), ..self }
    }

    /// Has the processor vouch for this machine where a peer demands it.
    #[must_use]
    pub fn with_processor_reports(self, processor: Arc<dyn ProcessorReports>) -> Self {
        Self { processor: Some(processor), ..self }
    }

    fn tpm(&self) -> Result<MutexGuard<'_, AttestingTpm>, ProofError> {
        // Whoever panicked may have left a command half done: the session with the TPM is not to be trusted.
        self.tpm.lock().map_err(|_: PoisonError<_>| failed("another user of the TPM panicked"))
    }

    fn answer(&self, challenge: &TpmChallenge, binding: &[u8; 32]) -> Result<TpmEvidence, ProofError> {
        let selection = PcrSelection::new(challenge.pcrs().iter()).map_err(failed)?;
        let mut tpm = self.tpm()?;
        let secret = tpm.activate(challenge.credential()).map_err(failed)?;
        let quote = tpm.quote(&selection, binding).map_err(failed)?;
        let data = report_data(binding, tpm.ak_public());
        let of_paravisor = challenge.processors().contains(&ProcessorKind::SnpAzureHcl);
        let of_paravisor = of_paravisor.then(|| azure_hcl(&mut tpm)).transpose()?;
        drop(tpm);
        let pcrs = PcrValues::new(quote.pcrs).ok_or_else(|| failed("the TPM quoted a PCR above 23"))?;
        let log = self.event_log.as_ref().map(|log| log.to_vec());
        let evidence = TpmEvidence::new(quote.attest, quote.signature, pcrs, secret, log).map_err(failed)?;
        if let Some(of_paravisor) = of_paravisor {
            return Ok(evidence.with_processor(of_paravisor));
        }
        if challenge.processors().is_empty() {
            return Ok(evidence);
        }
        let none = || {
            let demanded: Vec<_> = challenge.processors().iter().map(ProcessorKind::to_string).collect();
            failed(format!("the peer demands {}, and this machine has no such processor", demanded.join(" or ")))
        };
        let report = self.processor.as_ref().ok_or_else(none)?.report(challenge.processors(), challenge.vmpl(), &data);
        Ok(evidence.with_processor(report.map_err(failed)?))
    }
}

impl Attester for TpmAttester {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Tpm])
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn identity(&self, _: Kind) -> Result<Identity, ProofError> {
        let tpm = self.tpm()?;
        let identity = AttesterIdentity::new(
            tpm.ek_public().marshal(),
            tpm.ek_certificate().map(<[u8]>::to_vec),
            tpm.ek_intermediates().to_vec(),
            tpm.ak_public().marshal(),
        );
        let identity = match tpm.ak_certificate() {
            Some(certificate) => identity.and_then(|identity| identity.with_ak_certificate(certificate.to_vec())),
            None => identity,
        };
        identity.map(Identity::Tpm).map_err(failed)
    }

    fn prove(&self, request: &ProofRequest) -> Result<Evidence, ProofError> {
        let Demand::Tpm(challenge) = request.demand() else {
            return Err(failed("the peer demands no TPM evidence"));
        };
        let evidence = self.answer(challenge, request.binding().as_bytes())?;
        Ok(Evidence::Tpm(Box::new(evidence)))
    }
}

impl fmt::Debug for TpmAttester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TpmAttester")
            .field("event_log", &self.event_log.is_some())
            .field("processor", &self.processor.is_some())
            .finish_non_exhaustive()
    }
}

/// What Azure's paravisor left in its TPM, which is this one.
fn azure_hcl(tpm: &mut AttestingTpm) -> Result<ProcessorEvidence, ProofError> {
    let none = "the peer demands a report of Azure's paravisor, and this TPM has none (NV 0x01400001)";
    let content = tpm.azure_hcl_report().map_err(failed)?.ok_or_else(|| failed(none))?;
    AzureHclEvidence::from_nv(&content).map(ProcessorEvidence::from).map_err(failed)
}

fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ProofError {
    ProofError::new(Kind::Tpm, source)
}

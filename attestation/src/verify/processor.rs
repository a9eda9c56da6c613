//! What a machine's processor says, beside its TPM: over the same session, and over the AK that quotes in it.

#[cfg(feature = "processors")]
use latchkey_tpm::wire::Public;

#[cfg(feature = "processors")]
use super::{
    snp::{SnpCollateral, VerifiedSnpReport},
    tdx::{TdxCollateral, VerifiedTdxQuote},
};
use crate::parse::ProcessorKind;
#[cfg(feature = "processors")]
use crate::parse::{CertificateTable, ProcessorEvidence, SnpReport};
use crate::policy::Policy;
use crate::refusal::{ReasonCode, Refusal};
#[cfg(feature = "processors")]
use crate::report_data;

/// What the vendors of processors publish, as far as a verifier has it.
#[cfg(feature = "processors")]
#[derive(Debug, Default)]
pub struct ProcessorCollateral {
    /// AMD's part.
    pub snp: Option<SnpCollateral>,
    /// Intel's part.
    pub tdx: Option<TdxCollateral>,
}

#[cfg(feature = "processors")]
impl ProcessorCollateral {
    /// Checks that there is a part for each kind of processor that a policy demands.
    ///
    /// # Errors
    /// `snp-not-verifiable`, `tdx-not-verifiable`.
    pub fn check_means(&self, policy: &Policy) -> Result<(), Refusal> {
        policy.processors().into_iter().try_for_each(|kind| {
            let has = match kind {
                ProcessorKind::Snp => self.snp.is_some(),
                ProcessorKind::Tdx => self.tdx.is_some(),
            };
            if has { Ok(()) } else { Err(not_verifiable(kind, "the collateral has no part for it")) }
        })
    }

    /// Which part of what a policy demands ends first, and when, in seconds since the Unix epoch: from then on nobody whom it is about
    /// is let in.
    pub fn first_end(&self, policy: &Policy) -> Option<(String, u64)> {
        let snp = self.snp.iter().filter(|_| policy.snp().is_some()).filter_map(SnpCollateral::first_end);
        let tdx = self.tdx.iter().filter(|_| policy.tdx().is_some()).filter_map(TdxCollateral::first_end);
        snp.chain(tdx).min_by_key(|(_, end)| *end)
    }

    /// Verifies what a machine's processor says over the session with this binding, and the AK that quotes in it. `now` is in seconds
    /// since the Unix epoch. Of a processor that the policy does not demand nothing is verified.
    ///
    /// # Errors
    /// `snp-report-missing`, `tdx-quote-missing`, and what [`SnpCollateral::verify`] and [`TdxCollateral::verify`] refuse.
    pub(crate) fn verify(
        &self,
        policy: &Policy,
        evidence: Option<&ProcessorEvidence>,
        (binding, ak): (&[u8; 32], &Public),
        now: u64,
    ) -> Result<Option<VerifiedProcessor>, Refusal> {
        if policy.processors().is_empty() {
            return Ok(None);
        }
        let report_data = report_data(binding, ak);
        let unheld = |kind| not_verifiable(kind, "the collateral has no part for it");
        match (policy.snp(), policy.tdx(), evidence) {
            (Some(demanded), _, Some(ProcessorEvidence::Snp(evidence))) => {
                let collateral = self.snp.as_ref().ok_or_else(|| unheld(ProcessorKind::Snp))?;
                let report = SnpReport::parse(evidence.report())?;
                let host = CertificateTable::parse(evidence.certificates())?;
                let verified = collateral.verify(&report, host, &report_data, demanded.revocation_list(), now)?;
                Ok(Some(VerifiedProcessor::Snp(Box::new(verified))))
            }
            (_, Some(_), Some(ProcessorEvidence::Tdx(evidence))) => {
                let collateral = self.tdx.as_ref().ok_or_else(|| unheld(ProcessorKind::Tdx))?;
                let verified = collateral.verify(evidence.quote(), &report_data, now)?;
                Ok(Some(VerifiedProcessor::Tdx(Box::new(verified))))
            }
            (_, _, evidence) => Err(missing_processor(policy, evidence.map(ProcessorEvidence::kind))),
        }
    }
}

/// The witness that a processor signed for this session and this AK. Whether what it says is good is for a policy to decide.
#[cfg(feature = "processors")]
#[derive(Debug, Clone)]
#[must_use = "a processor's true word may still be about an impostor"]
pub enum VerifiedProcessor {
    /// AMD's.
    Snp(Box<VerifiedSnpReport>),
    /// Intel's.
    Tdx(Box<VerifiedTdxQuote>),
}

#[cfg(feature = "processors")]
impl VerifiedProcessor {
    /// Whose word it is.
    pub fn kind(&self) -> ProcessorKind {
        match self {
            Self::Snp(_) => ProcessorKind::Snp,
            Self::Tdx(_) => ProcessorKind::Tdx,
        }
    }
}

/// A refusal of evidence that has no processor's word, or that of a kind that the policy does not take.
#[cfg(feature = "processors")]
pub(crate) fn missing_processor(policy: &Policy, got: Option<ProcessorKind>) -> Refusal {
    let demanded = policy.processors();
    let code = match demanded.first() {
        Some(ProcessorKind::Tdx) => ReasonCode::TdxQuoteMissing,
        Some(ProcessorKind::Snp) | None => ReasonCode::SnpReportMissing,
    };
    let demanded: Vec<_> = demanded.iter().map(ProcessorKind::to_string).collect();
    let got = got.map_or_else(|| "nothing of a processor".to_owned(), |kind| kind.to_string());
    Refusal::new(code, format!("the policy takes {}, the evidence has {got}", demanded.join(" or ")))
}

/// A policy that demands what nobody here can verify admits nobody.
pub(crate) fn not_verifiable(kind: ProcessorKind, why: &str) -> Refusal {
    let (code, section) = match kind {
        ProcessorKind::Snp => (ReasonCode::SnpNotVerifiable, "snp"),
        ProcessorKind::Tdx => (ReasonCode::TdxNotVerifiable, "tdx"),
    };
    Refusal::new(code, format!("the policy has a section `{section}`: {why}"))
}

impl Policy {
    /// Refuses a policy that demands a processor's word where there is nothing to verify it by.
    ///
    /// # Errors
    /// `snp-not-verifiable`, `tdx-not-verifiable`.
    pub fn check_demands_no_processor(&self) -> Result<(), Refusal> {
        self.processors()
            .first()
            .map_or(Ok(()), |kind| Err(not_verifiable(*kind, "there is no collateral to verify a processor's word by")))
    }
}

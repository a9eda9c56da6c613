//! What a machine's processor says, beside its TPM: over the same session, and over the AK that quotes in it.

#[cfg(feature = "processors")]
use latchkey_tpm::wire::Public;

#[cfg(feature = "processors")]
use super::{
    EkDigest,
    hcl::{check_claims, claims_report_data, of_claims},
    snp::{SnpCollateral, VerifiedSnpReport},
    svsm::check_services_manifest,
    tdx::{TdxCollateral, VerifiedTdxQuote},
};
use crate::parse::ProcessorKind;
#[cfg(feature = "processors")]
use crate::parse::{CertificateTable, ProcessorEvidence, SnpEvidence, SnpReport};
use crate::policy::Policy;
use crate::refusal::{ReasonCode, Refusal};
#[cfg(feature = "processors")]
use crate::{policy::SnpPolicy, report_data, svsm_report_data};

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
                ProcessorKind::Snp | ProcessorKind::SnpSvsm | ProcessorKind::SnpAzureHcl => self.snp.is_some(),
                ProcessorKind::Tdx => self.tdx.is_some(),
            };
            if has { Ok(()) } else { Err(unheld(kind)) }
        })
    }

    /// The parts of `before` that are not here, by the names of their directories.
    pub fn lacking(&self, before: &Self) -> Vec<&'static str> {
        let parts =
            [("snp", before.snp.is_some(), self.snp.is_some()), ("tdx", before.tdx.is_some(), self.tdx.is_some())];
        parts.into_iter().filter(|(_, was, is)| *was && !is).map(|(name, ..)| name).collect()
    }

    /// Which part of what a policy demands ends first, and when, in seconds since the Unix epoch: from then on nobody whom it is about
    /// is let in.
    pub fn first_end(&self, policy: &Policy) -> Option<(String, u64)> {
        let snp = self.snp.iter().filter(|_| policy.snp().is_some()).filter_map(SnpCollateral::first_end);
        let tdx = self.tdx.iter().filter(|_| policy.tdx().is_some()).filter_map(TdxCollateral::first_end);
        snp.chain(tdx).min_by_key(|(_, end)| *end)
    }

    /// Verifies what a machine's processor says over this session. `now` is in seconds since the Unix epoch. Of a processor that the
    /// policy does not demand nothing is verified.
    ///
    /// # Errors
    /// `snp-report-missing`, `tdx-quote-missing`, `snp-svsm-…`, and what [`SnpCollateral::verify`] and [`TdxCollateral::verify`] refuse.
    pub(crate) fn verify(
        &self,
        policy: &Policy,
        evidence: Option<&ProcessorEvidence>,
        session: Session<'_>,
        now: u64,
    ) -> Result<Option<VerifiedProcessor>, Refusal> {
        check_kind(policy, evidence.map(ProcessorEvidence::kind))?;
        let report_data = report_data(session.binding, session.ak);
        match (policy.snp(), policy.tdx(), evidence) {
            (Some(demanded), _, Some(ProcessorEvidence::Snp(evidence))) => {
                let verified = self.verify_snp(demanded, evidence, &report_data, now)?;
                Ok(Some(VerifiedProcessor::Snp(Box::new(verified))))
            }
            (Some(demanded), _, Some(ProcessorEvidence::SnpSvsm(evidence))) => {
                check_services_manifest(evidence.manifest(), session.identity)?;
                let report_data = svsm_report_data(&report_data, evidence.manifest());
                let verified = self.verify_snp(demanded, evidence.snp(), &report_data, now)?;
                Ok(Some(VerifiedProcessor::SnpSvsm(Box::new(verified))))
            }
            (Some(demanded), _, Some(ProcessorEvidence::SnpAzureHcl(evidence))) => {
                check_claims(evidence.claims(), session.ak)?;
                let report_data = claims_report_data(evidence.claims());
                let verified = self.verify_snp(demanded, evidence.snp(), &report_data, now).map_err(of_claims)?;
                Ok(Some(VerifiedProcessor::SnpAzureHcl(Box::new(verified))))
            }
            (_, Some(_), Some(ProcessorEvidence::Tdx(evidence))) => {
                let collateral = self.tdx.as_ref().ok_or_else(|| unheld(ProcessorKind::Tdx))?;
                let verified = collateral.verify(evidence.quote(), &report_data, now)?;
                Ok(Some(VerifiedProcessor::Tdx(Box::new(verified))))
            }
            _ => Ok(None),
        }
    }

    fn verify_snp(
        &self,
        demanded: &SnpPolicy,
        evidence: &SnpEvidence,
        report_data: &[u8; 64],
        now: u64,
    ) -> Result<VerifiedSnpReport, Refusal> {
        let collateral = self.snp.as_ref().ok_or_else(|| unheld(ProcessorKind::Snp))?;
        let report = SnpReport::parse(evidence.report())?;
        let host = CertificateTable::parse(evidence.certificates())?;
        collateral.verify(&report, host, report_data, demanded.revocation_list(), now)
    }
}

/// What a processor's word has to be over.
#[cfg(feature = "processors")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) binding: &'a [u8; 32],
    /// The key that the TPM is known by: of an SVSM's, its EK.
    pub(crate) identity: EkDigest,
    pub(crate) ak: &'a Public,
}

/// The witness that a processor signed for this session and this AK. Whether what it says is good is for a policy to decide.
#[cfg(feature = "processors")]
#[derive(Debug, Clone)]
#[must_use = "a processor's true word may still be about an impostor"]
pub enum VerifiedProcessor {
    /// AMD's.
    Snp(Box<VerifiedSnpReport>),
    /// AMD's, over the EK of an SVSM's TPM, too.
    SnpSvsm(Box<VerifiedSnpReport>),
    /// AMD's, over the AK of the TPM of Azure's paravisor, and over no session.
    SnpAzureHcl(Box<VerifiedSnpReport>),
    /// Intel's.
    Tdx(Box<VerifiedTdxQuote>),
}

#[cfg(feature = "processors")]
impl VerifiedProcessor {
    /// Whose word it is.
    pub fn kind(&self) -> ProcessorKind {
        match self {
            Self::Snp(_) => ProcessorKind::Snp,
            Self::SnpSvsm(_) => ProcessorKind::SnpSvsm,
            Self::SnpAzureHcl(_) => ProcessorKind::SnpAzureHcl,
            Self::Tdx(_) => ProcessorKind::Tdx,
        }
    }
}

/// Refuses evidence that has no processor's word where the policy demands one, or one of a kind that it does not take: which kind counts
/// is never for the peer to say.
#[cfg(feature = "processors")]
pub(crate) fn check_kind(policy: &Policy, got: Option<ProcessorKind>) -> Result<(), Refusal> {
    use ProcessorKind::{Snp, SnpAzureHcl, SnpSvsm, Tdx};
    let demanded = policy.processors();
    let code = match (demanded.first(), got) {
        (_, Some(got)) if demanded.contains(&got) => return Ok(()),
        (Some(SnpSvsm), Some(Snp)) => ReasonCode::SnpSvsmManifestMissing,
        (Some(SnpAzureHcl), Some(Snp)) => ReasonCode::SnpHclClaimsMissing,
        (_, Some(SnpSvsm)) => ReasonCode::SnpSvsmManifestUnexpected,
        (_, Some(SnpAzureHcl)) => ReasonCode::SnpHclClaimsUnexpected,
        (None, _) => return Ok(()),
        (Some(Tdx), _) => ReasonCode::TdxQuoteMissing,
        (Some(Snp | SnpSvsm | SnpAzureHcl), _) => ReasonCode::SnpReportMissing,
    };
    let demanded: Vec<_> = demanded.iter().map(ProcessorKind::to_string).collect();
    let demanded = if demanded.is_empty() { "no processor's word".to_owned() } else { demanded.join(" or ") };
    let got = got.map_or_else(|| "nothing of a processor".to_owned(), |kind| kind.to_string());
    Err(Refusal::new(code, format!("the policy takes {demanded}, the evidence has {got}")))
}

#[cfg(feature = "processors")]
fn unheld(kind: ProcessorKind) -> Refusal {
    not_verifiable(kind, "the collateral has no part for it")
}

/// A policy that demands what nobody here can verify admits nobody.
pub(crate) fn not_verifiable(kind: ProcessorKind, why: &str) -> Refusal {
    let (code, section) = match kind {
        ProcessorKind::Snp | ProcessorKind::SnpSvsm | ProcessorKind::SnpAzureHcl => {
            (ReasonCode::SnpNotVerifiable, "snp")
        }
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

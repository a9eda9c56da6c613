//! What a machine's processor says, where the policy demands that one vouches for it.

use std::fmt;

use serde::Serialize;

use super::AdmittedImage;
use super::snp::{self, AdmittedSnp};
use super::tdx::{AdmittedTdx, RegistersOf};
use crate::ends::End;
use crate::parse::ProcessorKind;
use crate::policy::Policy;
use crate::reference::References;
use crate::refusal::Refusal;
use crate::verify::{ProcessorCollateral, VerifiedProcessor, check_kind};

/// The witness that a processor vouched for a machine, as the policy demands it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AdmittedProcessor {
    /// AMD's.
    Snp(AdmittedSnp),
    /// Intel's.
    Tdx(Box<AdmittedTdx>),
}

impl fmt::Display for AdmittedProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snp(admitted) => admitted.fmt(f),
            Self::Tdx(admitted) => admitted.fmt(f),
        }
    }
}

impl AdmittedProcessor {
    /// Whose it is.
    pub fn kind(&self) -> ProcessorKind {
        match self {
            Self::Snp(_) => ProcessorKind::Snp,
            Self::Tdx(_) => ProcessorKind::Tdx,
        }
    }

    /// What its word rests on, and when each part ends, the first one first. `collateral` is what it was verified by.
    pub fn ends(&self, collateral: &ProcessorCollateral) -> Vec<End> {
        let mut ends: Vec<_> = match self {
            Self::Snp(admitted) => {
                let behind =
                    collateral.snp.iter().flat_map(|part| part.ends_behind(admitted.product(), admitted.key()));
                behind.chain([admitted.certificate_end()]).collect()
            }
            Self::Tdx(admitted) => {
                let behind = collateral.tdx.iter().flat_map(|part| part.ends_behind(admitted.platform()));
                behind.collect()
            }
        };
        ends.sort();
        ends.dedup();
        ends
    }
}

/// Decides on what the processor says, where the policy demands that it says something. A SEV-SNP guest must be launched with the very
/// image that the TPM's measurements are those of, or, where the processor is what makes the TPM trusted, with code that the rule of trust
/// names; of a TDX guest, the policy's own values decide, or those that the manifest lists for that image.
pub(crate) fn admit_processor(
    policy: &Policy,
    verified: Option<&VerifiedProcessor>,
    image: &AdmittedImage,
    references: &References,
    now: u64,
) -> Result<Option<AdmittedProcessor>, Refusal> {
    check_kind(policy, verified.map(VerifiedProcessor::kind))?;
    match (policy.snp(), policy.tdx(), verified) {
        (Some(demanded), _, Some(VerifiedProcessor::Snp(verified))) => {
            let admitted = demanded.validate(verified)?;
            snp::check_image(policy, verified, image, references, now)?;
            Ok(Some(AdmittedProcessor::Snp(admitted)))
        }
        (Some(demanded), _, Some(VerifiedProcessor::SnpSvsm(verified) | VerifiedProcessor::SnpAzureHcl(verified))) => {
            let admitted = demanded.validate(verified)?;
            snp::check_trusted_with_tpm(policy, verified)?;
            Ok(Some(AdmittedProcessor::Snp(admitted)))
        }
        (_, Some(demanded), Some(VerifiedProcessor::Tdx(verified))) => {
            let registers = RegistersOf::of(image, references);
            demanded.validate_with(verified, &registers).map(Box::new).map(AdmittedProcessor::Tdx).map(Some)
        }
        _ => Ok(None),
    }
}

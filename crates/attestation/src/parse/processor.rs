//! What the processor of a confidential machine says of it, as it is sent: nothing of it is trusted yet.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::evidence::{MAX_PUBLIC, evidence_too_large};
use crate::parse::{Bytes, CertificateTable, HclReport, SnpReport};
use crate::refusal::Refusal;

/// Whose hardware keeps a machine's memory from its host and vouches for the machine, and what it vouches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessorKind {
    /// AMD's, by a SEV-SNP report over session and AK.
    Snp,
    /// AMD's, by a SEV-SNP report that an SVSM asked for: over session, AK and the EK of the SVSM's own TPM.
    SnpSvsm,
    /// AMD's, by a SEV-SNP report that Azure's paravisor asked for at the start: over the AK of the paravisor's own TPM.
    SnpAzureHcl,
    /// Intel's, by a TDX quote.
    Tdx,
}

impl fmt::Display for ProcessorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Snp => "a SEV-SNP report",
            Self::SnpSvsm => "a SEV-SNP report with an SVSM's manifest of its TPM",
            Self::SnpAzureHcl => "a SEV-SNP report with the claims of Azure's paravisor",
            Self::Tdx => "a TDX quote",
        })
    }
}

/// What one processor says of its machine.
///
/// JSON: `{"snp": {"report": base64, "certificates": base64?}}`, `{"snp-svsm": {"snp": {…}, "manifest": base64}}` with the same in `snp`,
/// `{"snp-azure-hcl": {"snp": {…}, "claims": base64}}`, or `{"tdx": {"quote": base64}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessorEvidence {
    /// Of a SEV-SNP guest.
    Snp(SnpEvidence),
    /// Of a SEV-SNP guest whose TPM is that of its SVSM.
    SnpSvsm(SvsmEvidence),
    /// Of a SEV-SNP guest whose TPM is that of Azure's paravisor.
    SnpAzureHcl(AzureHclEvidence),
    /// Of a TDX guest.
    Tdx(TdxEvidence),
}

impl ProcessorEvidence {
    /// Whose it is.
    pub fn kind(&self) -> ProcessorKind {
        match self {
            Self::Snp(_) => ProcessorKind::Snp,
            Self::SnpSvsm(_) => ProcessorKind::SnpSvsm,
            Self::SnpAzureHcl(_) => ProcessorKind::SnpAzureHcl,
            Self::Tdx(_) => ProcessorKind::Tdx,
        }
    }

    /// The SEV-SNP report, if it is one.
    pub fn snp(&self) -> Option<&SnpEvidence> {
        match self {
            Self::Snp(evidence)
            | Self::SnpSvsm(SvsmEvidence { snp: evidence, .. })
            | Self::SnpAzureHcl(AzureHclEvidence { snp: evidence, .. }) => Some(evidence),
            Self::Tdx(_) => None,
        }
    }

    /// The TDX quote, if it is one.
    pub fn tdx(&self) -> Option<&TdxEvidence> {
        match self {
            Self::Tdx(evidence) => Some(evidence),
            Self::Snp(_) | Self::SnpSvsm(_) | Self::SnpAzureHcl(_) => None,
        }
    }
}

impl From<SnpEvidence> for ProcessorEvidence {
    fn from(evidence: SnpEvidence) -> Self {
        Self::Snp(evidence)
    }
}

impl From<SvsmEvidence> for ProcessorEvidence {
    fn from(evidence: SvsmEvidence) -> Self {
        Self::SnpSvsm(evidence)
    }
}

impl From<AzureHclEvidence> for ProcessorEvidence {
    fn from(evidence: AzureHclEvidence) -> Self {
        Self::SnpAzureHcl(evidence)
    }
}

impl From<TdxEvidence> for ProcessorEvidence {
    fn from(evidence: TdxEvidence) -> Self {
        Self::Tdx(evidence)
    }
}

/// What the processor of a SEV-SNP guest says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnpEvidence {
    report: Bytes<{ SnpReport::SIZE }>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificates: Option<Bytes<{ CertificateTable::MAX }>>,
}

impl SnpEvidence {
    /// An attestation report, and the table of certificates that the host gave with it.
    ///
    /// # Errors
    /// `evidence-malformed` when one is longer than it can be.
    pub fn new(report: Vec<u8>, certificates: Option<Vec<u8>>) -> Result<Self, Refusal> {
        let table = |table| Bytes::new(table).ok_or_else(|| evidence_too_large("certificates"));
        Ok(Self {
            report: Bytes::new(report).ok_or_else(|| evidence_too_large("report"))?,
            certificates: certificates.map(table).transpose()?,
        })
    }

    /// The report (AMD 56860, table `ATTESTATION_REPORT`).
    pub fn report(&self) -> &[u8] {
        self.report.as_slice()
    }

    /// The host's table (AMD 56421, section "Extended Guest Request"); empty where it gave none.
    pub fn certificates(&self) -> &[u8] {
        self.certificates.as_ref().map_or(&[], Bytes::as_slice)
    }
}

/// What the processor of a SEV-SNP guest says for its SVSM, and what that says of the TPM in it (*Secure VM Service Module for SEV-SNP
/// Guests*, 58019 revision 1.00, sections 7 and 8.3.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SvsmEvidence {
    snp: SnpEvidence,
    manifest: Bytes<MAX_PUBLIC>,
}

impl SvsmEvidence {
    /// A report, and the manifest of the vTPM service that it is over.
    ///
    /// # Errors
    /// `evidence-malformed` when the manifest is longer than a public area can be.
    pub fn new(snp: SnpEvidence, manifest: Vec<u8>) -> Result<Self, Refusal> {
        Ok(Self { snp, manifest: Bytes::new(manifest).ok_or_else(|| evidence_too_large("the SVSM's manifest"))? })
    }

    /// The report and the host's certificates.
    pub fn snp(&self) -> &SnpEvidence {
        &self.snp
    }

    /// The manifest of the vTPM service, version 0: the `TPMT_PUBLIC` of the TPM's endorsement key.
    pub fn manifest(&self) -> &[u8] {
        self.manifest.as_slice()
    }
}

/// What the processor of a SEV-SNP guest says for Azure's paravisor, and what that says of the TPM in it: see [`HclReport`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AzureHclEvidence {
    snp: SnpEvidence,
    claims: Bytes<{ HclReport::MAX_CLAIMS }>,
}

impl AzureHclEvidence {
    /// What the paravisor left in its TPM, whole.
    ///
    /// # Errors
    /// `snp-hcl-report-of-tdx`, `snp-hcl-report-malformed`; `evidence-malformed` when the claims are longer than the wire allows.
    pub fn from_nv(content: &[u8]) -> Result<Self, Refusal> {
        let HclReport { report, claims } = HclReport::parse(content)?;
        Self::new(SnpEvidence::new(report.to_vec(), None)?, claims.to_vec())
    }

    /// A report, and the claims that it is over.
    ///
    /// # Errors
    /// `evidence-malformed` when the claims are longer than the wire allows.
    pub fn new(snp: SnpEvidence, claims: Vec<u8>) -> Result<Self, Refusal> {
        Ok(Self { snp, claims: Bytes::new(claims).ok_or_else(|| evidence_too_large("the paravisor's claims"))? })
    }

    /// The report.
    pub fn snp(&self) -> &SnpEvidence {
        &self.snp
    }

    /// The claims, JSON.
    pub fn claims(&self) -> &[u8] {
        self.claims.as_slice()
    }
}

/// What the processor of a TDX guest says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TdxEvidence {
    quote: Bytes<{ TdxEvidence::MAX_QUOTE }>,
}

impl TdxEvidence {
    /// The longest quote, in bytes. Quotes have 5 KiB, most of it the chain of the key's certificate.
    pub const MAX_QUOTE: usize = 16 * 1024;

    /// A quote as the kernel gives it.
    ///
    /// # Errors
    /// `evidence-malformed` when it is longer than it can be.
    pub fn new(quote: Vec<u8>) -> Result<Self, Refusal> {
        Ok(Self { quote: Bytes::new(quote).ok_or_else(|| evidence_too_large("the TDX quote"))? })
    }

    /// The quote, version 4 or 5 (Intel, "TDX DCAP Quoting Library API", appendix A.3 and A.4).
    pub fn quote(&self) -> &[u8] {
        self.quote.as_slice()
    }
}

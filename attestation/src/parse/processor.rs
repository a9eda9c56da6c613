//! What the processor of a confidential machine says of it, as it is sent: nothing of it is trusted yet.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::evidence::evidence_too_large;
use crate::parse::{Bytes, CertificateTable, SnpReport};
use crate::refusal::Refusal;

/// Whose hardware keeps a machine's memory from its host, and vouches for the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessorKind {
    /// AMD's, by a SEV-SNP report.
    Snp,
    /// Intel's, by a TDX quote.
    Tdx,
}

impl fmt::Display for ProcessorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Snp => "a SEV-SNP report",
            Self::Tdx => "a TDX quote",
        })
    }
}

/// What one processor says of its machine.
///
/// JSON: `{"snp": {"report": base64, "certificates": base64?}}` or `{"tdx": {"quote": base64}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessorEvidence {
    /// Of a SEV-SNP guest.
    Snp(SnpEvidence),
    /// Of a TDX guest.
    Tdx(TdxEvidence),
}

impl ProcessorEvidence {
    /// Whose it is.
    pub fn kind(&self) -> ProcessorKind {
        match self {
            Self::Snp(_) => ProcessorKind::Snp,
            Self::Tdx(_) => ProcessorKind::Tdx,
        }
    }

    /// The SEV-SNP report, if it is one.
    pub fn snp(&self) -> Option<&SnpEvidence> {
        match self {
            Self::Snp(evidence) => Some(evidence),
            Self::Tdx(_) => None,
        }
    }

    /// The TDX quote, if it is one.
    pub fn tdx(&self) -> Option<&TdxEvidence> {
        match self {
            Self::Tdx(evidence) => Some(evidence),
            Self::Snp(_) => None,
        }
    }
}

impl From<SnpEvidence> for ProcessorEvidence {
    fn from(evidence: SnpEvidence) -> Self {
        Self::Snp(evidence)
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

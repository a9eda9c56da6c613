//! SEV-SNP: who signed a report, and is it AMD's word.
//!
//! ```text
//! SnpCollateral::verify(report, host's certificates, report data, now)
//!     certificate ─ chain to a built-in ARK, nothing revoked ─ kind, product, chip, firmware as the report says
//!         ─ signature ─ report data ─→ VerifiedSnpReport
//! ```
//!
//! AMD 57230, "Versioned Chip Endorsement Key (VCEK) Certificate and KDS Interface Specification", has certificates and their
//! extensions; AMD 56860 the report.

mod authority;
mod certificate;
mod collateral;
mod inventory;
mod item;
mod roots;

use aws_lc_rs::signature::{ECDSA_P384_SHA384_FIXED, UnparsedPublicKey};
use subtle::ConstantTimeEq as _;

use crate::parse::{HostCertificates, SigningKey, SnpProduct, SnpReport, Tcb};
use crate::policy::RevocationList;
use crate::refusal::{ReasonCode, Refusal};

pub use certificate::{Signer, SnpCertificate};
pub use collateral::SnpCollateral;
pub use inventory::{SnpInventory, SnpItem, SnpKind};

/// The witness that a secure processor of AMD signed this report over these report data. Whether what it says is good is for a
/// policy to decide.
#[derive(Debug, Clone)]
#[must_use = "a true report may still be that of an impostor"]
pub struct VerifiedSnpReport {
    report: SnpReport,
    certificate: SnpCertificate,
}

impl VerifiedSnpReport {
    /// The report.
    pub fn report(&self) -> &SnpReport {
        &self.report
    }

    /// The certificate of the key that signed it.
    pub fn certificate(&self) -> &SnpCertificate {
        &self.certificate
    }

    /// The processor's generation, by the certificate and, from version 3 on, by the report.
    pub fn product(&self) -> SnpProduct {
        self.certificate.product()
    }

    /// Firmware versions that the key stands for.
    pub fn reported_tcb(&self) -> Tcb {
        self.report.reported_tcb(self.product().tcb_layout())
    }
}

impl SnpCollateral {
    /// Checks a report at `now` (seconds since the Unix epoch): that a key of AMD's signed it, and signed `report_data`. The
    /// certificate is the host's, if it gave one, and otherwise the collateral's.
    ///
    /// # Errors
    /// `snp-certificate-…`, `snp-revocation-list-…`, `snp-signature-invalid`, `snp-report-data-mismatch`,
    /// `collateral-root-unknown`.
    pub fn verify(
        &self,
        report: &SnpReport,
        host: HostCertificates<'_>,
        report_data: &[u8; 64],
        rule: RevocationList,
        now: u64,
    ) -> Result<VerifiedSnpReport, Refusal> {
        let offered = match report.signing_key() {
            SigningKey::Vcek => host.vcek,
            SigningKey::Vlek => host.vlek,
        };
        let certificate = match offered {
            Some(der) => SnpCertificate::parse(der)?,
            None => self.certificate_for(report)?.clone(),
        };
        certificate.check_report(report)?;
        self.check_chain(&certificate, rule, now)?;
        let key = UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, certificate.public_key());
        key.verify(report.signed(), &report.signature()?).map_err(|_| {
            Refusal::new(
                ReasonCode::SnpSignatureInvalid,
                format!("no signature of this {}", report.signing_key().name()),
            )
        })?;
        if !bool::from(report.report_data().ct_eq(report_data)) {
            return Err(Refusal::new(ReasonCode::SnpReportDataMismatch, "REPORT_DATA is not that of this session"));
        }
        Ok(VerifiedSnpReport { report: report.clone(), certificate })
    }
}

//! A report that was kept: by itself, or in evidence.

use std::path::Path;

use latchkey_attestation::parse::{
    CertificateTable, HclReport, HostCertificates, ProcessorEvidence, SigningKey, SnpReport,
};
use latchkey_attestation::policy::RevocationList;
use latchkey_attestation::verify::snp::{SnpCertificate, SnpCollateral, VerifiedSnpReport};
use latchkey_attestation::{RecordedEvidence, Refusal};

use crate::clock::now;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::files;

/// A report, and what its host gave beside it.
pub(crate) struct KeptReport {
    pub(crate) report: SnpReport,
    /// A table of certificates, or the DER of one.
    certificates: Vec<u8>,
}

impl KeptReport {
    /// Reads a report's file, what Azure's paravisor leaves in its TPM, or evidence that `latchkey verify --save-evidence` kept. `certificates` names the host's, which stand in
    /// evidence already.
    pub(crate) fn read(path: &Path, certificates: Option<&Path>) -> Result<Self, CommandError> {
        let file = files::read(path, RecordedEvidence::MAX_JSON)?;
        let what = || format!("{} cannot be used", path.display());
        let refused = |refusal: Refusal| CommandError::refused(Exit::Usage, what(), &refusal);
        // A report begins with its version; Azure's paravisor wraps it.
        let (report, mut beside) = if file.starts_with(b"{") {
            let recording = RecordedEvidence::from_json(&file).map_err(refused)?;
            let snp = recording.unverified_processor().and_then(ProcessorEvidence::snp).ok_or_else(|| {
                let failure = CommandError::usage(what()).because("the evidence has no report of SEV-SNP");
                failure.fix("keep evidence of a guest, under a policy with the section `snp`")
            })?;
            (SnpReport::parse(snp.report()).map_err(refused)?, snp.certificates().to_vec())
        } else if file.starts_with(HclReport::SIGNATURE) {
            let hcl = HclReport::parse(&file).map_err(refused)?;
            (SnpReport::parse(hcl.report).map_err(refused)?, Vec::new())
        } else {
            (SnpReport::parse(&file).map_err(refused)?, Vec::new())
        };
        if let Some(path) = certificates {
            beside = files::read(path, CertificateTable::MAX)?;
        }
        Ok(Self { report, certificates: beside })
    }

    /// That hardware of AMD's signed it, whatever for: this is no session.
    pub(crate) fn verify(
        &self,
        collateral: &SnpCollateral,
        rule: RevocationList,
    ) -> Result<VerifiedSnpReport, Refusal> {
        collateral.verify(&self.report, self.host()?, &self.report.report_data(), rule, now())
    }

    fn host(&self) -> Result<HostCertificates<'_>, Refusal> {
        let bytes = self.certificates.as_slice();
        // DER of a certificate begins with a long SEQUENCE, a table with a GUID.
        if !bytes.starts_with(&[0x30, 0x82]) {
            return CertificateTable::parse(bytes);
        }
        Ok(match SnpCertificate::parse(bytes)?.kind() {
            SigningKey::Vcek => HostCertificates { vcek: Some(bytes), vlek: None },
            SigningKey::Vlek => HostCertificates { vcek: None, vlek: Some(bytes) },
        })
    }
}

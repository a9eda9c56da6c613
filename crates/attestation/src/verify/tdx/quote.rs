//! A quote's fields, read and not trusted yet: nothing here is worth anything before a quoting enclave's signature was verified.

use dcap_qvl::intel;
use dcap_qvl::quote::{AuthData, Quote, Report, TDReport10};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use super::authority::PckAuthority;
use crate::parse::{LaunchDigest, TdxEvidence};
use crate::reference::format_rfc3339;
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::Validity;

/// A TDX quote of version 4 or 5, of a TD report 1.0, 1.5 or 1.5 with extensions.
#[derive(Debug, Clone)]
pub struct TdxQuote {
    report: TDReport10,
    has_service_tds: bool,
    vm: u8,
    /// Of the certificate of the key that vouches for the quoting enclave.
    fmspc: [u8; 6],
    authority: PckAuthority,
    serial: Vec<u8>,
    /// When all certificates of the chain in it are valid.
    validity: Validity,
}

impl TdxQuote {
    /// Reads a quote.
    ///
    /// # Errors
    /// `tdx-quote-malformed`: no quote of a TDX guest, or one without the chain of its key's certificate.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() > TdxEvidence::MAX_QUOTE {
            return Err(malformed(format!("{} bytes, at most {}", bytes.len(), TdxEvidence::MAX_QUOTE)));
        }
        let quote = Quote::parse(bytes).map_err(|error| malformed(format!("{error:#}")))?;
        let (report, has_service_tds, vm) = match &quote.report {
            Report::TD10(report) => (*report, false, 0),
            Report::TD15(report) => (report.base, report.mr_service_td != [0; 48], 0),
            Report::TD15Ex(report) => {
                let bound = [report.base.mr_service_td, report.cur_service_td_hash];
                (report.base.base, bound != [[0; 48]; 2], report.vmid)
            }
            Report::SgxEnclave(_) => return Err(malformed("a quote of an SGX enclave, and not of a TDX guest")),
        };
        let AuthData::V4(signed) = &quote.auth_data else {
            return Err(malformed("signature data of another version than 4"));
        };
        let kinds = [signed.certification_data.cert_type, quote.inner_cert_type()];
        if kinds != [VOUCHED_ENCLAVE, CHAIN] {
            let expected = format!("expected {VOUCHED_ENCLAVE} with {CHAIN} in it");
            return Err(malformed(format!("certification data of type {} with {}, {expected}", kinds[0], kinds[1])));
        }
        let chain = intel::extract_cert_chain(&quote).map_err(|error| malformed(format!("{error:#}")))?;
        let leaf = chain.first().ok_or_else(|| malformed("it has no certificate of its key"))?;
        let of_leaf = |error: &dyn std::fmt::Display| malformed(format!("the certificate of its key: {error}"));
        let extension = intel::parse_pck_extension(leaf).map_err(|error| of_leaf(&format!("{error:#}")))?;
        let certificate = Certificate::from_der(leaf).map_err(|error| of_leaf(&error))?;
        let authority = PckAuthority::of_issuer(&certificate)
            .ok_or_else(|| of_leaf(&"neither Intel's authority for processors nor the one for platforms issued it"))?;
        let serial = certificate.tbs_certificate().serial_number().as_bytes().to_vec();
        let mut validity = Validity::of_certificate(&certificate);
        for der in chain.iter().skip(1) {
            let above = Certificate::from_der(der).map_err(|error| malformed(format!("a certificate: {error}")))?;
            validity = validity.and(Validity::of_certificate(&above));
        }
        Ok(Self { report, has_service_tds, vm, fmspc: extension.fmspc, authority, serial, validity })
    }

    /// The family, model and configuration of the platform (FMSPC): Intel's TCB information is by it.
    pub fn fmspc(&self) -> [u8; 6] {
        self.fmspc
    }

    /// Which of Intel's authorities certified the platform's key.
    pub fn authority(&self) -> PckAuthority {
        self.authority
    }

    /// The serial number of the certificate of the platform's key.
    pub(super) fn serial(&self) -> &[u8] {
        &self.serial
    }

    /// Refuses a quote whose chain of certificates is not valid at `now`.
    pub(super) fn check_validity(&self, now: u64) -> Result<(), Refusal> {
        let Validity { from, to } = self.validity;
        let (code, detail) = if now < from {
            let detail = format!("the certificates of the platform's key are valid from {} on", format_rfc3339(from));
            (ReasonCode::TdxCertificateNotYetValid, detail)
        } else if now > to {
            let detail = format!("the certificates of the platform's key ended at {}", format_rfc3339(to));
            (ReasonCode::TdxCertificateExpired, detail)
        } else {
            return Ok(());
        };
        Err(Refusal::new(code, detail))
    }

    /// What the guest had signed.
    pub fn report_data(&self) -> [u8; 64] {
        self.report.report_data
    }

    /// What the guest was launched with.
    pub fn mrtd(&self) -> LaunchDigest {
        LaunchDigest(self.report.mr_td)
    }

    /// RTMR 0 to 3.
    pub fn rtmrs(&self) -> [LaunchDigest; 4] {
        let base = &self.report;
        [base.rt_mr0, base.rt_mr1, base.rt_mr2, base.rt_mr3].map(LaunchDigest)
    }

    /// The TDX module (`MRSEAM`).
    pub fn mrseam(&self) -> LaunchDigest {
        LaunchDigest(self.report.mr_seam)
    }

    /// `TDATTRIBUTES`: what host and guest may do to each other.
    pub fn attributes(&self) -> u64 {
        u64::from_le_bytes(self.report.td_attributes)
    }

    /// Refuses guests that their host may look into or move, whatever a policy says. Before any signature is verified: what a guest
    /// says against itself needs no proof.
    pub(super) fn check_attributes(&self) -> Result<(), Refusal> {
        let bits = self.attributes();
        let refuse = |code, detail: &str| Err(Refusal::new(code, format!("{detail} (TDATTRIBUTES {bits:#018x})")));
        if bits & attributes::WATCHED != 0 {
            return refuse(ReasonCode::TdxDebugAllowed, "DEBUG or a bit for profiling is set");
        }
        if bits & attributes::MIGRATABLE != 0 {
            return refuse(ReasonCode::TdxMigrationAllowed, "MIGRATABLE is set");
        }
        if bits & attributes::SEPT_VE_DISABLE == 0 {
            return refuse(ReasonCode::TdxAttributesRefused, "SEPT_VE_DISABLE is not set");
        }
        Ok(())
    }

    /// `XFAM`: the processor's extended states that the guest uses.
    pub fn xfam(&self) -> [u8; 8] {
        self.report.xfam
    }

    /// `MRCONFIGID`, `MROWNER`, `MROWNERCONFIG`: what the launcher said of the guest.
    pub fn launcher_said(&self) -> [[u8; 48]; 3] {
        let base = &self.report;
        [base.mr_config_id, base.mr_owner, base.mr_owner_config]
    }

    /// Whether service guests are bound to it. A TD report 1.0 has no field for them.
    pub fn has_service_tds(&self) -> bool {
        self.has_service_tds
    }

    /// Which part of a partitioned guest asked: 0 is the guest itself.
    pub fn vm(&self) -> u8 {
        self.vm
    }
}

/// Bits of `TDATTRIBUTES` (Intel 348551, "TDX Module ABI", section "ATTRIBUTES").
pub(crate) mod attributes {
    /// `DEBUG`, and the bits by which a host profiles its guest.
    pub(crate) const WATCHED: u64 = 1 | 1 << 4 | 1 << 5 | 1 << 6;
    /// `SERVTD_EXT`: the report tells of service guests.
    pub(crate) const SERVICE_TD: u64 = 1 << 17;
    /// `LASS`, `SEPT_VE_DISABLE`, `PKS` and `ICSSD`: the guest protects itself.
    pub(crate) const PROTECTING: u64 = 1 << 16 | 1 << 27 | SEPT_VE_DISABLE | 1 << 30;
    /// `SEPT_VE_DISABLE`: a host that takes memory away stops the guest, and does not interrupt it at a place of its choice.
    pub(crate) const SEPT_VE_DISABLE: u64 = 1 << 28;
    /// `MIGRATABLE`.
    pub(crate) const MIGRATABLE: u64 = 1 << 29;
    /// `KL`.
    pub(crate) const KEY_LOCKER: u64 = 1 << 31;
    /// `PERFMON`.
    pub(crate) const PERFORMANCE_MONITORING: u64 = 1 << 63;
}

/// Types of certification data (Intel, "TDX DCAP Quoting Library API", appendix A.3.4): what vouches for the quoting enclave.
const VOUCHED_ENCLAVE: u16 = 6;
/// The chain of the platform's key, as PEM.
const CHAIN: u16 = 5;

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::TdxQuoteMalformed, detail)
}

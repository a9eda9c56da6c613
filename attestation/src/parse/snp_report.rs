//! The attestation report of an AMD SEV-SNP guest, as far as it is read here. **No signature is checked, and nothing
//! is decided by it.**
//!
//! Specification: AMD 56860, "SEV Secure Nested Paging Firmware ABI Specification", `ATTESTATION_REPORT`: version at 0,
//! guest policy at 8, VMPL at 30h, MEASUREMENT at 90h, 4A0h bytes with the signature.

use serde::Serialize;

use crate::parse::LaunchDigest;
use crate::refusal::{ReasonCode, Refusal};

/// A report that nobody verified: whoever can write a file can write one. What it says serves for explanations, never for
/// admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UnverifiedSnpReport {
    version: u32,
    policy: u64,
    vmpl: u32,
    measurement: LaunchDigest,
}

impl UnverifiedSnpReport {
    /// Bytes of every report.
    pub const SIZE: usize = 0x4a0;

    /// Reads a report: exactly [`Self::SIZE`] bytes, of version 2 to 5, which have what is read at the same places.
    ///
    /// # Errors
    /// `snp-report-malformed`.
    pub fn parse(report: &[u8]) -> Result<Self, Refusal> {
        let report: &[u8; Self::SIZE] =
            report.try_into().map_err(|_| malformed(format!("{} bytes, expected {}", report.len(), Self::SIZE)))?;
        let version = u32::from_le_bytes(field(report, VERSION)?);
        if !VERSIONS.contains(&version) {
            return Err(malformed(format!("version {version}, expected 2 to 5")));
        }
        Ok(Self {
            version,
            policy: u64::from_le_bytes(field(report, POLICY)?),
            vmpl: u32::from_le_bytes(field(report, VMPL)?),
            measurement: LaunchDigest(field(report, MEASUREMENT)?),
        })
    }

    /// Version of the report's form.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The launch digest that the report claims.
    pub fn claimed_measurement(&self) -> LaunchDigest {
        self.measurement
    }

    /// Whether the guest's claimed policy lets its host debug it: read and write its memory (56860, "Guest Policy", bit 19).
    pub fn claims_debug(&self) -> bool {
        self.policy & 1 << 19 != 0
    }

    /// The privilege level that claims to have asked for the report, 0 to 3.
    pub fn claimed_vmpl(&self) -> u32 {
        self.vmpl
    }
}

fn field<const N: usize>(report: &[u8; UnverifiedSnpReport::SIZE], offset: usize) -> Result<[u8; N], Refusal> {
    let bytes = report.get(offset..).and_then(|rest| rest.first_chunk::<N>());
    bytes.copied().ok_or_else(|| malformed("a field lies outside"))
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::SnpReportMalformed, detail)
}

const VERSION: usize = 0x00;
const POLICY: usize = 0x08;
const VMPL: usize = 0x30;
const MEASUREMENT: usize = 0x90;
/// Those that firmware for Milan to Turin writes.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=5;

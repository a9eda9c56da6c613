//! What the paravisor of Azure's confidential machines (HCL; its source is `OpenHCL`'s) leaves in the TPM that it has for the guest,
//! at the NV index 0x01400001.
//!
//! ```text
//! 0      32    header: "HCLA", version, sizes, type of request, status (not measured)
//! 32     1184  the SEV-SNP report
//! 1216   20    data size, version, type of report, type of hash, size of the claims; of version 2, 4 bytes more (not measured)
//! 1236…        the claims, JSON; REPORT_DATA is their SHA-256, then zeros
//! ```
//!
//! Numbers are little-endian. Sources: Microsoft, "Confidential VM Guest Attestation Design Detail" (attestation report format), and the
//! published `openhcl_attestation_protocol` of `microsoft/openvmm` (`IgvmAttestRequestBase`, `RuntimeClaims`).

#[cfg(feature = "processors")]
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
#[cfg(feature = "processors")]
use latchkey_tpm::wire::PublicKey;
#[cfg(feature = "processors")]
use serde::Deserialize;

use super::SnpReport;
#[cfg(feature = "processors")]
use crate::parse::from_json;
use crate::refusal::{ReasonCode, Refusal};

/// Report and claims of one paravisor, not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HclReport<'a> {
    /// The SEV-SNP report.
    pub report: &'a [u8],
    /// The claims that it is over, as they stand.
    pub claims: &'a [u8],
}

impl<'a> HclReport<'a> {
    /// What the index's content begins with.
    pub const SIGNATURE: &'static [u8] = b"HCLA";
    /// The longest claims, in bytes: those with two RSA keys have 1.2 KiB, and the index has 2.6 KiB in all.
    pub const MAX_CLAIMS: usize = 4096;

    /// Reads the index's content; what stands behind the claims is left alone.
    ///
    /// # Errors
    /// `snp-hcl-report-of-tdx`: the report is one of Intel TDX. `snp-hcl-report-malformed`: other or too few bytes, or what is no
    /// SEV-SNP report with claims hashed by SHA-256.
    pub fn parse(content: &'a [u8]) -> Result<Self, Refusal> {
        let refuse = |detail: String| Err(Refusal::new(ReasonCode::SnpHclReportMalformed, detail));
        let number = |at: usize| {
            let bytes = content.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_le_bytes)
        };
        if !content.starts_with(Self::SIGNATURE) {
            return refuse("it does not begin with HCLA".to_owned());
        }
        let extension = match number(DATA + 4) {
            Some(1) => 0,
            Some(2) => 4,
            other => return refuse(format!("its data are of version {other:?}, expected 1 or 2")),
        };
        let (kind, hash) = (number(DATA + 8), number(DATA + 12));
        if kind == Some(TDX) {
            let detail = "report type 4 (Intel TDX), expected 2 (SEV-SNP)";
            return Err(Refusal::new(ReasonCode::SnpHclReportOfTdx, detail));
        }
        if kind != Some(SNP) || hash != Some(SHA_256) {
            return refuse(format!("report type {kind:?}, hash type {hash:?}; expected 2 (SEV-SNP) and 1 (SHA-256)"));
        }
        let size =
            number(DATA + 16).and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= Self::MAX_CLAIMS);
        let Some(size) = size else {
            return refuse(format!("claims of more than {} bytes", Self::MAX_CLAIMS));
        };
        let begin = DATA + 20 + extension;
        match (content.get(HEADER..HEADER + SnpReport::SIZE), content.get(begin..begin + size)) {
            (Some(report), Some(claims)) => Ok(Self { report, claims }),
            _ => refuse(format!("{} bytes are too few for claims of {size}", content.len())),
        }
    }
}

/// The attestation key that claims name.
///
/// # Errors
/// `snp-hcl-claims-malformed`: no JSON, no key `HCLAkPub` or more than one, or none of RSA with 2048 bits and the exponent 65537.
#[cfg(feature = "processors")]
pub(crate) fn attestation_key(claims: &[u8]) -> Result<PublicKey, Refusal> {
    let refuse = |detail: &str| Refusal::new(ReasonCode::SnpHclClaimsMalformed, detail);
    let Claims { keys } = from_json(claims, HclReport::MAX_CLAIMS, ReasonCode::SnpHclClaimsMalformed)?;
    let mut named = keys.into_iter().filter(|key| key.kid == "HCLAkPub");
    let (Some(key), None) = (named.next(), named.next()) else {
        return Err(refuse("expected one key HCLAkPub"));
    };
    let number =
        |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| refuse("HCLAkPub has a number that is no base64url"));
    let (modulus, exponent) = (number(&key.n)?, number(&key.e)?);
    if key.kty != "RSA" || modulus.len() != 256 || modulus.first() < Some(&0x80) || exponent != [1, 0, 1] {
        return Err(refuse("HCLAkPub is no RSA key of 2048 bits with the exponent 65537"));
    }
    Ok(PublicKey::Rsa { bits: 2048, exponent: 0, modulus })
}

/// What is read of the claims: the paravisor has more in them (the machine's configuration, what the guest gave it), which decides nothing.
#[cfg(feature = "processors")]
#[derive(Deserialize)]
struct Claims {
    #[serde(deserialize_with = "keys")]
    keys: Vec<Key>,
}

#[cfg(feature = "processors")]
#[derive(Deserialize)]
struct Key {
    #[serde(default)]
    kid: String,
    #[serde(default)]
    kty: String,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
}

#[cfg(feature = "processors")]
fn keys<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Key>, D::Error> {
    crate::parse::evidence::bounded_list(deserializer, MAX_KEYS)
}

const HEADER: usize = 32;
const DATA: usize = HEADER + SnpReport::SIZE;
const SNP: u32 = 2;
const TDX: u32 = 4;
const SHA_256: u32 = 1;
/// There are two today.
#[cfg(feature = "processors")]
const MAX_KEYS: usize = 8;

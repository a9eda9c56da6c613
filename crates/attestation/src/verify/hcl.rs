//! The attestation key of the TPM of Azure's paravisor, by the claims that the paravisor's report is over.

use latchkey_tpm::wire::Public;
use ring::digest::{SHA256, digest};

use crate::parse::hcl_attestation_key;
use crate::refusal::{ReasonCode, Refusal};

/// Checks that claims name this attestation key. A JWK has modulus and exponent alone: attributes beside them are the machine's word, as
/// with certified keys; whose key it is, the paravisor says, and it makes one that signs nothing but what its TPM made.
pub(super) fn check_claims(claims: &[u8], ak: &Public) -> Result<(), Refusal> {
    if hcl_attestation_key(claims)? == ak.key {
        return Ok(());
    }
    let detail = "the key that quotes is not HCLAkPub of the paravisor's claims";
    Err(Refusal::new(ReasonCode::SnpHclClaimsOfAnotherKey, detail))
}

/// What a report over claims has as its data.
pub(super) fn claims_report_data(claims: &[u8]) -> [u8; 64] {
    let mut data = [0; 64];
    data[..32].copy_from_slice(digest(&SHA256, claims).as_ref());
    data
}

/// The same refusal in words of claims: such a report is of no session.
pub(super) fn of_claims(refusal: Refusal) -> Refusal {
    match refusal.code() {
        ReasonCode::SnpReportDataMismatch => {
            Refusal::new(ReasonCode::SnpHclClaimsMismatch, "REPORT_DATA is not that of these claims")
        }
        _ => refusal,
    }
}

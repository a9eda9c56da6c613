//! The attestation key: a signature by it must mean "my TPM says so".

use latchkey_tpm::wire::{Attributes, Curve, HashAlg, KeyScheme, Public, PublicKey, Symmetric, WireError};

use crate::policy::{AkAlgorithm, Policy};
use crate::refusal::{ReasonCode, Refusal};

/// Reads the AK and checks that only the TPM decides what it signs, that it cannot leave its TPM, and that the policy
/// accepts its algorithm.
pub(super) fn parse(policy: &Policy, tpmt_public: &[u8]) -> Result<Public, Refusal> {
    let malformed = |error: WireError| Refusal::new(ReasonCode::AkMalformed, error.to_string());
    let public = Public::parse(tpmt_public).map_err(malformed)?;
    check_attributes(public.attributes)?;
    match algorithm(&public) {
        Some(algorithm) if policy.ak_algorithms.contains(&algorithm) => Ok(public),
        Some(algorithm) => Err(refused(format!("the policy does not list {algorithm:?}"))),
        None => Err(refused(format!("{:?} with another key or cipher than it must have", public.scheme))),
    }
}

/// A restricted key signs only digests that its TPM made itself, and none of outside data that looks like an attestation
/// (TPM 2.0 Library Part 1, section on restricted keys). The other attributes keep the key in the TPM that activates the
/// credential.
fn check_attributes(attributes: Attributes) -> Result<(), Refusal> {
    let demands = [
        (Attributes::RESTRICTED, ReasonCode::AkNotRestricted, "restricted"),
        (Attributes::SIGN, ReasonCode::AkNotSigning, "sign"),
        (Attributes::FIXED_TPM, ReasonCode::AkNotFixedTpm, "fixedTPM"),
        (Attributes::FIXED_PARENT, ReasonCode::AkNotFixedParent, "fixedParent"),
        (Attributes::SENSITIVE_DATA_ORIGIN, ReasonCode::AkImported, "sensitiveDataOrigin"),
    ];
    for (attribute, code, name) in demands {
        if !attributes.contains(attribute) {
            return Err(Refusal::new(code, format!("attribute `{name}` is not set")));
        }
    }
    if attributes.contains(Attributes::DECRYPT) {
        return Err(Refusal::new(ReasonCode::AkMayDecrypt, "attribute `decrypt` is set"));
    }
    if attributes.contains(Attributes::X509_SIGN) {
        return Err(Refusal::new(ReasonCode::AkMaySignCertificates, "attribute `x509sign` is set"));
    }
    Ok(())
}

fn algorithm(public: &Public) -> Option<AkAlgorithm> {
    if public.symmetric != Symmetric::Null {
        return None;
    }
    match (&public.key, public.scheme) {
        (PublicKey::Ecc { curve: Curve::P256, .. }, KeyScheme::Ecdsa(HashAlg::Sha256)) => {
            Some(AkAlgorithm::EcdsaP256Sha256)
        }
        (PublicKey::Rsa { bits: 2048, .. }, KeyScheme::RsaSsa(HashAlg::Sha256)) => Some(AkAlgorithm::Rsassa2048Sha256),
        _ => None,
    }
}

fn refused(detail: String) -> Refusal {
    Refusal::new(ReasonCode::AkAlgorithmRefused, detail)
}

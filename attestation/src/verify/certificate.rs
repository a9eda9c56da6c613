//! The endorsement key's certificate: TCG EK Credential Profile for TPM Family 2.0, section 3.

use latchkey_tpm::wire::{Public, PublicKey};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use std::time::Duration;
use webpki::{EndEntityCert, Error, KeyUsage};

use crate::parse::{AttesterIdentity, Digest};
use crate::policy::EkChain;
use crate::refusal::{ReasonCode, Refusal};
use crate::spki::public_key;

/// Checks that the identity's certificate is for `ek`, is an EK certificate, and chains to a root of the policy at
/// `now`. Returns the digest of that root.
pub(super) fn check(chain: &EkChain, ek: &Public, identity: &AttesterIdentity, now: u64) -> Result<Digest, Refusal> {
    let missing = || Refusal::new(ReasonCode::EkCertificateMissing, "the policy demands an EK certificate");
    let der = CertificateDer::from(identity.ek_certificate().ok_or_else(missing)?);
    let certificate = EndEntityCert::try_from(&der).map_err(|error| refuse(&error))?;
    if !is_for(&certificate, ek) {
        let detail = "the certificate's public key is not the endorsement key shown";
        return Err(Refusal::new(ReasonCode::EkCertificateOfAnotherTpm, detail));
    }
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    check_purpose(&certificate, now)?;
    check_chain(chain, &certificate, identity, now)
}

/// The certificate must carry the EK purpose itself. Path building would demand it of the issuers too, which do not
/// have it; so it is asked without anchors, where the only good outcome is that no issuer is found.
fn check_purpose(certificate: &EndEntityCert<'_>, now: UnixTime) -> Result<(), Refusal> {
    let alone = certificate.verify_for_usage(ALGORITHMS, &[], &[], now, KeyUsage::required(EK_CERTIFICATE), None, None);
    match alone {
        Err(Error::UnknownIssuer) => Ok(()),
        Err(error) => Err(refuse(&error)),
        Ok(_) => Err(Refusal::new(ReasonCode::VerifierFault, "a certificate verified without a root")),
    }
}

fn check_chain(
    chain: &EkChain,
    certificate: &EndEntityCert<'_>,
    identity: &AttesterIdentity,
    now: UnixTime,
) -> Result<Digest, Refusal> {
    let sent = identity.ek_intermediates().map(CertificateDer::from);
    let intermediates: Vec<_> = sent.chain(chain.intermediates.iter().cloned()).collect();
    let usage = KeyUsage::required_if_present(EK_CERTIFICATE);
    let path = certificate
        .verify_for_usage(ALGORITHMS, &chain.anchors, &intermediates, now, usage, None, None)
        .map_err(|error| refuse(&error))?;
    root_digest(chain, path.anchor())
}

fn root_digest(chain: &EkChain, anchor: &TrustAnchor<'_>) -> Result<Digest, Refusal> {
    let found = chain.anchors.iter().zip(&chain.root_digests).find(|(candidate, _)| *candidate == anchor);
    let lost = || Refusal::new(ReasonCode::VerifierFault, "the chain ends in a root that the policy does not have");
    found.map(|(_, digest)| *digest).ok_or_else(lost)
}

fn is_for(certificate: &EndEntityCert<'_>, ek: &Public) -> bool {
    match (public_key(&certificate.subject_public_key_info()), &ek.key) {
        (Some(PublicKey::Rsa { modulus: certified, .. }), PublicKey::Rsa { bits: 2048, modulus, .. }) => {
            certified == *modulus
        }
        (Some(PublicKey::Ecc { curve: certified, point: at }), PublicKey::Ecc { curve, point }) => {
            certified == *curve && at.uncompressed(*curve).is_some_and(|key| Some(key) == point.uncompressed(*curve))
        }
        _ => false,
    }
}

fn refuse(error: &Error) -> Refusal {
    let code = match error {
        Error::CertExpired { .. } => ReasonCode::EkCertificateExpired,
        Error::CertNotValidYet { .. } => ReasonCode::EkCertificateNotYetValid,
        Error::UnknownIssuer => ReasonCode::EkCertificateUntrusted,
        Error::RequiredEkuNotFoundContext(_) | Error::EmptyEkuExtension => ReasonCode::EkCertificateNotForEk,
        Error::InvalidSignatureForPublicKey => ReasonCode::EkCertificateBadSignature,
        Error::BadDer
        | Error::BadDerTime
        | Error::TrailingData(_)
        | Error::UnsupportedCertVersion
        | Error::InvalidSerialNumber
        | Error::MalformedExtensions
        | Error::ExtensionValueInvalid => ReasonCode::EkCertificateMalformed,
        _ => ReasonCode::EkCertificateChainInvalid,
    };
    Refusal::new(code, error.to_string())
}

/// EK Credential Profile, section 3.2.16 (extended key usage): "tcg-kp-EKCertificate … 2.23.133.8.1", as DER content.
const EK_CERTIFICATE: &[u8] = &[0x67, 0x81, 0x05, 0x08, 0x01];

/// SHA-1 and RSA below 2048 bits are not among them.
const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    webpki::ring::ECDSA_P256_SHA256,
    webpki::ring::ECDSA_P256_SHA384,
    webpki::ring::ECDSA_P384_SHA256,
    webpki::ring::ECDSA_P384_SHA384,
    webpki::ring::RSA_PKCS1_2048_8192_SHA256,
    webpki::ring::RSA_PKCS1_2048_8192_SHA384,
    webpki::ring::RSA_PKCS1_2048_8192_SHA512,
    webpki::ring::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    webpki::ring::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    webpki::ring::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
];

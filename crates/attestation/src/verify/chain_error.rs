//! Why a chain of certificates does not hold, in words of the field: webpki's own are names of its variants.

use webpki::Error;

use crate::reference::format_rfc3339;

pub(crate) fn words(error: &Error) -> String {
    let fixed = match error {
        Error::CertExpired { not_after, .. } => {
            return format!("a certificate ended at {}", format_rfc3339(not_after.as_secs()));
        }
        Error::CertNotValidYet { not_before, .. } => {
            return format!("a certificate is valid from {} on", format_rfc3339(not_before.as_secs()));
        }
        Error::CrlExpired { next_update, .. } => {
            return format!("a list of revoked certificates ended at {}", format_rfc3339(next_update.as_secs()));
        }
        Error::UnknownIssuer => "no certificate at hand is its issuer's, or leads to a root that is trusted",
        Error::RequiredEkuNotFoundContext(_) | Error::EmptyEkuExtension => {
            "the extended key usage does not name what the certificate is shown for"
        }
        Error::InvalidSignatureForPublicKey => "a signature is not by the key of the issuer",
        Error::UnsupportedSignatureAlgorithmContext(_)
        | Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_)
        | Error::SignatureAlgorithmMismatch => {
            "a certificate is signed by an algorithm that is not taken (SHA-1, RSA below 2048 bits, an unknown curve)"
        }
        Error::UnsupportedCriticalExtension => "a certificate has a critical extension that nobody here understands",
        Error::CaUsedAsEndEntity => "the certificate is an authority's, and not one of a key",
        Error::EndEntityUsedAsCa => "the issuer's certificate is not an authority's",
        Error::PathLenConstraintViolated => "more authorities stand in the chain than one of them allows",
        Error::NameConstraintViolation => "an authority may not certify such names",
        Error::CertRevoked => "its issuer revoked a certificate of the chain",
        Error::UnknownRevocationStatus => "of one issuer there is no list of what it revoked",
        Error::IssuerNotCrlSigner => "the issuer may not sign lists of what it revoked (key usage)",
        Error::InvalidCrlSignatureForPublicKey => "a list of revoked certificates is not signed by the issuer's key",
        Error::UnsupportedCrlSignatureAlgorithmContext(_)
        | Error::UnsupportedCrlSignatureAlgorithmForPublicKeyContext(_) => {
            "a list of revoked certificates is signed by an algorithm that is not taken"
        }
        Error::InvalidCertValidity => "a certificate ends before it begins",
        Error::MaximumPathDepthExceeded
        | Error::MaximumPathBuildCallsExceeded
        | Error::MaximumSignatureChecksExceeded
        | Error::MaximumNameConstraintComparisonsExceeded => "the chain takes more steps than are tried",
        Error::UnsupportedCertVersion => "a certificate is not of version 3",
        Error::TrailingData(_) => "bytes follow where the encoding ends",
        Error::BadDer
        | Error::BadDerTime
        | Error::InvalidSerialNumber
        | Error::MalformedExtensions
        | Error::ExtensionValueInvalid => "it is not encoded as X.509 has it (DER)",
        _ => "a certificate or list breaks a rule of X.509",
    };
    fixed.to_owned()
}

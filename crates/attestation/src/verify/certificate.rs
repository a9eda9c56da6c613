//! Certificates of endorsement keys (TCG EK Credential Profile for TPM Family 2.0, section 3) and of attestation keys (TCG Credential
//! Profile for attestation keys; clouds issue theirs to TPMs of their hosts).

use std::time::Duration;

use latchkey_tpm::wire::{Public, PublicKey};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use webpki::{
    EndEntityCert, Error, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage,
    RequiredEkuNotFoundContext,
};

use crate::parse::{AttesterIdentity, Digest};
use crate::policy::{AkChain, AkPurpose, Chain, TpmRevocations};
use crate::refusal::{ReasonCode, Refusal};
use crate::spki::public_key;
use crate::verify::certificate_policies::Shown;
use crate::verify::chain_words;
use crate::verify::der::extension;

/// Checks that the identity's certificate is for `ek`, is an EK certificate, and chains to a root of the policy at
/// `now`. Returns the digest of that root.
pub(super) fn check_ek(
    chain: &Chain,
    ek: &Public,
    identity: &AttesterIdentity,
    revoked: &TpmRevocations,
    now: u64,
) -> Result<Digest, Refusal> {
    let missing = || Refusal::new(EK.missing, "the policy demands an EK certificate");
    let der = CertificateDer::from(identity.ek_certificate().ok_or_else(missing)?);
    let intermediates: Vec<_> = identity.ek_intermediates().map(CertificateDer::from).collect();
    let own = Purposes { any_of: &[EK_CERTIFICATE], demanded: true };
    EK.check(chain, &der, ek, own, (intermediates, revoked), now)
}

/// The same of `ak`. A certificate of an attestation key is its authority's word that it signs nothing but what a TPM made: the
/// attributes beside the key are the attester's word. Only the policy's intermediates are taken: no cloud leaves one in a TPM.
pub(super) fn check_ak(
    rule: &AkChain,
    ak: &Public,
    identity: &AttesterIdentity,
    revoked: &TpmRevocations,
    now: u64,
) -> Result<Digest, Refusal> {
    let missing = || Refusal::new(AK.missing, "the policy demands a certificate of the attestation key");
    let der = CertificateDer::from(identity.ak_certificate().ok_or_else(missing)?);
    let own = match (rule.purpose, extension(&der, KEY_USAGE)) {
        (_, Some(usage)) if usage != DIGITAL_SIGNATURE => {
            return Err(Refusal::new(AK.purpose, "its key usage is not digitalSignature alone"));
        }
        (AkPurpose::Demanded, _) => Purposes { any_of: &[AK_CERTIFICATE], demanded: true },
        (AkPurpose::IfThere, Some(_)) => Purposes { any_of: AK.of_issuers, demanded: false },
        (AkPurpose::IfThere, None) => Purposes { any_of: &[AK_CERTIFICATE], demanded: false },
    };
    AK.check(&rule.chain, &der, ak, own, (Vec::new(), revoked), now)
}

/// What certificates of one kind of key are refused with.
struct Kind {
    name: &'static str,
    purpose_name: &'static str,
    /// The purposes that authorities above it may have.
    of_issuers: &'static [&'static [u8]],
    missing: ReasonCode,
    of_another: ReasonCode,
    expired: ReasonCode,
    not_yet_valid: ReasonCode,
    untrusted: ReasonCode,
    purpose: ReasonCode,
    bad_signature: ReasonCode,
    malformed: ReasonCode,
    chain_invalid: ReasonCode,
    revoked: ReasonCode,
}

const EK: Kind = Kind {
    name: "endorsement key",
    purpose_name: "tcg-kp-EKCertificate (2.23.133.8.1)",
    of_issuers: &[EK_CERTIFICATE],
    missing: ReasonCode::EkCertificateMissing,
    of_another: ReasonCode::EkCertificateOfAnotherTpm,
    expired: ReasonCode::EkCertificateExpired,
    not_yet_valid: ReasonCode::EkCertificateNotYetValid,
    untrusted: ReasonCode::EkCertificateUntrusted,
    purpose: ReasonCode::EkCertificateNotForEk,
    bad_signature: ReasonCode::EkCertificateBadSignature,
    malformed: ReasonCode::EkCertificateMalformed,
    chain_invalid: ReasonCode::EkCertificateChainInvalid,
    revoked: ReasonCode::EkCertificateRevoked,
};

const AK: Kind = Kind {
    name: "attestation key",
    purpose_name: "tcg-kp-AIKCertificate (2.23.133.8.3)",
    // Google's authorities for both kinds of keys say that they are ones for endorsement keys.
    of_issuers: &[AK_CERTIFICATE, EK_CERTIFICATE],
    missing: ReasonCode::AkCertificateMissing,
    of_another: ReasonCode::AkCertificateOfAnotherKey,
    expired: ReasonCode::AkCertificateExpired,
    not_yet_valid: ReasonCode::AkCertificateNotYetValid,
    untrusted: ReasonCode::AkCertificateUntrusted,
    purpose: ReasonCode::AkCertificateNotForAk,
    bad_signature: ReasonCode::AkCertificateBadSignature,
    malformed: ReasonCode::AkCertificateMalformed,
    chain_invalid: ReasonCode::AkCertificateChainInvalid,
    revoked: ReasonCode::AkCertificateRevoked,
};

impl Kind {
    fn check(
        &self,
        chain: &Chain,
        der: &CertificateDer<'_>,
        key: &Public,
        own: Purposes,
        (mut intermediates, revoked): (Vec<CertificateDer<'_>>, &TpmRevocations),
        now: u64,
    ) -> Result<Digest, Refusal> {
        intermediates.extend(chain.intermediates.iter().cloned());
        let shown = Shown::new(std::iter::once(der.clone()).chain(intermediates));
        let Some((leaf, intermediates)) = shown.certificates.split_first() else {
            return Err(Refusal::new(ReasonCode::VerifierFault, "a certificate was lost"));
        };
        let certificate = EndEntityCert::try_from(leaf).map_err(|error| self.refuse(&error))?;
        if !is_for(&certificate, key) {
            let detail = format!("the certificate's public key is not the {} shown", self.name);
            return Err(Refusal::new(self.of_another, detail));
        }
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        self.check_purpose(&certificate, own, now)?;
        let issuers = Purposes { any_of: self.of_issuers, demanded: false };
        let anchors = &chain.anchors;
        let algorithms = shown.algorithms(ALGORITHMS);
        let algorithms: Vec<_> = algorithms.iter().map(|it| it as &dyn SignatureVerificationAlgorithm).collect();
        let root = revoked.with_options(chain.revocation_list, |lists| {
            let path = certificate.verify_for_usage(&algorithms, anchors, intermediates, now, issuers, lists, None)?;
            Ok(root_digest(chain, path.anchor()))
        });
        root.map_err(|error| self.refuse(&error))?
    }

    /// The certificate must carry the purpose itself. Path building would demand it of the issuers too, which do not
    /// have it; so it is asked without anchors, where the only good outcome is that no issuer is found.
    fn check_purpose(&self, certificate: &EndEntityCert<'_>, own: Purposes, now: UnixTime) -> Result<(), Refusal> {
        match certificate.verify_for_usage(ALGORITHMS, &[], &[], now, own, None, None) {
            Err(Error::UnknownIssuer) => Ok(()),
            Err(error) => Err(self.refuse(&error)),
            Ok(_) => Err(Refusal::new(ReasonCode::VerifierFault, "a certificate verified without a root")),
        }
    }

    fn refuse(&self, error: &Error) -> Refusal {
        let code = match error {
            Error::CertExpired { .. } => self.expired,
            Error::CertNotValidYet { .. } => self.not_yet_valid,
            Error::UnknownIssuer => self.untrusted,
            Error::RequiredEkuNotFoundContext(_) | Error::EmptyEkuExtension => self.purpose,
            Error::InvalidSignatureForPublicKey => self.bad_signature,
            Error::CertRevoked => self.revoked,
            Error::UnknownRevocationStatus => ReasonCode::TpmRevocationListMissing,
            Error::CrlExpired { .. } => ReasonCode::TpmRevocationListExpired,
            Error::InvalidCrlSignatureForPublicKey
            | Error::IssuerNotCrlSigner
            | Error::UnsupportedCrlSignatureAlgorithmContext(_)
            | Error::UnsupportedCrlSignatureAlgorithmForPublicKeyContext(_) => ReasonCode::TpmRevocationListInvalid,
            Error::BadDer
            | Error::BadDerTime
            | Error::TrailingData(_)
            | Error::UnsupportedCertVersion
            | Error::InvalidSerialNumber
            | Error::MalformedExtensions
            | Error::ExtensionValueInvalid => self.malformed,
            _ => self.chain_invalid,
        };
        let detail = match error {
            Error::RequiredEkuNotFoundContext(_) | Error::EmptyEkuExtension => {
                format!("its extended key usage does not name {}", self.purpose_name)
            }
            error => chain_words(error),
        };
        Refusal::new(code, detail)
    }
}

/// What a certificate may be for: one of these, or, where that is not demanded, nothing in particular.
struct Purposes {
    any_of: &'static [&'static [u8]],
    demanded: bool,
}

impl ExtendedKeyUsageValidator for Purposes {
    fn validate(&self, present: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let mut others = Vec::new();
        for purpose in present {
            let purpose = purpose?;
            if self.any_of.iter().any(|allowed| KeyPurposeId::new(allowed) == purpose) {
                return Ok(());
            }
            others.push(purpose.to_decoded_oid());
        }
        match self.any_of.first() {
            Some(wanted) if self.demanded || !others.is_empty() => {
                let (required, present) = (KeyUsage::required(wanted), others);
                Err(Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext { required, present }))
            }
            _ => Ok(()),
        }
    }
}

fn root_digest(chain: &Chain, anchor: &TrustAnchor<'_>) -> Result<Digest, Refusal> {
    let found = chain.anchors.iter().zip(&chain.root_digests).find(|(candidate, _)| *candidate == anchor);
    let lost = || Refusal::new(ReasonCode::VerifierFault, "the chain ends in a root that the policy does not have");
    found.map(|(_, digest)| *digest).ok_or_else(lost)
}

fn is_for(certificate: &EndEntityCert<'_>, key: &Public) -> bool {
    match (public_key(&certificate.subject_public_key_info()), &key.key) {
        (Some(PublicKey::Rsa { modulus: certified, .. }), PublicKey::Rsa { modulus, .. }) => certified == *modulus,
        (Some(PublicKey::Ecc { curve: certified, point: at }), PublicKey::Ecc { curve, point }) => {
            certified == *curve && at.uncompressed(*curve).is_some_and(|key| Some(key) == point.uncompressed(*curve))
        }
        _ => false,
    }
}

/// What a certificate's key may do (RFC 5280, section 4.2.1.3). An endorsement key deciphers or agrees on keys; one that signs and does
/// nothing else is an attestation key's, whatever the certificate calls itself: Google's of 2021 have the purpose of an endorsement key's.
///
/// 2.5.29.15.
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
/// `digitalSignature`: a BIT STRING with bit 0 alone.
const DIGITAL_SIGNATURE: &[u8] = &[0x03, 0x02, 0x07, 0x80];
/// EK Credential Profile, section 3.2.16 (extended key usage): "tcg-kp-EKCertificate … 2.23.133.8.1", as DER content.
const EK_CERTIFICATE: &[u8] = &[0x67, 0x81, 0x05, 0x08, 0x01];
/// The same registry: "tcg-kp-AIKCertificate … 2.23.133.8.3".
const AK_CERTIFICATE: &[u8] = &[0x67, 0x81, 0x05, 0x08, 0x03];

/// SHA-1 and RSA below 2048 bits are not among them.
pub(super) const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    webpki::ring::ECDSA_P256_SHA256,
    webpki::ring::ECDSA_P256_SHA384,
    webpki::ring::ECDSA_P384_SHA256,
    webpki::ring::ECDSA_P384_SHA384,
    // ring does not have these.
    #[cfg(feature = "rsa-ek")]
    webpki::aws_lc_rs::ECDSA_P256_SHA512,
    #[cfg(feature = "rsa-ek")]
    webpki::aws_lc_rs::ECDSA_P384_SHA512,
    #[cfg(feature = "rsa-ek")]
    webpki::aws_lc_rs::ECDSA_P521_SHA256,
    #[cfg(feature = "rsa-ek")]
    webpki::aws_lc_rs::ECDSA_P521_SHA384,
    #[cfg(feature = "rsa-ek")]
    webpki::aws_lc_rs::ECDSA_P521_SHA512,
    webpki::ring::RSA_PKCS1_2048_8192_SHA256,
    webpki::ring::RSA_PKCS1_2048_8192_SHA384,
    webpki::ring::RSA_PKCS1_2048_8192_SHA512,
    webpki::ring::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    webpki::ring::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    webpki::ring::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
];

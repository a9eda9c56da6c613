//! A chain to one of AMD's roots: ARK, then ASK (which issues VCEKs) or ASVK (which issues VLEKs), and what AMD revoked.

use std::sync::OnceLock;
use std::time::Duration;

use aws_lc_rs::signature::{RSA_PSS_2048_8192_SHA384, UnparsedPublicKey};
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, TrustAnchor, UnixTime,
    alg_id,
};
use webpki::{
    CertRevocationList, EndEntityCert, Error, ExpirationPolicy, KeyUsage, RevocationCheckDepth,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use super::certificate::SnpCertificate;
use crate::parse::{SigningKey, SnpProduct};
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::chain_words;
use crate::verify::published::{Validity, is_signed};

/// What the collateral has of one product's authority.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) product: SnpProduct,
    pub(super) ark: TrustAnchor<'static>,
    pub(super) ask: Option<Issuer>,
    pub(super) asvk: Option<Issuer>,
    pub(super) revocations: Option<Revocations>,
}

/// An authority below the root.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) der: CertificateDer<'static>,
    pub(super) validity: Validity,
    /// What it issued is verified by this, while it is known to hold.
    pub(super) anchor: TrustAnchor<'static>,
    /// How long root and list vouch for it, once they were asked.
    pub(super) held: OnceLock<Validity>,
}

/// What the root revoked.
#[derive(Debug)]
pub(super) struct Revocations {
    pub(super) list: CertRevocationList<'static>,
    /// `thisUpdate` to `nextUpdate`.
    pub(super) validity: Validity,
}

impl Authority {
    /// Checks that it issued this certificate, by the authority for its kind, and revoked nothing of the chain. Returns how long
    /// that holds.
    pub(super) fn check(&self, certificate: &SnpCertificate, now: u64) -> Result<Validity, Refusal> {
        let kind = certificate.kind();
        let (name, issuer) = match kind {
            SigningKey::Vcek => ("ASK", &self.ask),
            SigningKey::Vlek => ("ASVK", &self.asvk),
        };
        let issuer = issuer.as_ref().ok_or_else(|| {
            let detail = format!("the collateral has no {name} of {}", self.product);
            Refusal::new(ReasonCode::SnpCertificateUntrusted, detail)
        })?;
        let der = CertificateDer::from(certificate.der());
        let leaf = EndEntityCert::try_from(&der).map_err(|error| refuse(&error, kind))?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let usage = KeyUsage::client_auth();
        if let Some(held) = issuer.held.get().filter(|held| held.contains(now)) {
            let anchors = std::slice::from_ref(&issuer.anchor);
            leaf.verify_for_usage(ALGORITHMS, anchors, &[], at, usage, None, None)
                .map_err(|error| refuse(&error, kind))?;
            return Ok(held.and(certificate.validity()));
        }
        let lists: Vec<_> = self.revocations.iter().map(|revocations| &revocations.list).collect();
        // The root's list has the issuers; of the keys of chips and providers there is none. Without a list there is nothing to
        // look into: the caller decided that this may be.
        let options = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Allow)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let anchors = std::slice::from_ref(&self.ark);
        let issuers = std::slice::from_ref(&issuer.der);
        let path = leaf
            .verify_for_usage(ALGORITHMS, anchors, issuers, at, usage, options, None)
            .map_err(|error| refuse(&error, kind))?;
        // A list counts until its next one, and not at that moment.
        let of_list = self.revocations.iter().map(|Revocations { validity: Validity { from, to }, .. }| (*from, *to));
        let of_list = of_list.map(|(from, to)| Validity { from, to: to.saturating_sub(1) });
        let held = of_list.fold(issuer.validity, Validity::and);
        // What the root itself had signed would say nothing of the issuer.
        if path.intermediate_certificates().any(|certificate| certificate.der() == issuer.der) {
            issuer.held.get_or_init(|| held);
        }
        Ok(held.and(certificate.validity()))
    }

    /// Whether the root signed this certificate or list, and is named as its issuer.
    pub(super) fn signed(&self, der: &[u8]) -> bool {
        is_signed(der, &self.ark, ALGORITHMS)
    }

    /// Checks that the list does not have this certificate of an authority.
    pub(super) fn check_not_revoked(&self, der: &[u8], name: &str) -> Result<(), Refusal> {
        let Some(revocations) = &self.revocations else { return Ok(()) };
        let certificate = Certificate::from_der(der)
            .map_err(|error| Refusal::new(ReasonCode::CollateralMalformed, format!("{name}: {error}")))?;
        match revocations.list.find_serial(certificate.tbs_certificate().serial_number().as_bytes()) {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(Refusal::new(ReasonCode::SnpCertificateRevoked, format!("{name} is on the list"))),
            Err(error) => Err(Refusal::new(
                ReasonCode::CollateralMalformed,
                format!("the list of {name}: {}", chain_words(&error)),
            )),
        }
    }
}

fn refuse(error: &Error, kind: SigningKey) -> Refusal {
    let code = match error {
        Error::CertExpired { .. } => ReasonCode::SnpCertificateExpired,
        Error::CertNotValidYet { .. } => ReasonCode::SnpCertificateNotYetValid,
        Error::CertRevoked => ReasonCode::SnpCertificateRevoked,
        Error::CrlExpired { .. } => ReasonCode::SnpRevocationListExpired,
        Error::InvalidCrlSignatureForPublicKey => ReasonCode::CollateralMalformed,
        Error::BadDer
        | Error::BadDerTime
        | Error::TrailingData(_)
        | Error::UnsupportedCertVersion
        | Error::MalformedExtensions
        | Error::ExtensionValueInvalid => ReasonCode::SnpCertificateMalformed,
        _ => ReasonCode::SnpCertificateUntrusted,
    };
    Refusal::new(code, format!("the chain of the {}: {}", kind.name(), chain_words(error)))
}

/// How AMD's certificates and lists are signed, and nothing else.
const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[&AmdPss(PSS_AMD), &AmdPss(alg_id::RSA_PSS_SHA384)];

/// RSASSA-PSS with SHA-384 and 48 bytes of salt. AMD writes the parameters with `trailerField 1`, which is the default and
/// therefore absent in DER; a list of algorithms compares bytes.
#[derive(Debug)]
struct AmdPss(AlgorithmIdentifier);

impl SignatureVerificationAlgorithm for AmdPss {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA384, key).verify(message, signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.0
    }
}

/// RFC 4055, section 3.1, as AMD encodes it: id-RSASSA-PSS; SHA-384, MGF1 with SHA-384, salt of 48 bytes, trailer 1.
const PSS_AMD: AlgorithmIdentifier = AlgorithmIdentifier::from_slice(&[
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a, 0x30, 0x39, 0xa0, 0x0f, 0x30, 0x0d, 0x06, 0x09,
    0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0xa1, 0x1c, 0x30, 0x1a, 0x06, 0x09, 0x2a, 0x86,
    0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02,
    0x02, 0x05, 0x00, 0xa2, 0x03, 0x02, 0x01, 0x30, 0xa3, 0x03, 0x02, 0x01, 0x01,
]);

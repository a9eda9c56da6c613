//! What vendors of processors publish for verifiers, as files: certificates, and lists of revoked ones. Nothing of it is asked for while
//! a machine waits.

use latchkey_pem::PemSection;
use rustls_pki_types::{SignatureVerificationAlgorithm, TrustAnchor};
use x509_cert::Certificate;
use x509_cert::crl::CertificateList;
use x509_cert::der::asn1::{AnyRef, BitStringRef, ObjectIdentifier};
use x509_cert::der::{self, Decode as _, Encode as _, Reader as _, SliceReader};

use crate::parse::Digest;
use crate::refusal::{ReasonCode, Refusal};

/// A file of the collateral, and the name by which a refusal tells of it.
#[derive(Debug, Clone, Copy)]
pub struct CollateralFile<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its content: PEM (certificates and lists, any number), the DER of one, or what else its vendor publishes.
    pub content: &'a [u8],
}

impl CollateralFile<'_> {
    pub(super) fn malformed(&self, why: impl std::fmt::Display) -> Refusal {
        malformed(self.name, why)
    }
}

/// From when to when, in seconds since the Unix epoch, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// `notBefore`, `thisUpdate` or `issueDate`.
    pub from: u64,
    /// `notAfter` or `nextUpdate`.
    pub to: u64,
}

impl Validity {
    pub(crate) fn contains(self, now: u64) -> bool {
        (self.from..=self.to).contains(&now)
    }

    /// When both hold.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { from: self.from.max(other.from), to: self.to.min(other.to) }
    }

    pub(crate) fn of_certificate(certificate: &Certificate) -> Self {
        let validity = certificate.tbs_certificate().validity();
        let (from, to) = (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration());
        Self { from: from.as_secs(), to: to.as_secs() }
    }

    /// `None`: it does not say when the next one comes.
    pub(crate) fn of_list(list: &CertificateList) -> Option<Self> {
        let fields = &list.tbs_cert_list;
        let (from, to) = (fields.this_update.to_unix_duration(), fields.next_update?.to_unix_duration());
        Some(Self { from: from.as_secs(), to: to.as_secs() })
    }
}

/// One certificate or list of a file.
pub(super) struct Piece {
    pub(super) der: Vec<u8>,
    pub(super) what: PieceKind,
}

pub(super) enum PieceKind {
    Certificate(Box<Certificate>),
    List(Box<CertificateList>),
}

impl Piece {
    /// The common name of whose certificate it is, or whose list.
    pub(super) fn common_name(&self) -> Option<String> {
        let name = match &self.what {
            PieceKind::Certificate(certificate) => certificate.tbs_certificate().subject().to_der(),
            PieceKind::List(list) => list.tbs_cert_list.issuer.to_der(),
        };
        common_name(&name.unwrap_or_default())
    }
}

/// The certificates and lists of a file.
pub(super) fn pieces(file: &CollateralFile<'_>) -> Result<Vec<Piece>, Refusal> {
    let CollateralFile { content, .. } = *file;
    if content.len() > MAX_FILE {
        return Err(file.malformed(format!("{} bytes, at most {MAX_FILE}", content.len())));
    }
    if !PemSection::is_in(content) {
        return Ok(vec![piece(file, content.to_vec())?]);
    }
    let mut pieces = Vec::new();
    for section in PemSection::all(content).map_err(|error| file.malformed(error))? {
        if !matches!(section.label, "CERTIFICATE" | "X509 CRL") {
            let what = "something else than certificates and lists of revoked ones";
            return Err(file.malformed(format!("line {}: {what}", section.line)));
        }
        pieces.push(piece(file, section.der)?);
    }
    Ok(pieces)
}

fn piece(file: &CollateralFile<'_>, der: Vec<u8>) -> Result<Piece, Refusal> {
    let what = match (Certificate::from_der(&der), <CertificateList>::from_der(&der)) {
        (Ok(certificate), _) => PieceKind::Certificate(Box::new(certificate)),
        (_, Ok(list)) => PieceKind::List(Box::new(list)),
        _ => return Err(file.malformed("neither a certificate nor a list of revoked ones")),
    };
    Ok(Piece { der, what })
}

/// The common name of a distinguished name; `None` without one, or with several.
pub(crate) fn common_name(name: &[u8]) -> Option<String> {
    let name = x509_cert::name::RdnSequence::from_der(name).ok()?;
    let mut names =
        name.iter().flat_map(x509_cert::name::RelativeDistinguishedName::iter).filter(|value| value.oid == COMMON_NAME);
    let (first, second) = (names.next()?, names.next());
    second.is_none().then(|| String::from_utf8_lossy(first.value.value()).into_owned())
}

/// Whether an issuer signed this certificate or list by one of these algorithms, and is named as its issuer.
pub(super) fn is_signed(
    der: &[u8],
    issuer: &TrustAnchor<'_>,
    algorithms: &[&dyn SignatureVerificationAlgorithm],
) -> bool {
    let parts = || -> der::Result<bool> {
        // Certificates and lists are made alike (RFC 5280, sections 4.1 and 5.1): what is signed, how, and the signature.
        let mut parts = SliceReader::new(AnyRef::from_der(der)?.value())?;
        let fields = parts.tlv_bytes()?;
        let algorithm = AnyRef::from_der(parts.tlv_bytes()?)?;
        let signature = BitStringRef::decode(&mut parts)?;
        let mut key = SliceReader::new(&issuer.subject_public_key_info)?;
        let kind = AnyRef::from_der(key.tlv_bytes()?)?;
        let key = BitStringRef::decode(&mut key)?;
        let named = match (Certificate::from_der(der), <CertificateList>::from_der(der)) {
            (Ok(certificate), _) => certificate.tbs_certificate().issuer().to_der()?,
            (_, Ok(list)) => list.tbs_cert_list.issuer.to_der()?,
            (Err(error), _) => return Err(error),
        };
        // ECDSA with one hash is one algorithm for each curve.
        let known = algorithms.iter().find(|known| {
            known.signature_alg_id().as_ref() == algorithm.value() && known.public_key_alg_id().as_ref() == kind.value()
        });
        let (Some(key), Some(signature)) = (key.as_bytes(), signature.as_bytes()) else { return Ok(false) };
        let verified = known.is_some_and(|known| known.verify_signature(key, fields, signature).is_ok());
        Ok(verified && AnyRef::from_der(&named)?.value() == issuer.subject.as_ref())
    };
    parts().unwrap_or(false)
}

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    let mut digest = Digest::ZERO;
    digest.0.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    digest
}

pub(super) fn malformed(name: &str, why: impl std::fmt::Display) -> Refusal {
    Refusal::new(ReasonCode::CollateralMalformed, format!("{name}: {why}"))
}

/// Chains have 5 KiB, lists of revocations 1 to 100 KiB, TCB information 20 KiB.
pub(super) const MAX_FILE: usize = 1024 * 1024;
/// X.520: id-at-commonName.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

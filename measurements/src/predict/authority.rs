//! Which enrolled certificate admits a signed image: the firmware measures it (`EV_EFI_VARIABLE_AUTHORITY`).
//!
//! Nothing is verified here. Whether the signature is good, the firmware decides when it boots, and what it did not admit
//! measures nothing. What is refused here is what could not boot anyway, so that it is found out before.

use latchkey_attestation::Digest;
use latchkey_boot_formats::{Cursor, Guid, firmware_guid};

use super::PredictError;
use super::der::{CONTEXT_0, Der, INTEGER, OCTET_STRING, OID, SEQUENCE, SET};

/// The entry of `db` (`EFI_SIGNATURE_DATA`: owner, certificate) by which an image with these signatures is admitted.
///
/// # Errors
/// [`PredictError::Unsigned`], [`PredictError::NotAdmitted`], [`PredictError::Forbidden`],
/// [`PredictError::BadSignatureDatabase`].
pub(super) fn admitting<'a>(
    certificates: Option<&[u8]>,
    image: Digest,
    db: &'a [u8],
    dbx: &[u8],
) -> Result<&'a [u8], PredictError> {
    let signatures = signatures(certificates.ok_or(PredictError::Unsigned)?);
    let db = entries(db).ok_or(PredictError::BadSignatureDatabase("db"))?;
    let dbx = entries(dbx).ok_or(PredictError::BadSignatureDatabase("dbx"))?;
    let forbids = |entry: &Entry<'_>, certificate: &[u8]| match entry.kind {
        firmware_guid::CERT_SHA256 => entry.signed == image.as_bytes(),
        firmware_guid::CERT_X509 => entry.signed == certificate,
        _ => false,
    };
    for signature in signatures.iter().filter_map(|signature| Signature::parse(signature)) {
        if signature.image != image.as_bytes() {
            continue;
        }
        if dbx.iter().any(|entry| signature.chain.iter().any(|link| forbids(entry, link.whole))) {
            return Err(PredictError::Forbidden);
        }
        // The firmware takes the first that verifies, in the order of the database.
        let admits = |entry: &&Entry<'_>| entry.kind == firmware_guid::CERT_X509 && signature.leads_to(entry.signed);
        if let Some(entry) = db.iter().find(admits) {
            return Ok(entry.whole);
        }
    }
    Err(PredictError::NotAdmitted)
}

/// One entry of a signature database.
struct Entry<'a> {
    kind: Guid,
    /// `EFI_SIGNATURE_DATA`: the owner, then what is signed for.
    whole: &'a [u8],
    /// The certificate or hash.
    signed: &'a [u8],
}

/// The entries of `EFI_SIGNATURE_LIST`s (UEFI 2.10, section 32.4.1).
fn entries(database: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut fields = Cursor::new(database);
    let mut entries = Vec::new();
    while !fields.is_empty() {
        let kind = fields.guid()?;
        let list = usize::try_from(fields.u32()?).ok()?;
        let header = usize::try_from(fields.u32()?).ok()?;
        let each = usize::try_from(fields.u32()?).ok().filter(|&size| size > OWNER)?;
        let _header = fields.take(header)?;
        let list = fields.take(list.checked_sub(LIST_HEADER)?.checked_sub(header)?)?;
        if !list.len().is_multiple_of(each) {
            return None;
        }
        entries.extend(
            list.chunks_exact(each).filter_map(|whole| Some(Entry { kind, whole, signed: whole.get(OWNER..)? })),
        );
    }
    Some(entries)
}

/// The PKCS#7 signatures in an attribute certificate table (`WIN_CERTIFICATE`s, each on a multiple of eight bytes).
fn signatures(table: &[u8]) -> Vec<&[u8]> {
    let mut fields = Cursor::new(table);
    let mut found = Vec::new();
    while found.len() < MAX_SIGNATURES {
        let (Some(length), Some(_revision), Some(kind)) = (fields.u32(), fields.u16(), fields.u16()) else { break };
        let content = usize::try_from(length).ok().and_then(|length| length.checked_sub(8));
        let Some(content) = content.and_then(|length| fields.take(length)) else { break };
        if kind == PKCS_SIGNED_DATA {
            found.push(content);
        }
        fields.align(8);
    }
    found
}

/// What of an Authenticode signature says who signed what.
struct Signature<'a> {
    /// The hash of the image that was signed.
    image: &'a [u8],
    /// The signer's certificate first, each one issued by the next.
    chain: Vec<Certificate<'a>>,
}

#[derive(Clone, Copy)]
struct Certificate<'a> {
    whole: &'a [u8],
    serial: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
}

impl<'a> Signature<'a> {
    /// PKCS#7 `SignedData` over `SpcIndirectDataContent`; of several signers the first.
    fn parse(pkcs7: &'a [u8]) -> Option<Self> {
        let mut content_info = Der::new(pkcs7).expect(SEQUENCE)?.inside();
        let _signed_data = content_info.expect(OID)?;
        let mut content = content_info.expect(CONTEXT_0)?.inside().expect(SEQUENCE)?.inside();
        let (_version, _algorithms) = (content.expect(INTEGER)?, content.expect(SET)?);
        let image = image_digest(content.expect(SEQUENCE)?.inside())?;
        let embedded = certificates(content.optional(CONTEXT_0).map_or(Der::new(&[]), super::der::Element::inside));
        // Certificate revocation lists, if any, come before the signers.
        let mut signers = loop {
            let element = content.next()?;
            if element.tag == SET {
                break element.inside();
            }
        };
        let mut signer = signers.expect(SEQUENCE)?.inside();
        let _version = signer.expect(INTEGER)?;
        let mut id = signer.expect(SEQUENCE)?.inside();
        let (issuer, serial) = (id.expect(SEQUENCE)?.whole, id.expect(INTEGER)?.whole);
        let first = embedded.iter().find(|c| c.issuer == issuer && c.serial == serial)?;
        let mut chain = vec![*first];
        while let Some(last) = chain.last().filter(|_| chain.len() < MAX_CHAIN) {
            let parent = embedded.iter().find(|c| c.subject == last.issuer && c.whole != last.whole);
            let Some(parent) = parent.copied() else { break };
            chain.push(parent);
        }
        Some(Self { image, chain })
    }

    /// Whether the certificate is one of the chain, or the issuer of its end.
    fn leads_to(&self, certificate: &[u8]) -> bool {
        let Some(trusted) = Certificate::parse(certificate) else { return false };
        self.chain.iter().any(|link| link.whole == trusted.whole)
            || self.chain.last().is_some_and(|last| last.issuer == trusted.subject)
    }
}

/// `SpcIndirectDataContent`: what kind of thing was signed, and its digest.
fn image_digest(mut content_info: Der<'_>) -> Option<&[u8]> {
    let _indirect_data = content_info.expect(OID)?;
    let mut content = content_info.expect(CONTEXT_0)?.inside().expect(SEQUENCE)?.inside();
    let _data = content.expect(SEQUENCE)?;
    let mut digest = content.expect(SEQUENCE)?.inside();
    let _algorithm = digest.expect(SEQUENCE)?;
    Some(digest.expect(OCTET_STRING)?.content)
}

fn certificates(mut set: Der<'_>) -> Vec<Certificate<'_>> {
    let mut found = Vec::new();
    while let Some(element) = set.next().filter(|_| found.len() < MAX_CERTIFICATES) {
        found.extend(Certificate::parse(element.whole));
    }
    found
}

impl<'a> Certificate<'a> {
    /// RFC 5280, section 4.1.
    fn parse(der: &'a [u8]) -> Option<Self> {
        let certificate = Der::new(der).expect(SEQUENCE)?;
        let mut tbs = certificate.inside().expect(SEQUENCE)?.inside();
        let _version = tbs.optional(CONTEXT_0);
        let serial = tbs.expect(INTEGER)?.whole;
        let _algorithm = tbs.expect(SEQUENCE)?;
        let issuer = tbs.expect(SEQUENCE)?.whole;
        let _validity = tbs.expect(SEQUENCE)?;
        let subject = tbs.expect(SEQUENCE)?.whole;
        Some(Self { whole: certificate.whole, serial, issuer, subject })
    }
}

/// `WIN_CERT_TYPE_PKCS_SIGNED_DATA`
const PKCS_SIGNED_DATA: u16 = 0x0002;
/// `SignatureOwner`
const OWNER: usize = 16;
/// Bytes of an `EFI_SIGNATURE_LIST` before its own header.
const LIST_HEADER: usize = 28;
const MAX_SIGNATURES: usize = 16;
const MAX_CERTIFICATES: usize = 32;
const MAX_CHAIN: usize = 8;

//! Certificate requests (PKCS#10, RFC 2986), read as strictly as kubelets write them.
//!
//! The signer reads the same bytes with another parser, and what the two understand must be the same. So only one
//! form is taken: one block of PEM as Go writes it with nothing around it, DER that is the one encoding of what is
//! in it, a subject of two parts, and at most one extension.

use crate::refusal::CertificateRefusal as Refusal;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use x509_cert::der::asn1::{Any, ObjectIdentifier};
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Decode as _, DecodePem as _, Encode as _, EncodePem as _, Tag, Tagged as _};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::{GeneralName, GeneralNames};
use x509_cert::name::Name;
use x509_cert::request::{CertReq, CertReqInfo};

/// The longest request that is looked at. A kubelet's has some 500 bytes, and 100 for each address more.
pub const MAX_PEM: usize = 16 * 1024;
/// Names and addresses of one request.
pub const MAX_NAMES: usize = 64;

/// X.520: `id-at-commonName`.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// X.520: `id-at-organizationName`.
const ORGANISATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// RFC 2985 section 5.4.2: `pkcs-9-at-extensionRequest`.
const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
/// RFC 5280 section 4.2.1.6: `id-ce-subjectAltName`.
const ALTERNATIVE_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
/// RFC 5480 section 2.1.1: `id-ecPublicKey`.
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// RFC 5480 section 2.1.1.1: `secp256r1`.
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
/// RFC 5758 section 3.2: `ecdsa-with-SHA256`.
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");

/// What a request asks for. Its maker holds the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    pub(crate) organisation: String,
    pub(crate) common_name: String,
    pub(crate) dns: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
}

impl CertificateRequest {
    /// Reads the bytes of a request.
    ///
    /// # Errors
    /// They are not what a kubelet makes: the refusal says in which way.
    pub fn read(pem: &[u8]) -> Result<Self, Refusal> {
        if pem.len() > MAX_PEM {
            return Err(Refusal::Malformed);
        }
        let request = CertReq::from_pem(pem).map_err(|_| Refusal::Malformed)?;
        // Text before and after the block, another line width, an order that is not DER's: written again it is another.
        if request.to_pem(LineEnding::LF).map_err(|_| Refusal::Malformed)?.as_bytes() != pem {
            return Err(Refusal::Malformed);
        }
        let (organisation, common_name) = subject(&request.info.subject)?;
        let (dns, addresses) = alternative_names(&request.info)?;
        verify(&request)?;
        Ok(Self { organisation, common_name, dns, addresses })
    }

    /// The user that it asks to be, unchecked.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// The names of hosts that it asks for, unchecked.
    pub fn dns(&self) -> &[String] {
        &self.dns
    }

    /// The addresses that it asks for, unchecked.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }
}

/// That whoever made it holds the key. The signer looks, too.
fn verify(request: &CertReq) -> Result<(), Refusal> {
    let key = &request.info.public_key;
    let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.decode_as::<ObjectIdentifier>().ok());
    if key.algorithm.oid != EC_PUBLIC_KEY || curve != Some(P256) {
        return Err(Refusal::KeyRefused);
    }
    if request.algorithm.oid != ECDSA_SHA256 || request.algorithm.parameters.is_some() {
        return Err(Refusal::SignatureInvalid);
    }
    let point = key.subject_public_key.as_bytes().ok_or(Refusal::KeyRefused)?;
    let signature = request.signature.as_bytes().ok_or(Refusal::SignatureInvalid)?;
    let signed = request.info.to_der().map_err(|_| Refusal::Malformed)?;
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point);
    key.verify(&signed, signature).map_err(|_| Refusal::SignatureInvalid)
}

/// Organisation and common name, in this order, as Go writes a subject, and nothing else.
fn subject(name: &Name) -> Result<(String, String), Refusal> {
    let mut parts = name.iter_rdn().map(|part| {
        let mut values = part.iter();
        let value = values.next().ok_or(Refusal::SubjectRefused)?;
        if values.next().is_some() { Err(Refusal::SubjectRefused) } else { Ok((value.oid, text(&value.value)?)) }
    });
    let mut next = |wanted| match parts.next() {
        Some(Ok((oid, text))) if oid == wanted => Ok(text),
        Some(Err(refusal)) => Err(refusal),
        _ => Err(Refusal::SubjectRefused),
    };
    let subject = (next(ORGANISATION)?, next(COMMON_NAME)?);
    if parts.next().is_some() { Err(Refusal::SubjectRefused) } else { Ok(subject) }
}

/// ASCII that can be printed, in one of the two forms in which every reader sees the same characters.
fn text(value: &Any) -> Result<String, Refusal> {
    let plain = matches!(value.tag(), Tag::PrintableString | Tag::Utf8String);
    if !plain || !value.value().iter().all(u8::is_ascii_graphic) {
        return Err(Refusal::SubjectRefused);
    }
    String::from_utf8(value.value().to_vec()).map_err(|_| Refusal::SubjectRefused)
}

fn alternative_names(info: &CertReqInfo) -> Result<(Vec<String>, Vec<IpAddr>), Refusal> {
    let (mut dns, mut addresses) = (Vec::new(), Vec::new());
    let Some(extension) = extension(info)? else { return Ok((dns, addresses)) };
    let names = GeneralNames::from_der(extension.extn_value.as_bytes()).map_err(|_| Refusal::Malformed)?;
    if names.len() > MAX_NAMES {
        return Err(Refusal::Malformed);
    }
    for name in names {
        match name {
            GeneralName::DnsName(name) => dns.push(name.to_string()),
            GeneralName::IpAddress(bytes) => addresses.push(address(bytes.as_bytes())?),
            _ => return Err(Refusal::ExtensionRefused),
        }
    }
    Ok((dns, addresses))
}

/// The one extension of the one attribute, if there is any.
fn extension(info: &CertReqInfo) -> Result<Option<Extension>, Refusal> {
    let mut attributes = info.attributes.iter();
    let Some(attribute) = attributes.next() else { return Ok(None) };
    let mut values = attribute.values.iter();
    let (Some(value), None, None) = (values.next(), values.next(), attributes.next()) else {
        return Err(Refusal::ExtensionRefused);
    };
    if attribute.oid != EXTENSION_REQUEST {
        return Err(Refusal::ExtensionRefused);
    }
    let extensions: Vec<Extension> = value.decode_as().map_err(|_| Refusal::Malformed)?;
    let Ok([extension]) = <[Extension; 1]>::try_from(extensions) else { return Err(Refusal::ExtensionRefused) };
    if extension.extn_id == ALTERNATIVE_NAME { Ok(Some(extension)) } else { Err(Refusal::ExtensionRefused) }
}

fn address(bytes: &[u8]) -> Result<IpAddr, Refusal> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Ok(Ipv4Addr::from(bytes).into());
    }
    let bytes = <[u8; 16]>::try_from(bytes).map_err(|_| Refusal::Malformed)?;
    Ok(Ipv6Addr::from(bytes).into())
}

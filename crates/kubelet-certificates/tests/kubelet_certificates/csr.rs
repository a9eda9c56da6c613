//! Certificate requests of every kind that an attacker can make: parts are DER of their own, and the signature is real.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use std::net::IpAddr;
use x509_cert::attr::{Attribute, AttributeTypeAndValue};
use x509_cert::der::asn1::{Any, BitString, Ia5String, ObjectIdentifier, OctetString, SetOfVec};
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Decode as _, Encode as _, EncodePem as _, Tag};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::{GeneralName, GeneralNames};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::request::{CertReq, CertReqInfo, Version};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

pub(super) const CN: &str = "2.5.4.3";
pub(super) const O: &str = "2.5.4.10";
pub(super) const OU: &str = "2.5.4.11";
pub(super) const SAN: &str = "2.5.29.17";
pub(super) const BASIC_CONSTRAINTS: &str = "2.5.29.19";
const EXTENSION_REQUEST: &str = "1.2.840.113549.1.9.14";

/// A key of P-256, and the request's parts. `Csr::node` is an honest one; each field can be made anything.
#[derive(Clone)]
pub(super) struct Csr {
    /// Each inner list is one RDN.
    pub(super) subject: Vec<Vec<(&'static str, Tag, Vec<u8>)>>,
    /// Each is one extension of one attribute.
    pub(super) extensions: Vec<(&'static str, Vec<u8>)>,
    /// Further attributes.
    pub(super) attributes: Vec<Attribute>,
    pub(super) key_algorithm: (&'static str, &'static str),
    pub(super) signature_algorithm: &'static str,
    /// Signs with another key than that in the request.
    pub(super) foreign_signature: bool,
}

impl Csr {
    /// As Go's library writes it: each attribute an RDN, organisation first.
    pub(super) fn of(organisation: &str, common_name: &str) -> Self {
        let printable = |oid, text: &str| vec![(oid, Tag::PrintableString, text.as_bytes().to_vec())];
        Self {
            subject: vec![printable(O, organisation), printable(CN, common_name)],
            extensions: Vec::new(),
            attributes: Vec::new(),
            key_algorithm: ("1.2.840.10045.2.1", "1.2.840.10045.3.1.7"),
            signature_algorithm: "1.2.840.10045.4.3.2",
            foreign_signature: false,
        }
    }

    pub(super) fn node(name: &str) -> Self {
        Self::of("system:nodes", &format!("system:node:{name}"))
    }

    pub(super) fn names(self, dns: &[&str], addresses: &[&str]) -> Self {
        let dns = dns.iter().map(|name| GeneralName::DnsName(Ia5String::new(name).unwrap()));
        let addresses = addresses.iter().map(|address| GeneralName::from(address.parse::<IpAddr>().unwrap()));
        self.general_names(dns.chain(addresses))
    }

    pub(super) fn general_names(mut self, names: impl IntoIterator<Item = GeneralName>) -> Self {
        let names: GeneralNames = names.into_iter().collect();
        self.extensions.push((SAN, names.to_der().unwrap()));
        self
    }

    pub(super) fn pem(&self) -> Vec<u8> {
        self.request().to_pem(LineEnding::LF).unwrap().into_bytes()
    }

    pub(super) fn request(&self) -> CertReq {
        self.request_with_key().0
    }

    /// The request, and its key (PEM, PKCS#8).
    pub(super) fn pem_with_key(&self) -> (Vec<u8>, String) {
        let (request, key) = self.request_with_key();
        (request.to_pem(LineEnding::LF).unwrap().into_bytes(), armoured("PRIVATE KEY", &key))
    }

    fn request_with_key(&self) -> (CertReq, Vec<u8>) {
        let ((key, document), (signer, _)) = (key(), key());
        let info = self.info(key.public_key().as_ref());
        let signer = if self.foreign_signature { &signer } else { &key };
        let signature = signer.sign(&SystemRandom::new(), &info.to_der().unwrap()).unwrap();
        let algorithm = AlgorithmIdentifierOwned { oid: oid(self.signature_algorithm), parameters: None };
        (CertReq { info, algorithm, signature: BitString::from_bytes(signature.as_ref()).unwrap() }, document)
    }

    fn info(&self, point: &[u8]) -> CertReqInfo {
        let mut attributes = SetOfVec::new();
        if !self.extensions.is_empty() {
            attributes.insert(extension_request(&self.extensions)).unwrap();
        }
        for attribute in &self.attributes {
            attributes.insert(attribute.clone()).unwrap();
        }
        let (algorithm, curve) = self.key_algorithm;
        let algorithm =
            AlgorithmIdentifierOwned { oid: oid(algorithm), parameters: Some(Any::encode_from(&oid(curve)).unwrap()) };
        let subject_public_key = BitString::from_bytes(point).unwrap();
        CertReqInfo {
            version: Version::V1,
            subject: name(&self.subject),
            public_key: SubjectPublicKeyInfoOwned { algorithm, subject_public_key },
            attributes,
        }
    }
}

/// An attribute that asks for these extensions.
pub(super) fn extension_request(extensions: &[(&'static str, Vec<u8>)]) -> Attribute {
    let extensions: Vec<Extension> = extensions
        .iter()
        .map(|(id, value)| Extension {
            extn_id: oid(id),
            critical: false,
            extn_value: OctetString::new(value.clone()).unwrap(),
        })
        .collect();
    attribute(EXTENSION_REQUEST, &Any::encode_from(&extensions).unwrap())
}

pub(super) fn attribute(id: &str, value: &Any) -> Attribute {
    let mut values = SetOfVec::new();
    values.insert(value.clone()).unwrap();
    Attribute { oid: oid(id), values }
}

fn name(subject: &[Vec<(&'static str, Tag, Vec<u8>)>]) -> Name {
    let mut sequence = RdnSequence::default();
    for part in subject {
        let mut values = RelativeDistinguishedName::default();
        for (id, tag, bytes) in part {
            let value = Any::new(*tag, bytes.clone()).unwrap();
            values.insert(AttributeTypeAndValue { oid: oid(id), value }).unwrap();
        }
        sequence.push(values);
    }
    Name::from_der(&sequence.to_der().unwrap()).unwrap()
}

/// PEM as Go writes it.
pub(super) fn armoured(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn key() -> (EcdsaKeyPair, Vec<u8>) {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random).unwrap();
    (key, document.as_ref().to_vec())
}

fn oid(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new(text).unwrap()
}

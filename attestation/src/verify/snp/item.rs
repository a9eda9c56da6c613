//! What a file of the collateral holds, by what it says of itself.

use std::sync::OnceLock;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{PemObject as _, SectionKind};
use webpki::OwnedCertRevocationList;
use x509_cert::Certificate;
use x509_cert::crl::CertificateList;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode as _, Encode as _};

use super::authority::{Issuer, Revocations};
use super::certificate::Validity;
use super::collateral::CollateralFile;
use crate::parse::SnpProduct;
use crate::refusal::{ReasonCode, Refusal};

/// One certificate or list of a file.
pub(super) struct Item<'a> {
    pub(super) name: &'a str,
    pub(super) der: Vec<u8>,
    pub(super) what: What,
}

pub(super) enum What {
    Certificate(Subject),
    /// Of what the root of this product revoked.
    List(SnpProduct),
}

/// Whose certificate, by its common name.
#[derive(Clone, Copy)]
pub(super) enum Subject {
    Ark(SnpProduct),
    Ask(SnpProduct),
    Asvk(SnpProduct),
    /// VCEK or VLEK.
    Key,
}

impl Item<'_> {
    pub(super) fn malformed(&self, why: impl std::fmt::Display) -> Refusal {
        malformed(self.name, why)
    }

    pub(super) fn issuer(&self) -> Result<Issuer, Refusal> {
        let certificate = Certificate::from_der(&self.der).map_err(|error| self.malformed(error))?;
        let validity = certificate.tbs_certificate().validity();
        let (from, to) = (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration());
        let validity = Validity { from: from.as_secs(), to: to.as_secs() };
        let der = CertificateDer::from(self.der.clone());
        let anchor = webpki::anchor_from_trusted_cert(&der).map_err(|error| self.malformed(error))?.to_owned();
        Ok(Issuer { der, validity, anchor, held: OnceLock::new() })
    }

    pub(super) fn revocations(&self) -> Result<Revocations, Refusal> {
        let list = <CertificateList>::from_der(&self.der).map_err(|error| self.malformed(error))?;
        let fields = &list.tbs_cert_list;
        let to =
            fields.next_update.ok_or_else(|| self.malformed("a list that does not say when the next one comes"))?;
        let validity =
            Validity { from: fields.this_update.to_unix_duration().as_secs(), to: to.to_unix_duration().as_secs() };
        let list = OwnedCertRevocationList::from_der(&self.der).map_err(|error| self.malformed(error))?;
        let list = webpki::CertRevocationList::from(list);
        // Of a part of what was revoked the rest would be taken for good.
        if list.issuing_distribution_point().is_some() {
            return Err(self.malformed("a list of a part of what was revoked"));
        }
        Ok(Revocations { list, validity })
    }
}

/// What a file holds.
pub(super) fn items<'a>(file: &CollateralFile<'a>) -> Result<Vec<Item<'a>>, Refusal> {
    let CollateralFile { name, content } = *file;
    if content.len() > MAX_FILE {
        return Err(malformed(name, format!("{} bytes, at most {MAX_FILE}", content.len())));
    }
    if !content.windows(PEM.len()).any(|window| window == PEM) {
        return Ok(vec![item(name, content.to_vec())?]);
    }
    let mut items = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(content) {
        let (kind, der) = section.map_err(|error| malformed(name, format!("{error:?}")))?;
        if !matches!(kind, SectionKind::Certificate | SectionKind::Crl) {
            return Err(malformed(name, "PEM of something else than certificates and lists of revoked ones"));
        }
        items.push(item(name, der)?);
    }
    Ok(items)
}

fn item(name: &str, der: Vec<u8>) -> Result<Item<'_>, Refusal> {
    let what = if let Ok(certificate) = Certificate::from_der(&der) {
        let common_name = common_name(&certificate.tbs_certificate().subject().to_der().unwrap_or_default());
        What::Certificate(subject(common_name.as_deref()).ok_or_else(|| {
            malformed(name, format!("a certificate of {:?}, which is nobody of AMD's", common_name.unwrap_or_default()))
        })?)
    } else if let Ok(list) = <CertificateList>::from_der(&der) {
        let common_name = common_name(&list.tbs_cert_list.issuer.to_der().unwrap_or_default());
        match subject(common_name.as_deref()) {
            Some(Subject::Ark(product)) => What::List(product),
            _ => return Err(malformed(name, "a list of revoked certificates that is no root's of AMD")),
        }
    } else {
        return Err(malformed(name, "neither a certificate nor a list of revoked ones"));
    };
    Ok(Item { name, der, what })
}

fn subject(common_name: Option<&str>) -> Option<Subject> {
    let product = |name: &str| SnpProduct::ALL.into_iter().find(|product| product.name() == name);
    match common_name? {
        "SEV-VCEK" | "SEV-VLEK" => Some(Subject::Key),
        name => {
            let of = |prefix| name.strip_prefix(prefix).and_then(product);
            let asvk = || of("SEV-VLEK-").map(Subject::Asvk);
            of("ARK-").map(Subject::Ark).or_else(asvk).or_else(|| of("SEV-").map(Subject::Ask))
        }
    }
}

/// The common name of a distinguished name; `None` without one, or with several.
fn common_name(name: &[u8]) -> Option<String> {
    let name = x509_cert::name::RdnSequence::from_der(name).ok()?;
    let mut names =
        name.iter().flat_map(x509_cert::name::RelativeDistinguishedName::iter).filter(|value| value.oid == COMMON_NAME);
    let (first, second) = (names.next()?, names.next());
    second.is_none().then(|| String::from_utf8_lossy(first.value.value()).into_owned())
}

fn malformed(name: &str, why: impl std::fmt::Display) -> Refusal {
    Refusal::new(ReasonCode::CollateralMalformed, format!("{name}: {why}"))
}

const PEM: &[u8] = b"-----BEGIN ";
/// A chain has 5 KiB, a list of revocations 1 KiB.
const MAX_FILE: usize = 1024 * 1024;
/// X.520: id-at-commonName.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

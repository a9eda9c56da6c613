//! What AMD publishes for verifiers, as files: chains, lists of revoked authorities, certificates of chips and providers. Nothing
//! of it is asked for while a machine waits.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{PemObject as _, SectionKind};
use webpki::OwnedCertRevocationList;
use x509_cert::Certificate;
use x509_cert::crl::CertificateList;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode as _, Encode as _};

use super::authority::{Authority, Issuer, Revocations};
use super::certificate::{SnpCertificate, Validity};
use super::roots::ARKS;
use crate::parse::{Digest, SnpProduct, SnpReport};
use crate::policy::RevocationList;
use crate::refusal::{ReasonCode, Refusal};

/// A file of the collateral, and the name by which a refusal tells of it.
#[derive(Debug, Clone, Copy)]
pub struct CollateralFile<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its content: PEM (certificates and lists, any number), or the DER of one.
    pub content: &'a [u8],
}

/// A snapshot: made of files once, and asked by any number of threads. To take up other files is to make another.
#[derive(Debug)]
pub struct SnpCollateral {
    authorities: Vec<Authority>,
    certificates: Vec<SnpCertificate>,
    /// Certificates whose chain held, by their digests, and how long it holds.
    held: Mutex<BTreeMap<Digest, Validity>>,
}

impl SnpCollateral {
    /// Reads the files, in any order. A root that is not built in is refused, and so is what hangs on none: files that mean
    /// nothing would look as if they did.
    ///
    /// # Errors
    /// `collateral-malformed`, `collateral-root-unknown`; and what a chip's certificate is refused for.
    pub fn new(files: &[CollateralFile<'_>]) -> Result<Self, Refusal> {
        Self::with_roots(files, &ARKS)
    }

    /// The same with other roots than AMD's, for tests.
    ///
    /// # Errors
    /// As [`Self::new`].
    #[cfg(feature = "fake-snp")]
    pub fn with_fake_roots(files: &[CollateralFile<'_>], roots: &[(SnpProduct, Digest)]) -> Result<Self, Refusal> {
        Self::with_roots(files, roots)
    }

    fn with_roots(files: &[CollateralFile<'_>], roots: &[(SnpProduct, Digest)]) -> Result<Self, Refusal> {
        let items = files.iter().map(items).collect::<Result<Vec<_>, _>>()?.concat();
        let mut collateral = Self { authorities: Vec::new(), certificates: Vec::new(), held: Mutex::default() };
        for item in &items {
            if let Item { what: What::Certificate(Subject::Ark(product)), .. } = item {
                collateral.add_root(item, *product, roots)?;
            }
        }
        for item in &items {
            collateral.add(item)?;
        }
        Ok(collateral)
    }

    fn add_root(
        &mut self,
        item: &Item<'_>,
        product: SnpProduct,
        roots: &[(SnpProduct, Digest)],
    ) -> Result<(), Refusal> {
        if !roots.contains(&(product, sha256(&item.der))) {
            let detail = format!("{}: a root that says it is ARK-{product}, and is not AMD's", item.name);
            return Err(Refusal::new(ReasonCode::CollateralRootUnknown, detail));
        }
        if self.authorities.iter().any(|authority| authority.product == product) {
            return Ok(());
        }
        let der = CertificateDer::from(item.der.as_slice());
        let ark = webpki::anchor_from_trusted_cert(&der).map_err(|error| item.malformed(error))?.to_owned();
        self.authorities.push(Authority { product, ark, ask: None, asvk: None, revocations: None });
        Ok(())
    }

    fn add(&mut self, item: &Item<'_>) -> Result<(), Refusal> {
        match &item.what {
            What::Certificate(Subject::Ark(_)) => {}
            What::Certificate(Subject::Ask(product)) => {
                let issuer = item.issuer()?;
                self.authority(item, *product)?.ask = Some(issuer);
            }
            What::Certificate(Subject::Asvk(product)) => {
                let issuer = item.issuer()?;
                self.authority(item, *product)?.asvk = Some(issuer);
            }
            What::Certificate(Subject::Key) => self.certificates.push(SnpCertificate::parse(&item.der)?),
            What::List(product) => {
                let revocations = item.revocations()?;
                let authority = self.authority(item, *product)?;
                // The newest one of those that are there.
                if authority.revocations.as_ref().is_none_or(|had| had.validity.to < revocations.validity.to) {
                    authority.revocations = Some(revocations);
                }
            }
        }
        Ok(())
    }

    fn authority(&mut self, item: &Item<'_>, product: SnpProduct) -> Result<&mut Authority, Refusal> {
        let found = self.authorities.iter_mut().find(|authority| authority.product == product);
        found.ok_or_else(|| item.malformed(format!("the root ARK-{product} is missing beside it")))
    }

    /// The collateral's certificate for the key that made a report.
    pub(super) fn certificate_for(&self, report: &SnpReport) -> Result<&SnpCertificate, Refusal> {
        self.certificates.iter().find(|certificate| certificate.check_report(report).is_ok()).ok_or_else(|| {
            let detail = format!("the host gave no certificate of the {}, the collateral has none for it", {
                report.signing_key().name()
            });
            Refusal::new(ReasonCode::SnpCertificateMissing, detail)
        })
    }

    /// Checks a certificate's chain, once for as long as it holds.
    pub(super) fn check_chain(
        &self,
        certificate: &SnpCertificate,
        rule: RevocationList,
        now: u64,
    ) -> Result<(), Refusal> {
        let product = certificate.product();
        let authority = self.authorities.iter().find(|authority| authority.product == product).ok_or_else(|| {
            Refusal::new(ReasonCode::SnpCertificateUntrusted, format!("the collateral has no chain of {product}"))
        })?;
        if rule == RevocationList::Demanded && authority.revocations.is_none() {
            return Err(Refusal::new(ReasonCode::SnpRevocationListMissing, format!("there is none of {product}")));
        }
        let digest = certificate.digest();
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).copied();
        if held.is_some_and(|validity| (validity.from..=validity.to).contains(&now)) {
            return Ok(());
        }
        let validity = authority.check(certificate, now)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= MAX_HELD {
            held.clear();
        }
        held.insert(digest, validity);
        Ok(())
    }
}

/// One certificate or list of a file.
#[derive(Clone)]
struct Item<'a> {
    name: &'a str,
    der: Vec<u8>,
    what: What,
}

#[derive(Clone)]
enum What {
    Certificate(Subject),
    /// Of what the root of this product revoked.
    List(SnpProduct),
}

/// Whose certificate, by its common name.
#[derive(Clone, Copy)]
enum Subject {
    Ark(SnpProduct),
    Ask(SnpProduct),
    Asvk(SnpProduct),
    /// VCEK or VLEK.
    Key,
}

impl Item<'_> {
    fn malformed(&self, why: impl std::fmt::Display) -> Refusal {
        malformed(self.name, why)
    }

    fn issuer(&self) -> Result<Issuer, Refusal> {
        let certificate = Certificate::from_der(&self.der).map_err(|error| self.malformed(error))?;
        let validity = certificate.tbs_certificate().validity();
        let (from, to) = (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration());
        let validity = Validity { from: from.as_secs(), to: to.as_secs() };
        Ok(Issuer { der: CertificateDer::from(self.der.clone()), validity })
    }

    fn revocations(&self) -> Result<Revocations, Refusal> {
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
fn items<'a>(file: &CollateralFile<'a>) -> Result<Vec<Item<'a>>, Refusal> {
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

fn sha256(bytes: &[u8]) -> Digest {
    let mut digest = Digest::ZERO;
    digest.0.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    digest
}

fn malformed(name: &str, why: impl std::fmt::Display) -> Refusal {
    Refusal::new(ReasonCode::CollateralMalformed, format!("{name}: {why}"))
}

const PEM: &[u8] = b"-----BEGIN ";
/// A chain has 5 KiB, a list of revocations 1 KiB.
const MAX_FILE: usize = 1024 * 1024;
/// Of so many chips the chain is remembered; then it is forgotten of all, and checked again.
const MAX_HELD: usize = 65_536;
/// X.520: id-at-commonName.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

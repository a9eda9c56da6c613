//! What AMD publishes for verifiers, as files: chains, lists of revoked authorities, certificates of chips and providers. Nothing
//! of it is asked for while a machine waits.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rustls_pki_types::CertificateDer;

use super::authority::Authority;
use super::certificate::SnpCertificate;
use super::inventory::SnpInventory;
use super::item::{Item, Subject, What};
use super::roots::ARKS;
use crate::ends::End;
use crate::parse::{Digest, SigningKey, SnpProduct, SnpReport};
use crate::policy::RevocationList;
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::published::{CollateralFile, Validity, sha256};

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
        SnpInventory::with_roots(files, &ARKS).into_collateral()
    }

    /// The same with other roots than AMD's, for tests.
    ///
    /// # Errors
    /// As [`Self::new`].
    #[cfg(feature = "fake-processors")]
    pub fn with_fake_roots(files: &[CollateralFile<'_>], roots: &[(SnpProduct, Digest)]) -> Result<Self, Refusal> {
        SnpInventory::with_roots(files, roots).into_collateral()
    }

    pub(super) fn empty() -> Self {
        Self { authorities: Vec::new(), certificates: Vec::new(), held: Mutex::default() }
    }

    /// Takes up a root, if it is one of these; what is none is left for [`Self::add`].
    pub(super) fn add_root(&mut self, item: &Item<'_>, roots: &[(SnpProduct, Digest)]) -> Result<(), Refusal> {
        let What::Certificate(Subject::Ark(product)) = item.what else { return Ok(()) };
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

    /// Takes up what hangs on a root.
    pub(super) fn add(&mut self, item: &Item<'_>) -> Result<(), Refusal> {
        match &item.what {
            What::Certificate(Subject::Ark(_) | Subject::Key) => {}
            What::Certificate(Subject::Ask(product)) => {
                let issuer = item.issuer()?;
                self.authority(item, *product)?.ask = Some(issuer);
            }
            What::Certificate(Subject::Asvk(product)) => {
                let issuer = item.issuer()?;
                self.authority(item, *product)?.asvk = Some(issuer);
            }
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

    /// Which authority or list ends first, and when, in seconds since the Unix epoch: from then on nobody of its product is let in.
    /// Keys of chips are not among them: each firmware has another, and those of before stay where they lie.
    pub fn first_end(&self) -> Option<(String, u64)> {
        let kinds = [SigningKey::Vcek, SigningKey::Vlek];
        let products = self.authorities.iter().map(|authority| authority.product);
        let ends = products.flat_map(|product| kinds.into_iter().flat_map(move |kind| self.ends_behind(product, kind)));
        ends.min().map(|End { ends, what }| (what, ends))
    }

    /// What certificates of this kind rest on for this product: who issues them, and the list of what the root revoked.
    pub(crate) fn ends_behind(&self, product: SnpProduct, kind: SigningKey) -> impl Iterator<Item = End> {
        let issuer = move |authority: &Authority| match kind {
            SigningKey::Vcek => {
                authority.ask.as_ref().map(|ask| End::new(format!("the ASK of {product}"), ask.validity.to))
            }
            SigningKey::Vlek => {
                authority.asvk.as_ref().map(|asvk| End::new(format!("the ASVK of {product}"), asvk.validity.to))
            }
        };
        let list = move |authority: &Authority| {
            let what = format!("the list of what ARK-{product} revoked");
            authority.revocations.as_ref().map(|list| End::new(what, list.validity.to))
        };
        self.authority_of(product)
            .into_iter()
            .flat_map(move |authority| issuer(authority).into_iter().chain(list(authority)))
    }

    fn authority(&mut self, item: &Item<'_>, product: SnpProduct) -> Result<&mut Authority, Refusal> {
        let found = self.authorities.iter_mut().find(|authority| authority.product == product);
        found.ok_or_else(|| item.malformed(format!("the root ARK-{product} is missing beside it")))
    }

    pub(super) fn authority_of(&self, product: SnpProduct) -> Option<&Authority> {
        self.authorities.iter().find(|authority| authority.product == product)
    }

    /// The same, with these certificates of chips and providers.
    pub(super) fn with_certificates(self, certificates: Vec<SnpCertificate>) -> Self {
        Self { certificates, ..self }
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
        let authority = self.authority_of(product).ok_or_else(|| {
            Refusal::new(ReasonCode::SnpCertificateUntrusted, format!("the collateral has no chain of {product}"))
        })?;
        if rule == RevocationList::Demanded && authority.revocations.is_none() {
            return Err(Refusal::new(ReasonCode::SnpRevocationListMissing, format!("there is none of {product}")));
        }
        let digest = certificate.digest();
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).copied();
        if held.is_some_and(|validity| validity.contains(now)) {
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

/// Of so many chips the chain is remembered; then it is forgotten of all, and checked again.
const MAX_HELD: usize = 65_536;

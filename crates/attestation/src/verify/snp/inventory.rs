//! The files of the collateral, one certificate or list after the other: what each is, and whether it holds.

use serde::Serialize;

use super::certificate::SnpCertificate;
use super::collateral::SnpCollateral;
use super::item::{Item, Subject, What, items};
use super::roots::ARKS;
use crate::parse::{Digest, SigningKey, SnpProduct};
use crate::policy::RevocationList;
use crate::reference::format_rfc3339;
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::published::{CollateralFile, Validity};

/// What there is, the bad as well as the good. [`SnpCollateral`] is made of one in which nothing is bad.
#[derive(Debug)]
pub struct SnpInventory {
    entries: Vec<Entry>,
    collateral: SnpCollateral,
}

/// Which kind of file of AMD's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SnpKind {
    /// A product's root.
    Ark,
    /// Below it, who issues certificates of chips.
    Ask,
    /// Below it, who issues certificates of providers.
    Asvk,
    /// A chip's key.
    Vcek,
    /// A provider's key.
    Vlek,
    /// What a root revoked.
    Crl,
}

/// One certificate or list, as it describes itself.
#[derive(Debug, Clone, Copy)]
pub struct SnpItem<'a> {
    /// What it is.
    pub kind: SnpKind,
    /// Of which product.
    pub product: SnpProduct,
    /// From when to when; of a list, until the next one.
    pub validity: Validity,
    /// Of a VCEK or VLEK: whose, and for which firmware.
    pub key: Option<&'a SnpCertificate>,
    /// Whether there is a later list of the same product, which counts in its place.
    pub superseded: bool,
}

#[derive(Debug)]
struct Entry {
    file: String,
    what: Result<Held, Refusal>,
}

#[derive(Debug)]
enum Held {
    /// An authority's certificate, or a list.
    Signed(Signed),
    /// The certificate of a chip or provider.
    Key(SnpCertificate),
}

#[derive(Debug)]
struct Signed {
    kind: SnpKind,
    product: SnpProduct,
    validity: Validity,
    der: Vec<u8>,
    /// Whether it hangs on a root that is built in, or is one.
    taken: Result<(), Refusal>,
}

impl SnpKind {
    /// AMD's name; of a list, the usual one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ark => "ARK",
            Self::Ask => "ASK",
            Self::Asvk => "ASVK",
            Self::Vcek => "VCEK",
            Self::Vlek => "VLEK",
            Self::Crl => "CRL",
        }
    }
}

impl SnpInventory {
    /// Reads all files, in any order. Nothing is an error: what cannot be read or used is an entry that says so.
    pub fn new(files: &[CollateralFile<'_>]) -> Self {
        Self::with_roots(files, &ARKS)
    }

    /// The same with other roots than AMD's, for tests.
    #[cfg(feature = "fake-processors")]
    pub fn with_fake_roots(files: &[CollateralFile<'_>], roots: &[(SnpProduct, Digest)]) -> Self {
        Self::with_roots(files, roots)
    }

    pub(super) fn with_roots(files: &[CollateralFile<'_>], roots: &[(SnpProduct, Digest)]) -> Self {
        let mut read = Vec::new();
        for file in files {
            match items(file) {
                Ok(items) => read.extend(items.into_iter().map(|item| (file.name, Ok(item)))),
                Err(refusal) => read.push((file.name, Err(refusal))),
            }
        }
        let mut collateral = SnpCollateral::empty();
        // What hangs on a root may come before it.
        let of_roots: Vec<_> = read
            .iter()
            .map(|(_, item)| match item {
                Ok(item) => collateral.add_root(item, roots),
                Err(_) => Ok(()),
            })
            .collect();
        let mut entries = Vec::new();
        for ((file, item), of_root) in read.into_iter().zip(of_roots) {
            let what = item.and_then(|item| {
                if matches!(item.what, What::Certificate(Subject::Key)) {
                    return SnpCertificate::parse(&item.der).map(Held::Key);
                }
                let taken = of_root.and_then(|()| collateral.add(&item));
                Signed::new(item, taken).map(Held::Signed)
            });
            entries.push(Entry { file: file.to_owned(), what });
        }
        Self { entries, collateral }
    }

    /// What the collateral is made of, if nothing of it is bad.
    ///
    /// # Errors
    /// What a bad entry is refused for: an unknown root first, since what hangs on it is then refused, too.
    pub fn into_collateral(self) -> Result<SnpCollateral, Refusal> {
        let (mut keys, mut refusals) = (Vec::new(), Vec::new());
        for entry in self.entries {
            match entry.what {
                Ok(Held::Key(key)) => keys.push(key),
                Ok(Held::Signed(signed)) => refusals.extend(signed.taken.err()),
                Err(refusal) => refusals.push(refusal),
            }
        }
        match refusals.into_iter().min_by_key(|refusal| refusal.code() != ReasonCode::CollateralRootUnknown) {
            Some(refusal) => Err(refusal),
            None => Ok(self.collateral.with_certificates(keys)),
        }
    }

    /// Every entry: its file, and what it is, or why it is nothing.
    pub fn entries(&self) -> impl Iterator<Item = (&str, Result<SnpItem<'_>, &Refusal>)> {
        self.entries.iter().map(|entry| (entry.file.as_str(), entry.what.as_ref().map(|held| self.item(held))))
    }

    /// Whether each entry holds at `now` (seconds since the Unix epoch), in the order of [`Self::entries`]: a root is built in and
    /// has a list of what it revoked; an authority or a list is signed by its root; a key's chain is one that
    /// [`SnpCollateral::verify`] takes; and nothing of it is expired or revoked.
    pub fn check(&self, now: u64) -> impl Iterator<Item = Result<(), Refusal>> {
        self.entries.iter().map(move |entry| match &entry.what {
            Ok(Held::Signed(signed)) => self.check_signed(signed, now),
            Ok(Held::Key(key)) => self.collateral.check_chain(key, RevocationList::Demanded, now),
            Err(refusal) => Err(refusal.clone()),
        })
    }

    fn item<'a>(&'a self, held: &'a Held) -> SnpItem<'a> {
        match held {
            Held::Signed(signed) => {
                let Signed { kind, product, validity, .. } = *signed;
                SnpItem { kind, product, validity, key: None, superseded: self.is_superseded(signed) }
            }
            Held::Key(key) => {
                let kind = match key.kind() {
                    SigningKey::Vcek => SnpKind::Vcek,
                    SigningKey::Vlek => SnpKind::Vlek,
                };
                let (product, validity) = (key.product(), key.validity());
                SnpItem { kind, product, validity, key: Some(key), superseded: false }
            }
        }
    }

    /// Whether it is a list, and another one of the same product counts.
    fn is_superseded(&self, signed: &Signed) -> bool {
        let counts = self.collateral.authority_of(signed.product).and_then(|authority| authority.revocations.as_ref());
        signed.kind == SnpKind::Crl && counts.is_some_and(|counts| signed.validity.to < counts.validity.to)
    }

    fn check_signed(&self, signed: &Signed, now: u64) -> Result<(), Refusal> {
        let Signed { kind, product, validity, der, taken } = signed;
        taken.clone()?;
        let Some(authority) = self.collateral.authority_of(*product) else { return Ok(()) };
        let name = format!("the {} of {product}", kind.name());
        let refuse = |code, detail| Err(Refusal::new(code, detail));
        let by_root = || format!("{name}: no signature of ARK-{product}");
        match kind {
            SnpKind::Ark if authority.revocations.is_none() => {
                return refuse(ReasonCode::SnpRevocationListMissing, format!("there is none of {product}"));
            }
            SnpKind::Crl if !authority.signed(der) => return refuse(ReasonCode::CollateralMalformed, by_root()),
            // Another list says what counts.
            SnpKind::Crl if self.is_superseded(signed) => return Ok(()),
            SnpKind::Ark | SnpKind::Crl => {}
            _ if !authority.signed(der) => return refuse(ReasonCode::SnpCertificateUntrusted, by_root()),
            _ => authority.check_not_revoked(der, &name)?,
        }
        let (early, late) = match kind {
            SnpKind::Crl => (ReasonCode::SnpRevocationListExpired, ReasonCode::SnpRevocationListExpired),
            _ => (ReasonCode::SnpCertificateNotYetValid, ReasonCode::SnpCertificateExpired),
        };
        if now < validity.from {
            return refuse(early, format!("{name} begins at {}", format_rfc3339(validity.from)));
        }
        if now > validity.to {
            return refuse(late, format!("{name} ended at {}", format_rfc3339(validity.to)));
        }
        Ok(())
    }
}

impl Signed {
    fn new(item: Item<'_>, taken: Result<(), Refusal>) -> Result<Self, Refusal> {
        let (kind, product, validity) = match item.what {
            What::Certificate(Subject::Ark(product)) => (SnpKind::Ark, product, item.issuer()?.validity),
            What::Certificate(Subject::Ask(product)) => (SnpKind::Ask, product, item.issuer()?.validity),
            What::Certificate(Subject::Asvk(product)) => (SnpKind::Asvk, product, item.issuer()?.validity),
            What::List(product) => (SnpKind::Crl, product, item.revocations()?.validity),
            What::Certificate(Subject::Key) => return Err(item.malformed("a key's certificate is no authority's")),
        };
        Ok(Self { kind, product, validity, der: item.der, taken })
    }
}

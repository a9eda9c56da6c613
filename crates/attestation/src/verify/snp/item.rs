//! What a file of the collateral holds, by what it says of itself.

use std::sync::OnceLock;

use rustls_pki_types::CertificateDer;
use webpki::OwnedCertRevocationList;
use x509_cert::Certificate;
use x509_cert::crl::CertificateList;
use x509_cert::der::Decode as _;

use super::authority::{Issuer, Revocations};
use crate::parse::SnpProduct;
use crate::refusal::Refusal;
use crate::verify::chain_words;
use crate::verify::published::{CollateralFile, Piece, PieceKind, Validity, malformed, pieces};

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
        let validity = Validity::of_certificate(&certificate);
        let der = CertificateDer::from(self.der.clone());
        let anchor = webpki::anchor_from_trusted_cert(&der).map_err(|error| self.malformed(error))?.to_owned();
        Ok(Issuer { der, validity, anchor, held: OnceLock::new() })
    }

    pub(super) fn revocations(&self) -> Result<Revocations, Refusal> {
        let list = <CertificateList>::from_der(&self.der).map_err(|error| self.malformed(error))?;
        let validity = Validity::of_list(&list)
            .ok_or_else(|| self.malformed("a list that does not say when the next one comes"))?;
        let list = OwnedCertRevocationList::from_der(&self.der).map_err(|error| self.malformed(chain_words(&error)))?;
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
    pieces(file)?.into_iter().map(|piece| item(file, piece)).collect()
}

fn item<'a>(file: &CollateralFile<'a>, piece: Piece) -> Result<Item<'a>, Refusal> {
    let common_name = piece.common_name();
    let what = match (&piece.what, subject(common_name.as_deref())) {
        (PieceKind::Certificate(_), Some(subject)) => What::Certificate(subject),
        (PieceKind::List(_), Some(Subject::Ark(product))) => What::List(product),
        (PieceKind::Certificate(_), None) => {
            let name = common_name.unwrap_or_default();
            return Err(file.malformed(format!("a certificate of {name:?}, which is nobody of AMD's")));
        }
        (PieceKind::List(_), _) => {
            return Err(file.malformed("a list of revoked certificates that is no root's of AMD"));
        }
    };
    Ok(Item { name: file.name, der: piece.der, what })
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

//! The files of Intel's part of the collateral, one thing after the other: what each is, and whether it holds.

use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor};
use serde::Serialize;
use webpki::EndEntityCert;

use super::authority::{PckAuthority, ROOT, Subject};
use super::collateral::{Answer, Certified, Dated, List, TdxCollateral, age};
use super::item::{Item, SignedJson, What, items};
use crate::parse::Digest;
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::published::{CollateralFile, Validity, is_signed, sha256};

/// What there is, the bad as well as the good. [`TdxCollateral`] is made of one in which nothing is bad.
#[derive(Debug)]
pub struct TdxInventory {
    entries: Vec<(String, Result<TdxItem, Refusal>)>,
    collateral: TdxCollateral,
}

/// One thing that Intel publishes, as it describes itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TdxItem {
    /// What it is.
    pub kind: TdxKind,
    /// Of which of the authorities for platforms' keys, or of which platforms.
    pub of: TdxOf,
    /// From when to when; of lists and JSON, until the next one.
    pub validity: Validity,
    /// Of JSON, the number of Intel's evaluation; else 0.
    pub evaluation: u32,
}

/// Which kind of file of Intel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TdxKind {
    /// The root.
    Root,
    /// Who certifies platforms' keys.
    PckAuthority,
    /// Who signs TCB information and identities of enclaves.
    TcbSigning,
    /// What the root or an authority revoked.
    Crl,
    /// How up to date platforms are, by their versions.
    TcbInfo,
    /// Which enclave of Intel's may sign quotes.
    QeIdentity,
}

impl TdxKind {
    /// As the list of the collateral says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::PckAuthority => "PCK authority",
            Self::TcbSigning => "TCB signing",
            Self::Crl => "CRL",
            Self::TcbInfo => "TCB info",
            Self::QeIdentity => "QE identity",
        }
    }
}

/// Of whom something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TdxOf {
    /// Of Intel.
    Intel,
    /// Of an authority for platforms' keys.
    Authority(PckAuthority),
    /// Of platforms with this FMSPC.
    Platforms([u8; 6]),
}

impl std::fmt::Display for TdxOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Intel => f.write_str("Intel"),
            Self::Authority(authority) => f.write_str(authority.name()),
            Self::Platforms(fmspc) => write!(f, "FMSPC {}", hex::encode(fmspc)),
        }
    }
}

impl TdxInventory {
    /// Reads the files, in any order.
    #[must_use]
    pub fn new(files: &[CollateralFile<'_>]) -> Self {
        Self::with_root(files, ROOT)
    }

    /// The same with another root than Intel's, for tests.
    #[cfg(feature = "fake-processors")]
    #[must_use]
    pub fn with_fake_root(files: &[CollateralFile<'_>], root: Digest) -> Self {
        Self::with_root(files, root)
    }

    pub(super) fn with_root(files: &[CollateralFile<'_>], root: Digest) -> Self {
        let mut read = Vec::new();
        for file in files {
            match items(file) {
                Ok(items) => read.extend(items.into_iter().map(|item| (*file, Ok(item)))),
                Err(refusal) => read.push((*file, Err(refusal))),
            }
        }
        // Whoever signed comes before what they signed.
        read.sort_by_key(|(_, item)| item.as_ref().map_or(0, |item| rank(&item.what)));
        let mut collateral = TdxCollateral::default();
        let take = |(file, item): (CollateralFile<'_>, Result<Item, Refusal>)| {
            let taken = item.and_then(|item| {
                let described = describe(&item);
                take(&mut collateral, &file, item, root).map(|()| described)
            });
            (file.name.to_owned(), taken)
        };
        let entries = read.into_iter().map(take).collect();
        Self { entries, collateral }
    }

    /// What the collateral is made of, if nothing of it is bad.
    ///
    /// # Errors
    /// What a bad entry is refused for: an unknown root first, since what hangs on it is then refused, too.
    pub fn into_collateral(self) -> Result<TdxCollateral, Refusal> {
        let refusals = self.entries.into_iter().filter_map(|(_, taken)| taken.err());
        match refusals.min_by_key(|refusal| refusal.code() != ReasonCode::CollateralRootUnknown) {
            Some(refusal) => Err(refusal),
            None => Ok(self.collateral),
        }
    }

    /// Every entry: its file, and what it is, or why it counts for nothing.
    pub fn entries(&self) -> impl Iterator<Item = (&str, Result<TdxItem, &Refusal>)> {
        self.entries.iter().map(|(file, taken)| (file.as_str(), taken.as_ref().map(|item| *item)))
    }

    /// Whether each entry holds at `now` (seconds since the Unix epoch), in the order of [`Self::entries`]: it is signed, and its days
    /// are not over. One that another of its kind has replaced holds.
    pub fn check(&self, now: u64) -> impl Iterator<Item = Result<(), Refusal>> {
        self.entries.iter().map(move |(_, taken)| {
            let item = taken.as_ref().map_err(Clone::clone)?;
            if self.is_superseded(item) {
                return Ok(());
            }
            super::collateral::check_dates(&format!("the {} of {}", item.kind.name(), item.of), item.validity, now)
        })
    }

    /// Whether a newer one of its kind counts in its place.
    pub fn is_superseded(&self, item: &TdxItem) -> bool {
        let same = |other: &&TdxItem| (other.kind, other.of) == (item.kind, item.of);
        let others = self.entries.iter().filter_map(|(_, taken)| taken.as_ref().ok()).filter(same);
        others.into_iter().any(|other| age(other.evaluation, other.validity) > age(item.evaluation, item.validity))
    }
}

fn rank(what: &What) -> u8 {
    match what {
        What::Certificate(Subject::Root, ..) => 0,
        What::Certificate(..) => 1,
        What::List(..) | What::TcbInfo(..) | What::Enclave(_) => 2,
    }
}

fn describe(item: &Item) -> TdxItem {
    let (kind, of) = match &item.what {
        What::Certificate(Subject::Root, ..) => (TdxKind::Root, TdxOf::Intel),
        What::Certificate(Subject::Signing, ..) => (TdxKind::TcbSigning, TdxOf::Intel),
        What::Certificate(Subject::Authority(authority), ..) => (TdxKind::PckAuthority, TdxOf::Authority(*authority)),
        What::List(None, ..) => (TdxKind::Crl, TdxOf::Intel),
        What::List(Some(authority), ..) => (TdxKind::Crl, TdxOf::Authority(*authority)),
        What::TcbInfo(fmspc, _) => (TdxKind::TcbInfo, TdxOf::Platforms(*fmspc)),
        What::Enclave(_) => (TdxKind::QeIdentity, TdxOf::Intel),
    };
    TdxItem { kind, of, validity: item.validity, evaluation: item.evaluation }
}

/// Takes up one thing, if whoever has to signed it.
fn take(
    collateral: &mut TdxCollateral,
    file: &CollateralFile<'_>,
    Item { validity, evaluation, what }: Item,
    known: Digest,
) -> Result<(), Refusal> {
    let anchor = |der: &CertificateDer<'_>| {
        webpki::anchor_from_trusted_cert(der).map(|anchor| anchor.to_owned()).map_err(|error| file.malformed(error))
    };
    let missing = |who: &str| file.malformed(format!("{who} is missing beside it"));
    let signed_by = |der: &[u8], issuer: &TrustAnchor<'_>, who: &str| {
        let signed = is_signed(der, issuer, ALGORITHMS);
        if signed { Ok(()) } else { Err(file.malformed(format!("no signature of {who}"))) }
    };
    if let What::Certificate(Subject::Root, der, _) = &what {
        if sha256(der) != known {
            let detail = format!("{}: a root that says it is Intel's, and is not", file.name);
            return Err(Refusal::new(ReasonCode::CollateralRootUnknown, detail));
        }
        collateral.root = Some(Dated { validity, evaluation, what: der.clone() });
        return Ok(());
    }
    let held = collateral.root.as_ref().ok_or_else(|| missing("Intel's root"))?;
    let root = anchor(&held.what)?;
    match what {
        What::Certificate(subject, der, serial) => {
            signed_by(&der, &root, "Intel's root")?;
            let dated = Dated { validity, evaluation, what: (der, serial) };
            match subject {
                Subject::Root => {}
                Subject::Signing => collateral.signing.push(dated),
                Subject::Authority(authority) => dated.newest_of(&mut collateral.authorities, authority),
            }
        }
        What::List(whose, parsed, der) => {
            match whose {
                None => signed_by(&der, &root, "Intel's root")?,
                Some(authority) => {
                    let who = format!("the PCK authority {}", authority.name());
                    let held = collateral.authorities.get(&authority).ok_or_else(|| missing(&who))?;
                    signed_by(&der, &anchor(&held.what.0)?, &who)?;
                }
            }
            let list = List { parsed: *parsed, der };
            Dated { validity, evaluation, what: list }.newest_of(&mut collateral.lists, whose);
        }
        What::TcbInfo(fmspc, json) => {
            let signer = signer(file, &json, &collateral.signing)?;
            Dated { validity, evaluation, what: Answer { json, signer } }.newest_of(&mut collateral.tcb, fmspc);
        }
        What::Enclave(json) => {
            let signer = signer(file, &json, &collateral.signing)?;
            Dated { validity, evaluation, what: Answer { json, signer } }.newest(&mut collateral.enclave);
        }
    }
    Ok(())
}

/// Which of Intel's certificates signed it: the newest one, while several are good.
fn signer(
    file: &CollateralFile<'_>,
    json: &SignedJson,
    held: &[Dated<Certified>],
) -> Result<Dated<Certified>, Refusal> {
    if held.is_empty() {
        return Err(file.malformed("Intel's certificate for TCB signing is missing beside it"));
    }
    let signature = der_signature(&json.signature);
    let signed = |certificate: &CertificateDer<'_>| {
        let certificate = EndEntityCert::try_from(certificate);
        certificate.is_ok_and(|it| it.verify_signature(P256, json.text.as_bytes(), &signature).is_ok())
    };
    let signers = held.iter().filter(|held| signed(&held.what.0));
    let newest = signers.max_by_key(|held| held.validity.to).cloned();
    newest.ok_or_else(|| file.malformed("no signature of Intel's certificate for TCB signing"))
}

/// Two numbers of 32 bytes as DER has them (RFC 3279, section 2.2.3).
fn der_signature(fixed: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(bytes.len().saturating_sub(1));
        let digits = bytes.get(zeros..).unwrap_or_default();
        let pad = digits.first().is_some_and(|first| first & 0x80 != 0);
        let content = [if pad { &[0][..] } else { &[] }, digits].concat();
        [&[0x02, u8::try_from(content.len()).unwrap_or(0)], content.as_slice()].concat()
    };
    let (r, s) = fixed.split_at(fixed.len() / 2);
    let content = [number(r), number(s)].concat();
    [&[0x30, u8::try_from(content.len()).unwrap_or(0)], content.as_slice()].concat()
}

/// How Intel signs, and nothing else.
const P256: &dyn SignatureVerificationAlgorithm = webpki::aws_lc_rs::ECDSA_P256_SHA256;
const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[P256];

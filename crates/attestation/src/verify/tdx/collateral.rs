//! What Intel publishes for verifiers, as files: its root, authorities for platforms' keys, lists of revoked ones, TCB information and
//! the identity of the quoting enclave. Nothing of it is asked for while a machine waits.

use std::collections::BTreeMap;

use dcap_qvl::QuoteCollateralV3;
use rustls_pki_types::CertificateDer;
use webpki::CertRevocationList;

use super::authority::{PckAuthority, pem};
use super::inventory::TdxInventory;
use super::item::{Serial, SignedJson};
use super::quote::TdxQuote;
use crate::ends::End;
#[cfg(feature = "fake-processors")]
use crate::parse::Digest;
use crate::reference::format_rfc3339;
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::chain_words;
use crate::verify::published::{CollateralFile, Validity};

/// A snapshot: made of files once, and asked by any number of threads. To take up other files is to make another. Everything in it is
/// signed, as far up as Intel's root; whether it still holds, each quote asks.
#[derive(Debug, Default)]
pub struct TdxCollateral {
    pub(super) root: Option<Dated<CertificateDer<'static>>>,
    pub(super) authorities: BTreeMap<PckAuthority, Dated<Certified>>,
    /// Who signs what Intel answers; two while Intel goes over to another key.
    pub(super) signing: Vec<Dated<Certified>>,
    /// By authority; of the root under `None`.
    pub(super) lists: BTreeMap<Option<PckAuthority>, Dated<List>>,
    /// By FMSPC.
    pub(super) tcb: BTreeMap<[u8; 6], Dated<Answer>>,
    pub(super) enclave: Option<Dated<Answer>>,
}

/// A certificate, and its serial number.
pub(super) type Certified = (CertificateDer<'static>, Serial);

/// What Intel answered, and the certificate of the key that signed it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) json: SignedJson,
    pub(super) signer: Dated<Certified>,
}

/// Something with days on which it holds.
#[derive(Debug, Clone)]
pub(super) struct Dated<T> {
    pub(super) validity: Validity,
    pub(super) evaluation: u32,
    pub(super) what: T,
}

impl<T> Dated<T> {
    /// Takes a place that is free, or whose holder is older.
    pub(super) fn newest(self, place: &mut Option<Self>) {
        if place.as_ref().is_none_or(|held| held.age() < self.age()) {
            *place = Some(self);
        }
    }

    pub(super) fn newest_of<K: Ord>(self, places: &mut BTreeMap<K, Self>, key: K) {
        if places.get(&key).is_none_or(|held| held.age() < self.age()) {
            places.insert(key, self);
        }
    }

    fn age(&self) -> Age {
        age(self.evaluation, self.validity)
    }
}

/// What counts of two things of one kind: the greater one.
pub(super) type Age = (u32, u64, u64);

pub(super) fn age(evaluation: u32, Validity { from, to }: Validity) -> Age {
    (evaluation, from, to)
}

/// What an authority revoked.
#[derive(Debug)]
pub(super) struct List {
    pub(super) parsed: CertRevocationList<'static>,
    pub(super) der: Vec<u8>,
}

/// What of the collateral belongs to one quote.
pub(super) struct Parts {
    /// DER.
    pub(super) root: Vec<u8>,
    pub(super) library: QuoteCollateralV3,
}

impl TdxCollateral {
    /// Reads the files, in any order. A root that is not built in is refused, and so is what hangs on none: files that mean nothing
    /// would look as if they did.
    ///
    /// # Errors
    /// `collateral-malformed`, `collateral-root-unknown`.
    pub fn new(files: &[CollateralFile<'_>]) -> Result<Self, Refusal> {
        TdxInventory::new(files).into_collateral()
    }

    /// The same with another root than Intel's, for tests.
    ///
    /// # Errors
    /// As [`Self::new`].
    #[cfg(feature = "fake-processors")]
    pub fn with_fake_root(files: &[CollateralFile<'_>], root: Digest) -> Result<Self, Refusal> {
        TdxInventory::with_fake_root(files, root).into_collateral()
    }

    /// Which part ends first, and when, in seconds since the Unix epoch: from then on nobody whom it is about is let in.
    pub fn first_end(&self) -> Option<(String, u64)> {
        self.ends_behind(None).min().map(|End { ends, what }| (what, ends))
    }

    /// What quotes of this platform rest on, or those of all.
    pub(crate) fn ends_behind(&self, platform: Option<[u8; 6]>) -> impl Iterator<Item = End> {
        let certificates = self.authorities.iter().map(|(whose, held)| (authority_name(*whose), held.validity.to));
        let lists = self.lists.iter().map(|(whose, held)| (list_name(*whose), held.validity.to));
        let of_platform = move |fmspc: &[u8; 6]| platform.is_none_or(|platform| platform == *fmspc);
        let of_these = self.tcb.iter().filter(move |(fmspc, _)| of_platform(fmspc));
        let tcb = of_these.clone().map(|(fmspc, held)| (tcb_name(*fmspc), held.validity.to));
        let answers = of_these.map(|(_, held)| held).chain(&self.enclave);
        let signing = answers.map(|held| (SIGNING.to_owned(), held.what.signer.validity.to));
        let enclave = self.enclave.iter().map(|held| (ENCLAVE.to_owned(), held.validity.to));
        let ends = certificates.chain(lists).chain(tcb).chain(signing).chain(enclave);
        ends.map(|(what, end)| End::new(what, end))
    }

    /// What belongs to this quote, none of it over or revoked at `now`.
    pub(super) fn parts_for(&self, quote: &TdxQuote, now: u64) -> Result<Parts, Refusal> {
        let (fmspc, authority) = (quote.fmspc(), quote.authority());
        let root = found(self.root.as_ref(), ROOT, now)?;
        let (issuer, issuer_serial) = found(self.authorities.get(&authority), &authority_name(authority), now)?;
        let of_root = found(self.lists.get(&None), &list_name(None), now)?;
        let of_authority = found(self.lists.get(&Some(authority)), &list_name(Some(authority)), now)?;
        let tcb = found(self.tcb.get(&fmspc), &tcb_name(fmspc), now)?;
        let enclave = found(self.enclave.as_ref(), ENCLAVE, now)?;
        of_root.check(issuer_serial, &authority_name(authority))?;
        let chain_of = |answer: &Answer| {
            let (signing, serial) = found(Some(&answer.signer), SIGNING, now)?;
            of_root.check(serial, SIGNING)?;
            Ok(pem(&[signing, root]))
        };
        of_authority.check(quote.serial(), "the certificate of the platform's key")?;
        let library = QuoteCollateralV3 {
            pck_crl_issuer_chain: pem(&[issuer, root]),
            root_ca_crl: of_root.der.clone(),
            pck_crl: of_authority.der.clone(),
            tcb_info_issuer_chain: chain_of(tcb)?,
            tcb_info: tcb.json.text.clone(),
            tcb_info_signature: tcb.json.signature.clone(),
            qe_identity_issuer_chain: chain_of(enclave)?,
            qe_identity: enclave.json.text.clone(),
            qe_identity_signature: enclave.json.signature.clone(),
            pck_certificate_chain: None,
        };
        Ok(Parts { root: root.to_vec(), library })
    }
}

impl List {
    fn check(&self, serial: &[u8], name: &str) -> Result<(), Refusal> {
        match self.parsed.find_serial(serial) {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(Refusal::new(ReasonCode::TdxCertificateRevoked, format!("{name} is on the list"))),
            Err(error) => Err(Refusal::new(
                ReasonCode::CollateralMalformed,
                format!("the list for {name}: {}", chain_words(&error)),
            )),
        }
    }
}

fn found<'a, T>(held: Option<&'a Dated<T>>, name: &str, now: u64) -> Result<&'a T, Refusal> {
    let held =
        held.ok_or_else(|| Refusal::new(ReasonCode::TdxCollateralMissing, format!("there is no {}", bare(name))))?;
    check_dates(name, held.validity, now)?;
    Ok(&held.what)
}

pub(super) fn check_dates(name: &str, validity: Validity, now: u64) -> Result<(), Refusal> {
    if now < validity.from {
        let detail = format!("{name} begins at {}", format_rfc3339(validity.from));
        return Err(Refusal::new(ReasonCode::TdxCollateralNotYetValid, detail));
    }
    if now > validity.to {
        let detail = format!("{name} ended at {}", format_rfc3339(validity.to));
        return Err(Refusal::new(ReasonCode::TdxCollateralExpired, detail));
    }
    Ok(())
}

fn bare(name: &str) -> &str {
    name.strip_prefix("the ").unwrap_or(name)
}

fn authority_name(authority: PckAuthority) -> String {
    format!("the certificate of Intel's PCK authority {}", authority.name())
}

fn list_name(whose: Option<PckAuthority>) -> String {
    match whose {
        None => "the list of what Intel's root revoked".to_owned(),
        Some(authority) => format!("the list of what Intel's PCK authority {} revoked", authority.name()),
    }
}

fn tcb_name(fmspc: [u8; 6]) -> String {
    format!("the TCB information of FMSPC {}", hex::encode(fmspc))
}

const ROOT: &str = "the certificate of Intel's root";
const SIGNING: &str = "the certificate of Intel's TCB signing";
const ENCLAVE: &str = "the identity of Intel's TDX quoting enclave";

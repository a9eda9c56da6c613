//! A fake: AMD with a root, an ASK and an ASVK, keys of a chip and of a provider, and reports that they sign. For tests of verifiers only,
//! behind the feature `fake-processors`. No collateral trusts it that was not made with its root (`SnpCollateral::with_fake_roots`).

#![expect(clippy::missing_panics_doc, clippy::unwrap_used, reason = "a fake for tests: what fails here fails the test")]
#![expect(missing_debug_implementations, reason = "a fake for tests, which holds keys")]

use crate::fake_der::{extension, name, pem, sequence, tagged};
use crate::parse::{Digest, HostCertificates, SigningKey, SnpEvidence, SnpProduct, SnpReport, Tcb};
use crate::verify::CollateralFile;
use crate::verify::snp::{SnpCollateral, SnpInventory};
use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PSS_SHA384, RsaKeyPair};
use ring::digest::{SHA256, digest};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// What reports are over unless they are changed.
pub const REPORT_DATA: [u8; 64] = [0x5a; 64];

/// An authority for one product.
pub struct FakeAmd {
    product: SnpProduct,
    root: Digest,
    ask: (&'static RsaKeyPair, String),
    asvk: (&'static RsaKeyPair, String),
    /// DER, one after the other, as PEM.
    pub chain: Vec<u8>,
    /// A list of a day later than that of the chain, as DER.
    pub later_list: Vec<u8>,
}

/// What is otherwise than it should be in what AMD publishes.
pub struct Published {
    /// The root revoked its ASK.
    pub revoked: bool,
    /// There is a list of what it revoked.
    pub list: bool,
    /// Until when it is good: `YYMMDD`.
    pub list_until: &'static str,
    /// As large as AMD's are; others are made faster.
    pub large_keys: bool,
}

/// What is otherwise than it should be in one guest's report.
pub struct Change {
    /// The report, not signed yet.
    pub report: [u8; SnpReport::SIZE],
    /// A chip's key by the authority of providers' keys, or the other way round.
    pub issued_by_the_other_authority: bool,
}

/// What a guest has to show.
pub struct Guest {
    /// The report.
    pub report: [u8; SnpReport::SIZE],
    /// DER of the certificate of the chip's key, if it signed.
    pub vcek: Option<Vec<u8>>,
    /// The same of the provider's.
    pub vlek: Option<Vec<u8>>,
    key: Vec<u8>,
}

impl Guest {
    /// What it sends beside its quote: the report, and its certificate in a host's table (AMD 56421).
    pub fn evidence(&self) -> SnpEvidence {
        // As AWS's hosts write them.
        const VCEK: u128 = 0x63da758d_e664_4564_adc5_f4b93be8accd;
        const VLEK: u128 = 0xa8074bc2_a25a_483e_aae6_39c045a0b8a1;
        let both = [(VCEK, &self.vcek), (VLEK, &self.vlek)];
        let (id, der) = both.into_iter().find_map(|(id, der)| Some((id, der.as_ref()?))).unwrap();
        let id = u128::to_be_bytes(id);
        let (at, length) = (48_u32, u32::try_from(der.len()).unwrap());
        let table = [&id[..], &at.to_le_bytes(), &length.to_le_bytes(), &[0; 24], der].concat();
        SnpEvidence::new(self.report.to_vec(), Some(table)).unwrap()
    }

    /// What another process needs to make this guest's reports over other data: the report, the length of the key (2 bytes, big
    /// endian), the key (PKCS #8), the host's table.
    pub fn for_another_process(&self) -> Vec<u8> {
        let length = u16::try_from(self.key.len()).unwrap().to_be_bytes();
        [&self.report[..], &length, &self.key, self.evidence().certificates()].concat()
    }

    /// The certificates as a host's table says them.
    pub fn host(&self) -> HostCertificates<'_> {
        HostCertificates { vcek: self.vcek.as_deref(), vlek: self.vlek.as_deref() }
    }
}

/// The keys of an AMD: root, authority of chips, authority of providers. Making them takes most of the time of a fake, so they are made
/// once in a process: the first AMD of each test has the same, the second one others, and so on. No two of one thread have the same.
fn keys(size: KeySize) -> &'static [RsaKeyPair; 3] {
    type Made = Vec<(KeySize, &'static [RsaKeyPair; 3])>;
    static MADE: Mutex<Made> = Mutex::new(Vec::new());
    thread_local!(static BEFORE: Cell<[usize; 2]> = const { Cell::new([0; 2]) });
    let mut before = BEFORE.get();
    let number = &mut before[usize::from(size == KeySize::Rsa4096)];
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = made.iter().filter(|(other, _)| *other == size).nth(*number).map(|(_, keys)| *keys);
    *number += 1;
    BEFORE.set(before);
    known.unwrap_or_else(|| {
        let keys = Box::leak(Box::new(std::array::from_fn(|_| RsaKeyPair::generate(size).unwrap())));
        made.push((size, keys));
        keys
    })
}

impl FakeAmd {
    /// One that published what it should.
    pub fn new(product: SnpProduct) -> Self {
        Self::with(product, |_| ())
    }

    /// One that published something else.
    pub fn with(product: SnpProduct, change: impl FnOnce(&mut Published)) -> Self {
        let mut published = Published { revoked: false, list: true, list_until: "301125", large_keys: false };
        change(&mut published);
        let size = if published.large_keys { KeySize::Rsa4096 } else { KeySize::Rsa2048 };
        let [ark, of_chips, of_providers] = keys(size);
        let [ark_name, chips, providers] = ["ARK-", "SEV-", "SEV-VLEK-"].map(|prefix| format!("{prefix}{product}"));
        let authority = |key: &RsaKeyPair, name: &str, serial: u8| {
            let extensions = [
                extension(&[0x55, 0x1d, 0x13], true, &sequence(&[&[0x01, 0x01, 0xff]])),
                extension(&[0x55, 0x1d, 0x0f], true, &[0x03, 0x02, 0x01, 0x06]),
            ];
            certificate(ark, &ark_name, name, serial, &spki(key), &extensions)
        };
        let root = authority(ark, &ark_name, 1);
        let mut chain = [pem("CERTIFICATE", &authority(of_chips, &chips, 2)), pem("CERTIFICATE", &root)].concat();
        chain.extend(pem("CERTIFICATE", &authority(of_providers, &providers, 3)));
        if published.list {
            chain.extend(pem(
                "X509 CRL",
                &revocations(ark, &ark_name, published.revoked, ["261115", published.list_until]),
            ));
        }
        let later_list = revocations(ark, &ark_name, published.revoked, ["261116", "301126"]);
        let root = Digest(digest(&SHA256, &root).as_ref().try_into().unwrap());
        Self { product, root, ask: (of_chips, chips), asvk: (of_providers, providers), chain, later_list }
    }

    /// Its files, with its root trusted.
    pub fn collateral(&self) -> SnpCollateral {
        self.collateral_with(&[])
    }

    /// The same with further files.
    pub fn collateral_with(&self, more: &[CollateralFile<'_>]) -> SnpCollateral {
        let chain = CollateralFile { name: "chain.pem", content: &self.chain };
        SnpCollateral::with_fake_roots(&[&[chain], more].concat(), &self.roots()).unwrap()
    }

    /// The same, entry by entry.
    pub fn inventory(&self, files: &[CollateralFile<'_>]) -> SnpInventory {
        SnpInventory::with_fake_roots(files, &self.roots())
    }

    /// The chain's certificates and lists.
    pub fn ders(&self) -> Vec<Vec<u8>> {
        use rustls_pki_types::pem::{PemObject as _, SectionKind};
        <(SectionKind, Vec<u8>)>::pem_slice_iter(&self.chain).map(|section| section.unwrap().1).collect()
    }

    /// Whom to believe.
    pub fn roots(&self) -> [(SnpProduct, Digest); 1] {
        [(self.product, self.root)]
    }

    /// The firmware versions of every guest here.
    pub fn tcb(&self) -> Tcb {
        let fmc = u8::from(self.product == SnpProduct::Turin);
        Tcb { bootloader: 3, tee: 0, snp: 8, microcode: 115, fmc }
    }

    /// A guest with a key of its own; `change` comes before the report is signed.
    pub fn guest(&self, kind: SigningKey, version: u32, change: impl FnOnce(&mut Change)) -> Guest {
        let mut changed = Change { report: self.report(kind, version), issued_by_the_other_authority: false };
        change(&mut changed);
        let key = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
        let own = kind == SigningKey::Vcek;
        let (issuer, issuer_name) = if own == changed.issued_by_the_other_authority { &self.asvk } else { &self.ask };
        let name = format!("SEV-{}", kind.name());
        let public: PublicKeyX509Der<'_> = key.public_key().as_der().unwrap();
        let certificate = certificate(issuer, issuer_name, &name, 0, public.as_ref(), &self.of_amd(kind));
        let mut report = changed.report;
        let signature = key.sign(&SystemRandom::new(), &report[..0x2a0]).unwrap();
        for (number, place) in signature.as_ref().chunks_exact(48).zip([0x2a0, 0x2a0 + 72]) {
            report[place..place + 48].copy_from_slice(&number.iter().rev().copied().collect::<Vec<_>>());
        }
        let (of_chip, of_provider) = if own { (Some(certificate), None) } else { (None, Some(certificate)) };
        let key = key.to_pkcs8v1().unwrap().as_ref().to_vec();
        Guest { report, vcek: of_chip, vlek: of_provider, key }
    }

    /// A report as this product's firmware writes it, not signed.
    fn report(&self, kind: SigningKey, version: u32) -> [u8; SnpReport::SIZE] {
        let mut report = [0; SnpReport::SIZE];
        let mut put = |at: usize, bytes: &[u8]| report[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &version.to_le_bytes());
        put(0x08, &0x3_0000_u64.to_le_bytes());
        put(0x34, &1_u32.to_le_bytes());
        put(0x40, &1_u64.to_le_bytes());
        put(0x48, &(u32::from(kind == SigningKey::Vlek) << 2).to_le_bytes());
        put(0x50, &REPORT_DATA);
        put(0x90, &[0xd1; 48]);
        let Tcb { bootloader, tee, snp, microcode, fmc } = self.tcb();
        let tcb = match self.product {
            SnpProduct::Turin => [fmc, bootloader, tee, snp, 0, 0, 0, microcode],
            _ => [bootloader, tee, 0, 0, 0, 0, snp, microcode],
        };
        for at in [0x38, 0x180, 0x1e0, 0x1f0] {
            put(at, &tcb);
        }
        if version >= 3 {
            put(0x188, &self.processor());
        }
        put(0x1a0, &vec![0xc1; self.product.chip_id_len()]);
        put(0x1e8, &[4, 55, 1, 0, 4, 55, 1]);
        report
    }

    fn processor(&self) -> [u8; 3] {
        match self.product {
            SnpProduct::Milan => [0x19, 0x01, 1],
            SnpProduct::Genoa => [0x19, 0x11, 1],
            SnpProduct::Turin => [0x1a, 0x02, 1],
        }
    }

    /// AMD's extensions.
    fn of_amd(&self, kind: SigningKey) -> Vec<Vec<u8>> {
        let amd = |tail: &[u8], value: &[u8]| {
            extension(&[&[0x2b, 0x06, 0x01, 0x04, 0x01, 0x9c, 0x78, 0x01], tail].concat(), false, value)
        };
        let number = |tail: u8, value: u8| amd(&[3, tail], &[0x02, 0x01, value]);
        let Tcb { bootloader, tee, snp, microcode, fmc } = self.tcb();
        let mut all = vec![
            amd(&[2], &tagged(0x16, format!("{}-B0", self.product).as_bytes())),
            number(1, bootloader),
            number(2, tee),
            number(3, snp),
            number(8, microcode),
            match kind {
                SigningKey::Vcek => amd(&[4], &vec![0xc1; self.product.chip_id_len()]),
                SigningKey::Vlek => amd(&[5], &tagged(0x16, b"plant")),
            },
        ];
        if self.product == SnpProduct::Turin {
            all.push(number(9, fmc));
        }
        all
    }
}

fn certificate(
    issuer: &RsaKeyPair,
    issuer_name: &str,
    subject: &str,
    serial: u8,
    spki: &[u8],
    extensions: &[Vec<u8>],
) -> Vec<u8> {
    let list: Vec<&[u8]> = extensions.iter().map(Vec::as_slice).collect();
    let fields = sequence(&[
        &tagged(0xa0, &[0x02, 0x01, 2]),
        &[0x02, 0x01, serial],
        &algorithm(),
        &name(issuer_name),
        &sequence(&[&tagged(0x17, b"200101000000Z"), &tagged(0x17, b"400101000000Z")]),
        &name(subject),
        spki,
        &tagged(0xa3, &sequence(&list)),
    ]);
    signed(issuer, &fields)
}

/// What the root revoked: its ASK (serial 2), or nothing. Good for four years from the time of the tests.
fn revocations(root: &RsaKeyPair, root_name: &str, revoked: bool, days: [&str; 2]) -> Vec<u8> {
    let [this, next] = days.map(|day| tagged(0x17, format!("{day}000000Z").as_bytes()));
    let number = sequence(&[&extension(&[0x55, 0x1d, 0x14], false, &[0x02, 0x01, 1])]);
    let entry = sequence(&[&[0x02, 0x01, 2], &this]);
    let mut fields = vec![[0x02, 0x01, 1].to_vec(), algorithm(), name(root_name), this.clone(), next];
    if revoked {
        fields.push(sequence(&[&entry]));
    }
    fields.push(tagged(0xa0, &number));
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    signed(root, &sequence(&fields))
}

fn signed(key: &RsaKeyPair, fields: &[u8]) -> Vec<u8> {
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PSS_SHA384, &SystemRandom::new(), fields, &mut signature).unwrap();
    sequence(&[fields, &algorithm(), &tagged(0x03, &[&[0], signature.as_slice()].concat())])
}

/// RSASSA-PSS as AMD writes its parameters, the trailer included.
fn algorithm() -> Vec<u8> {
    let oid = |bytes: &[u8]| tagged(0x06, bytes);
    let sha_384 = sequence(&[&oid(&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02]), &[0x05, 0x00]]);
    let mgf_1 = sequence(&[&oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08]), &sha_384]);
    let number = |value| [0x02, 0x01, value];
    let parameters = sequence(&[
        &tagged(0xa0, &sha_384),
        &tagged(0xa1, &mgf_1),
        &tagged(0xa2, &number(48)),
        &tagged(0xa3, &number(1)),
    ]);
    sequence(&[&oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a]), &parameters])
}

fn spki(key: &RsaKeyPair) -> Vec<u8> {
    let algorithm = sequence(&[&tagged(0x06, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01]), &[0x05, 0x00]]);
    sequence(&[&algorithm, &tagged(0x03, &[&[0], key.public_key().as_ref()].concat())])
}

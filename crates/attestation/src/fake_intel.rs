//! A fake: Intel with a root, an authority for platforms, TCB information, a quoting enclave, and quotes that it signs. For tests of
//! verifiers only, behind the feature `fake-processors`. No collateral trusts it that was not made with its root
//! (`TdxCollateral::with_fake_root`).

#![expect(clippy::missing_panics_doc, clippy::unwrap_used, reason = "a fake for tests: what fails here fails the test")]
#![expect(missing_debug_implementations, reason = "a fake for tests, which holds keys")]

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use ring::digest::{SHA256, digest};

use crate::fake_der::{extension, name, pem, sequence, tagged};
use crate::parse::{Digest, TdxEvidence};
use crate::verify::CollateralFile;
use crate::verify::tdx::TdxCollateral;

/// What quotes are over unless they are changed.
pub const REPORT_DATA: [u8; 64] = [0x5b; 64];
/// The platforms of this Intel.
pub const FMSPC: [u8; 6] = [0xb0, 0xc0, 0x6f, 0, 0, 0];
/// Every guest's package.
pub const PPID: [u8; 16] = [0xa7; 16];

/// Where fields lie in a TD report 1.0 (584 bytes).
pub mod field {
    /// `TDATTRIBUTES`, 8 bytes.
    pub const ATTRIBUTES: usize = 120;
    /// `XFAM`, 8 bytes.
    pub const XFAM: usize = 128;
    /// `MRTD`, 48 bytes.
    pub const MRTD: usize = 136;
    /// `MRCONFIGID`, 48 bytes.
    pub const MR_CONFIG_ID: usize = 184;
    /// RTMR 0, 48 bytes; the others follow.
    pub const RTMR0: usize = 328;
    /// `REPORTDATA`, 64 bytes.
    pub const REPORT_DATA: usize = 520;
}

/// What is otherwise than it should be in what Intel publishes.
pub struct Published {
    /// Intel's word on the platform.
    pub status: &'static str,
    /// What is open for it.
    pub advisories: &'static [&'static str],
    /// The authority for platforms revoked this platform's key.
    pub platform_revoked: bool,
    /// The root revoked its authority for platforms.
    pub authority_revoked: bool,
    /// From and until when the TCB information is good: years.
    pub tcb_years: [u16; 2],
    /// The number of the evaluation that the TCB information is by.
    pub tcb_evaluation: u32,
    /// Of which platforms the TCB information is.
    pub tcb_fmspc: [u8; 6],
    /// From and until when the certificate of the platform's key is good: `YYMMDD`.
    pub platform_days: [&'static str; 2],
}

impl Default for Published {
    fn default() -> Self {
        Self {
            status: "UpToDate",
            advisories: &[],
            platform_revoked: false,
            authority_revoked: false,
            tcb_years: [2025, 2030],
            tcb_evaluation: 17,
            tcb_fmspc: FMSPC,
            platform_days: DAYS,
        }
    }
}

/// An authority with all that it publishes.
pub struct FakeIntel {
    files: Vec<(&'static str, Vec<u8>)>,
    later: Vec<(&'static str, Vec<u8>)>,
    root: Digest,
    signing: EcdsaKeyPair,
    /// Of the platform.
    platform: EcdsaKeyPair,
    /// PEM: the platform's certificate, its authority's, the root's.
    chain: Vec<u8>,
    /// Of the quoting enclave.
    enclave: EcdsaKeyPair,
}

impl Default for FakeIntel {
    fn default() -> Self {
        Self::with(|_| ())
    }
}

impl FakeIntel {
    /// One that published something else than it should.
    pub fn with(change: impl FnOnce(&mut Published)) -> Self {
        let mut published = Published::default();
        change(&mut published);
        let key = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let (root, authority, signing, platform) = (key(), key(), key(), key());
        let root_der = certificate((&root, ROOT), (&root, ROOT), 1, DAYS, &authority_extensions());
        let authority_der = certificate((&root, ROOT), (&authority, PLATFORM), 2, DAYS, &authority_extensions());
        let signing_der = certificate((&root, ROOT), (&signing, SIGNING), 3, DAYS, &[]);
        let of_platform = [extension(SGX, false, &sgx_extension())];
        let whose = (&platform, "Intel SGX PCK Certificate");
        let platform_der = certificate((&authority, PLATFORM), whose, 4, published.platform_days, &of_platform);
        let certificates = [&platform_der, &authority_der, &root_der].map(|der| pem("CERTIFICATE", der));
        let mut files = vec![
            ("root.pem", pem("CERTIFICATE", &root_der)),
            ("pck-platform.pem", certificates[1].clone()),
            ("tcb-signing.pem", pem("CERTIFICATE", &signing_der)),
        ];
        let answers = |lists: &str, answers: &str| {
            let of_root = list((&root, ROOT), published.authority_revoked.then_some(2), lists);
            let of_authority = list((&authority, PLATFORM), published.platform_revoked.then_some(4), lists);
            let identity = QE_IDENTITY.replace("11-20", answers);
            [
                ("root.crl", of_root),
                ("pck-platform.crl", of_authority),
                ("tcb.json", answer("tcbInfo", &tcb_info(&published, answers), &signing)),
                ("qe.json", answer("enclaveIdentity", &identity, &signing)),
            ]
        };
        files.extend(answers("261115", "11-20"));
        let later = answers("261116", "11-21").to_vec();
        let root = Digest(digest(&SHA256, &root_der).as_ref().try_into().unwrap());
        Self { files, later, root, signing, platform, chain: certificates.concat(), enclave: key() }
    }

    /// What it publishes, by names that mean nothing.
    pub fn files(&self) -> &[(&'static str, Vec<u8>)] {
        &self.files
    }

    /// Further TCB information of the same platforms.
    pub fn tcb_information(&self, change: impl FnOnce(&mut Published)) -> Vec<u8> {
        let mut published = Published::default();
        change(&mut published);
        answer("tcbInfo", &tcb_info(&published, "11-20"), &self.signing)
    }

    /// The files among them that change from day to day, as they are a day later.
    pub fn later_files(&self) -> &[(&'static str, Vec<u8>)] {
        &self.later
    }

    /// Whom to believe.
    pub fn root(&self) -> Digest {
        self.root
    }

    /// Its files, with its root trusted.
    pub fn collateral(&self) -> TdxCollateral {
        let files: Vec<_> = self.files.iter().map(|(name, content)| CollateralFile { name, content }).collect();
        TdxCollateral::with_fake_root(&files, self.root).unwrap()
    }

    /// What a guest sends beside its TPM's quote.
    pub fn evidence(&self, change: impl FnOnce(&mut [u8; 584])) -> TdxEvidence {
        TdxEvidence::new(self.quote(change)).unwrap()
    }

    /// A quote of version 4; `change` comes before it is signed.
    pub fn quote(&self, change: impl FnOnce(&mut [u8; 584])) -> Vec<u8> {
        let signed = header_and_report(change);
        let data = [&sign(&self.enclave, &signed)[..], &self.vouched()].concat();
        [&signed[..], &length(&data), &data].concat()
    }

    /// What another process needs to make this quote over other data: header and report (632 bytes), the length of the quoting enclave's
    /// key (2 bytes, big endian), the key (PKCS #8), what follows the signature in a quote.
    pub fn for_another_process(&self, change: impl FnOnce(&mut [u8; 584])) -> Vec<u8> {
        let key = self.enclave.to_pkcs8v1().unwrap();
        let length = u16::try_from(key.as_ref().len()).unwrap().to_be_bytes();
        [&header_and_report(change)[..], &length, key.as_ref(), &self.vouched()].concat()
    }

    /// The quoting enclave's key, and what vouches for it.
    fn vouched(&self) -> Vec<u8> {
        let key = &self.enclave.public_key().as_ref()[1..];
        let auth = [7; 32];
        let mut enclave = [0; 384];
        enclave[48] = 0x11;
        enclave[128..160].fill(0xdc);
        enclave[256] = 2;
        enclave[258] = 4;
        enclave[320..352].copy_from_slice(digest(&SHA256, &[key, &auth].concat()).as_ref());
        let vouched = [
            &enclave[..],
            &sign(&self.platform, &enclave),
            &[32, 0],
            &auth,
            &[5, 0],
            &length(&self.chain),
            &self.chain,
        ];
        let vouched = vouched.concat();
        [key, &[6, 0], &length(&vouched), &vouched].concat()
    }
}

/// What the quoting enclave signs.
fn header_and_report(change: impl FnOnce(&mut [u8; 584])) -> Vec<u8> {
    let mut report = [0; 584];
    report[..16].copy_from_slice(&[5, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    report[16..64].fill(0xe1);
    report[field::ATTRIBUTES..][..8].copy_from_slice(&(1_u64 << 28).to_le_bytes());
    report[field::XFAM..][..8].copy_from_slice(&0x0006_02e7_u64.to_le_bytes());
    report[field::MRTD..][..48].fill(0xd1);
    for register in 0..4_u8 {
        report[field::RTMR0 + 48 * usize::from(register)..][..48].fill(0xb0 + register);
    }
    report[field::REPORT_DATA..].copy_from_slice(&REPORT_DATA);
    change(&mut report);
    let mut header = vec![4, 0, 2, 0, 0x81, 0, 0, 0, 0, 0, 0, 0];
    header.extend(QE_VENDOR);
    header.resize(48, 0);
    [&header[..], &report].concat()
}

fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap().to_le_bytes()
}

/// When certificates are good, unless they are changed: `YYMMDD`.
const DAYS: [&str; 2] = ["200101", "400101"];

type Named<'a> = (&'a EcdsaKeyPair, &'a str);

fn certificate(issuer: Named<'_>, subject: Named<'_>, serial: u8, days: [&str; 2], extensions: &[Vec<u8>]) -> Vec<u8> {
    let [from, to] = days.map(|day| tagged(0x17, format!("{day}000000Z").as_bytes()));
    let list: Vec<&[u8]> = extensions.iter().map(Vec::as_slice).collect();
    let point = [&[0], subject.0.public_key().as_ref()].concat();
    let kind = sequence(&[
        &tagged(0x06, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]),
        &tagged(0x06, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]),
    ]);
    let fields = sequence(&[
        &tagged(0xa0, &[0x02, 0x01, 2]),
        &[0x02, 0x01, serial],
        &algorithm(),
        &name(issuer.1),
        &sequence(&[&from, &to]),
        &name(subject.1),
        &sequence(&[&kind, &tagged(0x03, &point)]),
        &if list.is_empty() { Vec::new() } else { tagged(0xa3, &sequence(&list)) },
    ]);
    signed(issuer.0, &fields)
}

fn list(issuer: Named<'_>, revoked: Option<u8>, day: &str) -> Vec<u8> {
    let [this, next] = [day, "301125"].map(|day| tagged(0x17, format!("{day}000000Z").as_bytes()));
    let number = sequence(&[&extension(&[0x55, 0x1d, 0x14], false, &[0x02, 0x01, 1])]);
    let mut fields = [&[0x02, 0x01, 1][..], &algorithm(), &name(issuer.1), &this, &next].concat();
    if let Some(serial) = revoked {
        fields.extend(sequence(&[&sequence(&[&[0x02, 0x01, serial], &this])]));
    }
    fields.extend(tagged(0xa0, &number));
    signed(issuer.0, &tagged(0x30, &fields))
}

fn authority_extensions() -> [Vec<u8>; 2] {
    [
        extension(&[0x55, 0x1d, 0x13], true, &sequence(&[&[0x01, 0x01, 0xff]])),
        extension(&[0x55, 0x1d, 0x0f], true, &[0x03, 0x02, 0x01, 0x06]),
    ]
}

fn signed(key: &EcdsaKeyPair, fields: &[u8]) -> Vec<u8> {
    let signature = sign(key, fields);
    let number = |bytes: &[u8]| {
        let digits: Vec<u8> = bytes.iter().copied().skip_while(|byte| *byte == 0).collect();
        let pad = if digits.first().is_none_or(|first| *first >= 0x80) { vec![0] } else { Vec::new() };
        tagged(0x02, &[pad, digits].concat())
    };
    let signature = sequence(&[&number(&signature[..32]), &number(&signature[32..])]);
    sequence(&[fields, &algorithm(), &tagged(0x03, &[&[0], signature.as_slice()].concat())])
}

fn sign(key: &EcdsaKeyPair, message: &[u8]) -> Vec<u8> {
    key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
}

/// ecdsa-with-SHA256.
fn algorithm() -> Vec<u8> {
    sequence(&[&tagged(0x06, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02])])
}

/// What Intel puts into certificates of platforms.
fn sgx_extension() -> Vec<u8> {
    let id = |tail: &[u8]| tagged(0x06, &[SGX, tail].concat());
    let entry = |tail: &[u8], value: &[u8]| sequence(&[&id(tail), value]);
    let svn = |index: u8, value: u8| entry(&[2, index], &[0x02, 0x01, value]);
    let cpu = [2, 2, 2, 2, 3, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut tcb: Vec<Vec<u8>> = (1..=16).zip(cpu).map(|(index, value)| svn(index, value)).collect();
    tcb.push(svn(17, 11));
    tcb.push(entry(&[2, 18], &tagged(0x04, &cpu)));
    sequence(&[
        &entry(&[1], &tagged(0x04, &PPID)),
        &entry(&[2], &tagged(0x30, &tcb.concat())),
        &entry(&[3], &tagged(0x04, &[0, 0])),
        &entry(&[4], &tagged(0x04, &FMSPC)),
        &entry(&[5], &[0x0a, 0x01, 1]),
    ])
}

fn tcb_info(published: &Published, day: &str) -> String {
    let zeros = "00".repeat(48);
    let svns = |svns: [u8; 16]| {
        let one = |svn: u8| format!(r#"{{"svn":{svn}}}"#);
        svns.map(one).join(",")
    };
    let sgx = svns([2, 2, 2, 2, 3, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0]);
    let tdx = svns([5, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let advisories = published.advisories.iter().map(|name| format!(r#""{name}""#)).collect::<Vec<_>>().join(",");
    let [from, to] = published.tcb_years;
    format!(
        r#"{{"id":"TDX","version":3,"issueDate":"{from}-{day}T00:00:00Z","nextUpdate":"{to}-{day}T00:00:00Z","fmspc":"{fmspc}","pceId":"0000","tcbType":0,"tcbEvaluationDataNumber":{evaluation},"tdxModule":{{"mrsigner":"{zeros}","attributes":"0000000000000000","attributesMask":"FFFFFFFFFFFFFFFF"}},"tdxModuleIdentities":[],"tcbLevels":[{{"tcb":{{"sgxtcbcomponents":[{sgx}],"pcesvn":11,"tdxtcbcomponents":[{tdx}]}},"tcbDate":"2024-03-13T00:00:00Z","tcbStatus":"{status}","advisoryIDs":[{advisories}]}}]}}"#,
        fmspc = hex::encode_upper(published.tcb_fmspc),
        status = published.status,
        evaluation = published.tcb_evaluation,
    )
}

const QE_IDENTITY: &str = r#"{"id":"TD_QE","version":2,"issueDate":"2025-11-20T00:00:00Z","nextUpdate":"2030-11-20T00:00:00Z","tcbEvaluationDataNumber":17,"miscselect":"00000000","miscselectMask":"FFFFFFFF","attributes":"11000000000000000000000000000000","attributesMask":"FBFFFFFFFFFFFFFF0000000000000000","mrsigner":"DCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDCDC","isvprodid":2,"tcbLevels":[{"tcb":{"isvsvn":4},"tcbDate":"2024-03-13T00:00:00Z","tcbStatus":"UpToDate"}]}"#;

/// As Intel's service answers.
fn answer(name: &str, text: &str, key: &EcdsaKeyPair) -> Vec<u8> {
    let signature = hex::encode(sign(key, text.as_bytes()));
    format!(r#"{{"{name}":{text},"signature":"{signature}"}}"#).into_bytes()
}

const ROOT: &str = "Intel SGX Root CA";
const PLATFORM: &str = "Intel SGX PCK Platform CA";
const SIGNING: &str = "Intel SGX TCB Signing";
/// 1.2.840.113741.1.13.1.
const SGX: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf8, 0x4d, 0x01, 0x0d, 0x01];
/// Intel's quoting enclaves say that they are Intel's.
const QE_VENDOR: [u8; 16] =
    [0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9, 0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07];

//! Certificate policies that are marked critical (RFC 5280, section 4.2.1.4), as `STMicroelectronics`' and Intel's
//! authorities for TPMs have them.
//!
//! No policy is demanded of a path here (`initial-policy-set` of section 6.1.1 is any-policy, `initial-explicit-policy` is not set), so every
//! set of policies is good: the extension has to be understood, and decides nothing. What may demand one, `policyConstraints`, is critical
//! itself and stays refused. webpki reads no policies, and refuses what is critical and unread: so it is shown such a certificate with that
//! one flag cleared, and each signature is checked over the bytes that were signed.

use std::ops::Range;

use rustls_pki_types::{AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm};

use super::der::{Elements, Extension, OBJECT_IDENTIFIER, SEQUENCE};

/// Certificates as webpki is shown them, and what was signed of those that are shown otherwise.
pub(super) struct Shown<'a> {
    pub(super) certificates: Vec<CertificateDer<'a>>,
    cleared: Vec<Cleared>,
}

impl<'a> Shown<'a> {
    pub(super) fn new(certificates: impl IntoIterator<Item = CertificateDer<'a>>) -> Self {
        let mut shown = Self { certificates: Vec::new(), cleared: Vec::new() };
        for certificate in certificates {
            let Some(critical) = find_critical(&certificate) else {
                shown.certificates.push(certificate);
                continue;
            };
            let mut der = certificate.to_vec();
            if let Some(flag) = der.get_mut(critical.flag) {
                *flag = FALSE;
            }
            let signed = der.get(critical.signed.clone()).unwrap_or_default().to_vec();
            shown.cleared.push(Cleared { shown: signed, flag: critical.flag - critical.signed.start });
            shown.certificates.push(der.into());
        }
        shown
    }

    /// The same algorithms, over what was signed.
    pub(super) fn algorithms(&self, all: &[&'static dyn SignatureVerificationAlgorithm]) -> Vec<OverSigned<'_>> {
        all.iter().map(|algorithm| OverSigned { algorithm: *algorithm, cleared: &self.cleared }).collect()
    }
}

/// The signed part of a certificate (`tbsCertificate`) as it is shown, and where the flag stands in it.
#[derive(Debug)]
struct Cleared {
    shown: Vec<u8>,
    flag: usize,
}

/// An algorithm that sets the flag again before it checks a signature.
#[derive(Debug)]
pub(super) struct OverSigned<'a> {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    cleared: &'a [Cleared],
}

impl SignatureVerificationAlgorithm for OverSigned<'_> {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let Some(Cleared { shown, flag }) = self.cleared.iter().find(|cleared| cleared.shown == message) else {
            return self.algorithm.verify_signature(key, message, signature);
        };
        let mut signed = shown.clone();
        if let Some(flag) = signed.get_mut(*flag) {
            *flag = TRUE;
        }
        self.algorithm.verify_signature(key, &signed, signature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.algorithm.signature_alg_id()
    }
}

/// Where a certificate says that its policies are critical, and which part of it is signed.
struct Critical {
    flag: usize,
    signed: Range<usize>,
}

/// Critical policies that are understood; `None` of any other certificate, which is shown as it is.
fn find_critical(der: &[u8]) -> Option<Critical> {
    let (signed, extensions) = Extension::all(der)?;
    let policies =
        extensions.into_iter().find(|extension| der.get(extension.id.clone()) == Some(CERTIFICATE_POLICIES))?;
    let flag = policies.critical.filter(|flag| flag.len() == 1 && der.get(flag.start) == Some(&TRUE))?;
    understood(der.get(policies.value)?).map(|()| Critical { flag: flag.start, signed })
}

/// Checks that these are policies, one at least, whose qualifiers are all known: of another nobody can say what it does to its policy.
fn understood(policies: &[u8]) -> Option<()> {
    let list = policies.get(Elements::of(policies).next_as(SEQUENCE)?).filter(|list| !list.is_empty())?;
    for (_, policy) in Elements::of(list) {
        let mut parts = Elements::of(list.get(policy)?);
        parts.next_as(OBJECT_IDENTIFIER)?;
        if parts.at == parts.end {
            continue;
        }
        let qualifiers = parts.der.get(parts.next_as(SEQUENCE)?)?;
        for (_, qualifier) in Elements::of(qualifiers) {
            let qualifier = qualifiers.get(qualifier)?;
            let id = qualifier.get(Elements::of(qualifier).next_as(OBJECT_IDENTIFIER)?)?;
            [PRACTICE_STATEMENT, USER_NOTICE].contains(&id).then_some(())?;
        }
    }
    Some(())
}

const TRUE: u8 = 0xff;
const FALSE: u8 = 0;
/// 2.5.29.32
const CERTIFICATE_POLICIES: &[u8] = &[0x55, 0x1d, 0x20];
/// id-qt-cps, 1.3.6.1.5.5.7.2.1: where the practice statement is.
const PRACTICE_STATEMENT: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x02, 0x01];
/// id-qt-unotice, 1.3.6.1.5.5.7.2.2: a text to be shown.
const USER_NOTICE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x02, 0x02];

//! Which of a policy's authorities no path leads over: an operator hears of it when the policy is made, and not by machines that are
//! refused.

use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor};
use serde::Serialize;
use webpki::EndEntityCert;
use x509_cert::Certificate;
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::ext::pkix::BasicConstraints;

use super::certificate::ALGORITHMS;
use super::certificate_policies::Shown;
use super::chain_error::words;
use super::published::{Validity, is_signed};
use crate::policy::{Chain, Policy, TrustRule};
use crate::reference::format_rfc3339;

/// An intermediate of a rule of trust that no certificate of a TPM's key can be verified by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnusableAuthority {
    /// Its subject, as RFC 4514 writes it; the authority's own word.
    pub name: String,
    /// Why.
    pub why: String,
}

impl Policy {
    /// The intermediates of `ek-chain` and `ak-chain` that are of no use at `now` (seconds since the Unix epoch). Roots are trusted as they
    /// are: nothing but their key and name is looked at.
    pub fn unusable_authorities(&self, now: u64) -> Vec<UnusableAuthority> {
        let chains = self.trust.iter().filter_map(|rule| match rule {
            TrustRule::EkChain(chain) => Some(chain),
            TrustRule::AkChain(rule) => Some(&rule.chain),
            _ => None,
        });
        chains.flat_map(|chain| unusable(chain, now)).collect()
    }
}

fn unusable(chain: &Chain, now: u64) -> Vec<UnusableAuthority> {
    let mut reached: Vec<TrustAnchor<'_>> = chain.anchors.clone();
    let mut waiting = Vec::new();
    let mut unusable = Vec::new();
    for der in &chain.intermediates {
        match check(der, now) {
            Ok(certificate) => waiting.push((der, certificate)),
            Err(refused) => unusable.push(refused),
        }
    }
    // Each round may make issuers of further ones known.
    loop {
        let before = waiting.len();
        waiting.retain(|(der, _)| {
            let issued = reached.iter().any(|issuer| is_signed(der, issuer, ALGORITHMS));
            if issued && let Ok(anchor) = webpki::anchor_from_trusted_cert(der) {
                reached.push(anchor.to_owned());
            }
            !issued
        });
        if waiting.len() == before {
            break;
        }
    }
    let without = waiting.into_iter().map(|(_, certificate)| {
        let known = |issuer: &TrustAnchor<'_>| is_named(&certificate, issuer);
        let why = if !is_known(&certificate) {
            "it is signed by an algorithm that is not taken (such as SHA-1); name it as a root to trust it as it is"
        } else if reached.iter().any(known) {
            "the signature is not by the key of the issuer that is named"
        } else {
            "its issuer is not among the roots and intermediates"
        };
        UnusableAuthority { name: name_of(&certificate), why: why.to_owned() }
    });
    unusable.extend(without);
    unusable
}

/// What it says of itself.
fn check(der: &CertificateDer<'_>, now: u64) -> Result<Certificate, UnusableAuthority> {
    let unreadable = |why: String| UnusableAuthority { name: "?".to_owned(), why };
    let certificate = Certificate::from_der(der).map_err(|error| unreadable(error.to_string()))?;
    let refuse = |why: String| Err(UnusableAuthority { name: name_of(&certificate), why });
    let shown = Shown::new([der.clone()]);
    if let Some(Err(error)) = shown.certificates.first().map(EndEntityCert::try_from) {
        return refuse(words(&error));
    }
    match certificate.tbs_certificate().get_extension::<BasicConstraints>() {
        Ok(Some((_, BasicConstraints { ca: true, .. }))) => {}
        _ => return refuse("it is not an authority's certificate (basicConstraints)".to_owned()),
    }
    let Validity { from, to } = Validity::of_certificate(&certificate);
    if now > to {
        return refuse(format!("it ended at {}", format_rfc3339(to)));
    }
    if now < from {
        return refuse(format!("it is valid from {} on", format_rfc3339(from)));
    }
    Ok(certificate)
}

fn is_known(certificate: &Certificate) -> bool {
    let Ok(algorithm) = certificate.signature_algorithm().to_der() else { return false };
    // SEQUENCE and its length, which is short; the library has the content.
    let content = algorithm.get(2..).unwrap_or_default();
    let of = |known: &&dyn SignatureVerificationAlgorithm| known.signature_alg_id().as_ref() == content;
    ALGORITHMS.iter().any(of)
}

fn is_named(certificate: &Certificate, issuer: &TrustAnchor<'_>) -> bool {
    let named = certificate.tbs_certificate().issuer().to_der().unwrap_or_default();
    named.ends_with(issuer.subject.as_ref()) && named.len() <= issuer.subject.len() + 4
}

fn name_of(certificate: &Certificate) -> String {
    certificate.tbs_certificate().subject().to_string()
}

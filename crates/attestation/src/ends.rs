//! What an admission rests on, and when each part of it ends: certificates, lists of what was revoked, what vendors say of a platform.
//! Roots are not among them: they count as long as a policy, or this program, has them.

use serde::Serialize;
use x509_cert::Certificate;
use x509_cert::der::{Decode as _, Encode as _};

use crate::policy::{Policy, TrustRule};
use crate::record::RecordedEvidence;
use crate::verify::{EkTrust, KnownBy, Validity};

/// Something that ends by its date. In order of their ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct End {
    /// When, in seconds since the Unix epoch.
    pub ends: u64,
    /// What, in words.
    pub what: String,
}

impl End {
    pub(crate) fn new(what: impl Into<String>, ends: u64) -> Self {
        Self { ends, what: what.into() }
    }
}

impl RecordedEvidence {
    /// What the trust in its TPM rests on: the certificate of the key that the TPM is known by, the intermediates between it and a root of
    /// the policy, and the lists of what these authorities revoked. Nothing where the key is pinned or a processor vouches for it. Nothing is verified here.
    pub fn ends_of_tpm(&self, trust: &EkTrust, policy: &Policy) -> Vec<End> {
        let identity = self.identity();
        if matches!(trust, EkTrust::PinnedEk | EkTrust::EkSvsm | EkTrust::AkAzureHcl) {
            return Vec::new();
        }
        let (name, certificate) = match trust.known_by() {
            KnownBy::EndorsementKey => ("endorsement", identity.ek_certificate()),
            KnownBy::AttestationKey => ("attestation", identity.ak_certificate()),
        };
        let Some(leaf) = certificate.and_then(Dated::of) else { return Vec::new() };
        let chains = policy.trust.iter().filter_map(|rule| match rule {
            TrustRule::EkChain(chain) => Some(chain),
            TrustRule::AkChain(rule) => Some(&rule.chain),
            TrustRule::PinnedEk(_) | TrustRule::EkSvsm(_) | TrustRule::AkAzureHcl(_) => None,
        });
        let of_policy = chains.flat_map(|chain| chain.intermediates.iter().filter_map(|der| Dated::of(der)));
        let candidates: Vec<_> = identity.ek_intermediates().filter_map(Dated::of).chain(of_policy).collect();
        let (mut ends, mut issuer) =
            (vec![End::new(format!("the certificate of its {name} key"), leaf.ends)], leaf.issuer);
        for _ in 0..MOST_INTERMEDIATES {
            ends.extend(
                policy
                    .revoked
                    .dated()
                    .iter()
                    .filter(|list| list.issuer == issuer)
                    .map(|list| End { ends: list.validity.to, what: format!("the list of what {} revoked", list.of) }),
            );
            let Some(next) = candidates.iter().find(|one| one.subject == issuer && one.issuer != issuer) else { break };
            ends.push(End::new("the certificate of an authority between it and the root", next.ends));
            issuer.clone_from(&next.issuer);
        }
        ends.sort();
        ends
    }
}

/// Names of a certificate, in DER, and when it ends.
struct Dated {
    subject: Vec<u8>,
    issuer: Vec<u8>,
    ends: u64,
}

impl Dated {
    fn of(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?;
        let fields = certificate.tbs_certificate();
        let (subject, issuer) = (fields.subject().to_der().ok()?, fields.issuer().to_der().ok()?);
        Some(Self { subject, issuer, ends: Validity::of_certificate(&certificate).to })
    }
}

/// webpki builds no longer paths.
const MOST_INTERMEDIATES: usize = 6;

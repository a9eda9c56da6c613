//! Why a TPM is trusted, and by which of its keys it is known.

use serde::Serialize;

use super::certificate;
use crate::ek::{EkDigest, EndorsementKey};
use crate::parse::{AttesterIdentity, Digest};
use crate::policy::{Policy, TpmRevocations, TrustRule};
use crate::refusal::{ReasonCode, Refusal};
use latchkey_tpm::wire::Public;

/// What made a TPM trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EkTrust {
    /// The policy lists its endorsement key's digest.
    PinnedEk,
    /// Its endorsement key's certificate chains to a root of the policy.
    EkChain {
        /// SHA-256 of that root's DER.
        root_sha256: Digest,
    },
    /// Its attestation key's certificate chains to a root of the policy.
    AkChain {
        /// SHA-256 of that root's DER.
        root_sha256: Digest,
    },
    /// A SEV-SNP report of VMPL 0 is over its endorsement key, as the key of its SVSM's TPM. Of verified evidence this is true once the
    /// processor's word is verified, which [`Policy::validate`] demands.
    EkSvsm,
    /// A SEV-SNP report of VMPL 0 is over its attestation key, as the key of Azure's paravisor's TPM. The same holds of when.
    AkAzureHcl,
}

impl EkTrust {
    /// Which of a TPM's keys it is known by where it is trusted for this.
    pub fn known_by(&self) -> KnownBy {
        match self {
            Self::PinnedEk | Self::EkChain { .. } | Self::EkSvsm => KnownBy::EndorsementKey,
            Self::AkChain { .. } | Self::AkAzureHcl => KnownBy::AttestationKey,
        }
    }

    /// By which of its keys a TPM is known that is trusted for this. An endorsement key that is neither pinned nor certified could be
    /// a program's: who has one certified attestation key would be as many machines as they like.
    fn names(&self, ek: EkDigest, ak: EkDigest) -> EkDigest {
        match self.known_by() {
            KnownBy::EndorsementKey => ek,
            KnownBy::AttestationKey => ak,
        }
    }

    /// The same of an identity as it was sent.
    pub(crate) fn identity_in(&self, identity: &AttesterIdentity) -> Result<EkDigest, Refusal> {
        let malformed = |error: latchkey_tpm::wire::WireError| Refusal::new(ReasonCode::AkMalformed, error.to_string());
        let ak = Public::parse(identity.ak_public()).map_err(malformed)?;
        Ok(self.names(EkDigest::of_public_area(identity.ek_public())?, EkDigest::of_attestation_key(&ak)?))
    }
}

/// The key by whose digest a TPM is known: in records, denials and the join service's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownBy {
    /// The endorsement key: it is pinned or certified, or a processor vouches for it.
    EndorsementKey,
    /// The attestation key: it is certified, or a processor vouches for it, and nothing vouches for the endorsement key beside it.
    AttestationKey,
}

impl KnownBy {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndorsementKey => "endorsement-key",
            Self::AttestationKey => "attestation-key",
        }
    }

    /// The digest that a TPM would be known by, as it claims to be, before anything is verified; `None` if that key is none.
    pub fn claimed(self, identity: &AttesterIdentity) -> Option<EkDigest> {
        match self {
            Self::EndorsementKey => EkDigest::of_public_area(identity.ek_public()).ok(),
            Self::AttestationKey => EkDigest::of_attestation_key(&Public::parse(identity.ak_public()).ok()?).ok(),
        }
    }
}

/// Tries the policy's rules in their order; gives what held, and the TPM's identity. The refusal is the last rule's, which says
/// most: pins come first.
pub(super) fn trust(
    ek: &EndorsementKey,
    ak: &Public,
    policy: &Policy,
    identity: &AttesterIdentity,
    now: u64,
) -> Result<(EkTrust, EkDigest), Refusal> {
    let ak_digest = EkDigest::of_attestation_key(ak)?;
    for (key, digest) in [("EK", ek.digest), ("AK", ak_digest)] {
        if policy.denied.contains(&digest) {
            return Err(Refusal::new(ReasonCode::EkDenied, format!("{key} {digest}")));
        }
    }
    // Before any rule: another key of a denied TPM may be certified too, and one TPM is to have one record.
    if !policy.templates.contains(ek.template) {
        let detail = format!("the EK is of template {}, the policy takes {}", ek.template, policy.templates);
        return Err(Refusal::new(ReasonCode::EkTemplateRefused, detail));
    }
    let mut refusal = Refusal::new(ReasonCode::PolicyEmpty, "`ak_trust` has no rule");
    for rule in &policy.trust {
        match trust_by(rule, ek, ak, (identity, &policy.revoked), now) {
            Ok(trust) => {
                let name = trust.names(ek.digest, ak_digest);
                return Ok((trust, name));
            }
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

fn trust_by(
    rule: &TrustRule,
    ek: &EndorsementKey,
    ak: &Public,
    (identity, revoked): (&AttesterIdentity, &TpmRevocations),
    now: u64,
) -> Result<EkTrust, Refusal> {
    match rule {
        TrustRule::PinnedEk(pins) if pins.contains(&ek.digest) => Ok(EkTrust::PinnedEk),
        TrustRule::PinnedEk(_) => Err(Refusal::new(ReasonCode::EkNotPinned, format!("EK {}", ek.digest))),
        TrustRule::EkChain(chain) => certificate::check_ek(chain, &ek.public, identity, revoked, now)
            .map(|root_sha256| EkTrust::EkChain { root_sha256 }),
        TrustRule::AkChain(rule) => {
            certificate::check_ak(rule, ak, identity, revoked, now).map(|root_sha256| EkTrust::AkChain { root_sha256 })
        }
        // Loading saw to it that such a policy demands the processor's report: without it nobody is admitted.
        TrustRule::EkSvsm(_) => Ok(EkTrust::EkSvsm),
        TrustRule::AkAzureHcl(_) => Ok(EkTrust::AkAzureHcl),
    }
}

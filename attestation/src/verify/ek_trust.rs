//! Why an endorsement key is trusted.

use serde::Serialize;

use super::certificate;
use crate::ek::EndorsementKey;
use crate::parse::{AttesterIdentity, Digest};
use crate::policy::{Policy, TrustRule};
use crate::refusal::{ReasonCode, Refusal};

/// What made an endorsement key trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EkTrust {
    /// The policy lists its digest.
    PinnedEk,
    /// Its certificate chains to a root of the policy.
    EkChain {
        /// SHA-256 of that root's DER.
        root_sha256: Digest,
    },
}

impl EndorsementKey {
    /// Tries the policy's rules in their order. The refusal is the last rule's, which says most: pins come first.
    pub(crate) fn trust(&self, policy: &Policy, identity: &AttesterIdentity, now: u64) -> Result<EkTrust, Refusal> {
        if policy.denied.contains(&self.digest) {
            return Err(Refusal::new(ReasonCode::EkDenied, format!("EK {}", self.digest)));
        }
        // Before any rule: another key of a denied TPM may be certified too, and one TPM is to have one record.
        if !policy.templates.contains(self.template) {
            let detail = format!("the EK is of template {}, the policy takes {}", self.template, policy.templates);
            return Err(Refusal::new(ReasonCode::EkTemplateRefused, detail));
        }
        let mut refusal = Refusal::new(ReasonCode::PolicyEmpty, "`ak_trust` has no rule");
        for rule in &policy.trust {
            match self.trust_by(rule, identity, now) {
                Ok(trust) => return Ok(trust),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn trust_by(&self, rule: &TrustRule, identity: &AttesterIdentity, now: u64) -> Result<EkTrust, Refusal> {
        match rule {
            TrustRule::PinnedEk(pins) if pins.contains(&self.digest) => Ok(EkTrust::PinnedEk),
            TrustRule::PinnedEk(_) => Err(Refusal::new(ReasonCode::EkNotPinned, format!("EK {}", self.digest))),
            TrustRule::EkChain(chain) => certificate::check(chain, &self.public, identity, now)
                .map(|root_sha256| EkTrust::EkChain { root_sha256 }),
        }
    }
}

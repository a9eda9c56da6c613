//! Demands a TPM: trusted endorsement key, admitted image, node lock as it must be.

use std::fmt;
use std::sync::Arc;

use latchkey_attestation::parse::{AttesterIdentity, Digest, TpmEvidence};
use latchkey_attestation::verify::Pending;
#[cfg(feature = "processors")]
use latchkey_attestation::verify::ProcessorCollateral;
use latchkey_attestation::{Admission, LockExpectation, Policy, References, Refusal, VerifiedEvidence};
use ring::rand::SystemRandom;

use crate::binding::Binding;
use crate::message::{Demand, Evidence, Identity};
use crate::misuse::MisuseError;
use crate::proof::{Appraisal, AppraisalError, Claim, PeerProof, Verifier};
use crate::purpose::{Kind, Kinds};
use crate::refusal::PeerRefusal;

/// Told of evidence whose quote is verified, and that is not yet admitted: for audit, and for recording reference values. What a
/// processor says beside it is not verified yet: where a rule of trust takes the processor's word for the TPM, nobody vouches for it here.
pub type Observer = dyn Fn(&AttesterIdentity, &TpmEvidence, &VerifiedEvidence) + Send + Sync;

/// Accepts a machine by policy and reference values. Cheap to make: a server makes one per connection from the
/// snapshot that is current, so a reload never changes a handshake under way.
#[derive(Clone)]
pub struct TpmVerifier {
    policy: Arc<Policy>,
    references: Arc<References>,
    lock: LockExpectation,
    observer: Option<Arc<Observer>>,
    #[cfg(feature = "processors")]
    collateral: Option<Arc<ProcessorCollateral>>,
}

impl TpmVerifier {
    /// Demands that the peer satisfies `policy` with one of the images of `references`, and `lock`.
    pub fn new(policy: Arc<Policy>, references: Arc<References>, lock: LockExpectation) -> Self {
        Self {
            policy,
            references,
            lock,
            observer: None,
            #[cfg(feature = "processors")]
            collateral: None,
        }
    }

    /// Verifies by this collateral what processors say, where the policy demands that they do.
    #[cfg(feature = "processors")]
    #[must_use]
    pub fn with_collateral(self, collateral: Arc<ProcessorCollateral>) -> Self {
        Self { collateral: Some(collateral), ..self }
    }

    /// A policy that demands what nobody here can verify admits nobody.
    fn check_means(&self) -> Result<(), Refusal> {
        #[cfg(feature = "processors")]
        if let Some(collateral) = &self.collateral {
            return collateral.check_means(&self.policy);
        }
        self.policy.check_demands_no_processor()
    }

    #[cfg(feature = "processors")]
    fn with_processor(
        &self,
        verified: VerifiedEvidence,
        evidence: &TpmEvidence,
        now: u64,
    ) -> Result<VerifiedEvidence, Refusal> {
        match &self.collateral {
            Some(collateral) => verified.with_processor(evidence, &self.policy, collateral, now),
            // Policy::validate refuses what lacks it.
            None => Ok(verified),
        }
    }

    /// Calls `observer` with every piece of evidence whose quote verifies, before the policy decides on it.
    #[must_use]
    pub fn observed_by(self, observer: Arc<Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }
}

impl fmt::Debug for TpmVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TpmVerifier").field("lock", &self.lock).finish_non_exhaustive()
    }
}

impl Verifier for TpmVerifier {
    fn accepts(&self) -> Kinds {
        Kinds::of(&[Kind::Tpm])
    }

    fn begin(&self, claim: &Claim<'_>) -> Result<(Demand, Box<dyn Appraisal>), AppraisalError> {
        if !self.lock.is_within(claim.rule.lock) {
            return Err(AppraisalError::Misuse(MisuseError::Lock { allowed: claim.rule.lock }));
        }
        let Identity::Tpm(identity) = claim.identity else {
            return Err(PeerRefusal::KindNotAccepted { accepted: self.accepts(), got: claim.identity.kind() }.into());
        };
        self.check_means().map_err(PeerRefusal::Evidence)?;
        let begun = latchkey_attestation::Appraisal::begin(&self.policy, identity, claim.now, &SystemRandom::new());
        let (challenge, pending) = begun.map_err(PeerRefusal::Evidence)?;
        let appraisal = TpmAppraisal { demands: self.clone(), identity: identity.clone(), pending };
        Ok((Demand::Tpm(challenge), Box::new(appraisal)))
    }
}

struct TpmAppraisal {
    demands: TpmVerifier,
    identity: AttesterIdentity,
    pending: Pending,
}

impl Appraisal for TpmAppraisal {
    fn conclude(self: Box<Self>, evidence: &Evidence, binding: &Binding, now: u64) -> Result<PeerProof, PeerRefusal> {
        let Evidence::Tpm(evidence) = evidence else {
            return Err(PeerRefusal::KindChanged { expected: Kind::Tpm, got: evidence.kind() });
        };
        let Self { demands, identity, pending } = *self;
        let verified = pending.confirm(evidence.activated_secret())?.verify(evidence, binding.as_bytes())?;
        // Before the processor's word: who lacks a certificate for its report needs the report to get it.
        if let Some(observer) = &demands.observer {
            observer(&identity, evidence, &verified);
        }
        #[cfg(feature = "processors")]
        let verified = demands.with_processor(verified, evidence, now)?;
        let admission = demands.policy.validate(&verified, &demands.references, demands.lock, now)?;
        Ok(PeerProof::Tpm(Box::new(TpmPeer { admission, verified })))
    }
}

/// Witness: the peer of this session is a machine with this TPM, image and node lock.
#[derive(Clone, Debug)]
pub struct TpmPeer {
    admission: Admission,
    verified: VerifiedEvidence,
}

impl TpmPeer {
    /// What the policy admitted: endorsement key, image, warnings.
    pub const fn admission(&self) -> &Admission {
        &self.admission
    }

    /// What the TPM quoted.
    pub const fn verified(&self) -> &VerifiedEvidence {
        &self.verified
    }

    /// The node lock: the quoted value of PCR 15, `None` when it is zero.
    pub fn lock(&self) -> Option<Digest> {
        self.verified.pcrs().value(Policy::LOCK_PCR).filter(|value| *value != Digest::ZERO)
    }
}

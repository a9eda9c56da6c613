//! Verify: keys and signatures. Every step consumes the one before; a wrong answer drops what was pending.
//!
//! ```text
//! Appraisal::begin(policy, identity) ─→ (TpmChallenge, Pending) ─confirm(secret)→ TrustedAk ─verify(evidence, binding)→ VerifiedEvidence
//! ```
//!
//! Where the policy has a section `snp` or `tdx` the challenge asks for a processor's word as well, and
//! `VerifiedEvidence::with_processor` verifies it.

mod ak;
#[cfg(feature = "processors")]
mod authorities;
mod certificate;
mod certificate_policies;
mod chain_error;
mod credential;
mod der;
mod ek_trust;
#[cfg(feature = "processors")]
mod hcl;
mod processor;
#[cfg(feature = "processors")]
mod published;
mod quote;
#[cfg(feature = "processors")]
pub mod snp;
#[cfg(feature = "processors")]
mod svsm;
#[cfg(feature = "processors")]
pub mod tdx;

use std::sync::Arc;

use latchkey_tpm::wire::{ClockInfo, EkTemplate, Public};
use ring::rand::SecureRandom;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::ek::EndorsementKey;
use crate::parse::{AttesterIdentity, PcrSet, PcrValues, TpmChallenge, TpmEvidence};
use crate::policy::Policy;
use crate::refusal::{ReasonCode, Refusal};

pub use crate::ek::EkDigest;
#[cfg(feature = "processors")]
pub use authorities::UnusableAuthority;
pub(crate) use chain_error::words as chain_words;
pub use ek_trust::{EkTrust, KnownBy};
#[cfg(not(feature = "processors"))]
pub(crate) use processor::not_verifiable;
#[cfg(feature = "processors")]
pub use processor::{ProcessorCollateral, VerifiedProcessor};
#[cfg(feature = "processors")]
pub(crate) use processor::{Session, check_kind};
#[cfg(feature = "processors")]
pub use published::{CollateralFile, Validity};
#[cfg(feature = "processors")]
pub(crate) use published::{common_name, sha256};
pub(crate) use quote::{QuoteFacts, check_quote};

/// Where an appraisal begins.
#[derive(Debug)]
pub struct Appraisal;

impl Appraisal {
    /// Checks an identity against the policy and makes a credential that only its TPM can open, and only for its AK.
    ///
    /// `now` is in seconds since the Unix epoch; certificates are judged by it. Costs one certificate chain (if the
    /// policy demands one) and one ECDH: rate limits belong before it.
    ///
    /// # Errors
    /// * `ek-…`: the endorsement key is not acceptable, pinned or certified.
    /// * `ak-…`: the attestation key could sign what no TPM made, or could leave its TPM.
    /// * `verifier-fault`: no randomness.
    pub fn begin(
        policy: &Policy,
        identity: &AttesterIdentity,
        now: u64,
        random: &dyn SecureRandom,
    ) -> Result<(TpmChallenge, Pending), Refusal> {
        let claimed = check_identity(policy, identity, now)?;
        let mut secret = Zeroizing::new(vec![0; SECRET_LEN]);
        random.fill(&mut secret).map_err(|_| Refusal::new(ReasonCode::VerifierFault, "no random numbers"))?;
        let credential = credential::make(&claimed.ek.public, &claimed.ak.name(), &secret, random)?;
        let challenge = TpmChallenge::new(credential, policy.selection(), (policy.processors(), policy.vmpl()));
        Ok((challenge, Pending { secret, claimed, selection: policy.selection() }))
    }
}

/// A challenge that waits for its answer. Good for one answer: [`Pending::confirm`] consumes it, right or wrong.
#[must_use = "evidence proves nothing before the challenge is answered"]
pub struct Pending {
    secret: Zeroizing<Vec<u8>>,
    claimed: Claimed,
    selection: PcrSet,
}

impl Pending {
    /// Takes the secret that the attester's TPM found in the credential.
    ///
    /// # Errors
    /// `activation-failed`: EK and AK are not in one TPM, or this is the answer to another challenge.
    pub fn confirm(self, activated: &[u8]) -> Result<TrustedAk, Refusal> {
        // Lengths are public; of equal lengths nothing but equality shows in the time taken.
        if bool::from(self.secret.as_slice().ct_eq(activated)) {
            return Ok(TrustedAk { claimed: self.claimed, selection: self.selection });
        }
        Err(Refusal::new(ReasonCode::ActivationFailed, "the returned secret is not the one in the credential"))
    }

    /// The identity that was claimed, for logs and rate limits. Not proven yet.
    pub fn claimed_ek(&self) -> EkDigest {
        self.claimed.identity
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("claimed_ek", &self.claimed.identity).finish_non_exhaustive()
    }
}

/// The witness that an attestation key is in the TPM with a trusted endorsement key. Good for one quote.
#[derive(Debug)]
#[must_use = "a trusted key says nothing about what the machine runs"]
pub struct TrustedAk {
    claimed: Claimed,
    selection: PcrSet,
}

impl TrustedAk {
    /// Checks the quote: made in the TPM, signed by this AK, over `binding`, covering exactly the policy's PCRs of the
    /// SHA-256 bank, with exactly these values.
    ///
    /// `binding` is the session's: whoever makes it up must put purpose, direction, both nonces and the TLS exporter in.
    ///
    /// # Errors
    /// `quote-…`, `signature-…`, `pcr-…`.
    pub fn verify(self, evidence: &TpmEvidence, binding: &[u8; 32]) -> Result<VerifiedEvidence, Refusal> {
        let (quote, signature) = (evidence.quote(), evidence.signature());
        let Claimed { ek, ak, .. } = &self.claimed;
        let facts = check_quote(&ek.public, ak, quote, signature, evidence.pcrs(), self.selection, binding)?;
        Ok(VerifiedEvidence {
            ek_digest: self.claimed.identity,
            ek_template: self.claimed.ek.template,
            trust: self.claimed.trust,
            pcrs: evidence.pcrs().clone(),
            facts,
            binding: *binding,
            event_log: evidence.event_log().map(Arc::from),
            #[cfg(feature = "processors")]
            ak: self.claimed.ak,
            #[cfg(feature = "processors")]
            processor: None,
        })
    }

    /// The TPM's stable identity.
    pub fn ek_digest(&self) -> EkDigest {
        self.claimed.identity
    }
}

/// The witness that a TPM with a trusted EK quoted these PCRs for this session. Says nothing about whether their values
/// are good: that is [`Policy::validate`].
#[derive(Debug, Clone)]
#[must_use = "verified measurements may still be those of an impostor"]
pub struct VerifiedEvidence {
    ek_digest: EkDigest,
    ek_template: EkTemplate,
    trust: EkTrust,
    pcrs: PcrValues,
    facts: QuoteFacts,
    binding: [u8; 32],
    event_log: Option<Arc<[u8]>>,
    #[cfg(feature = "processors")]
    ak: Public,
    #[cfg(feature = "processors")]
    processor: Option<VerifiedProcessor>,
}

impl VerifiedEvidence {
    /// The TPM's stable identity.
    pub fn ek_digest(&self) -> EkDigest {
        self.ek_digest
    }

    /// Which of the TPM's endorsement keys it is.
    pub fn ek_template(&self) -> EkTemplate {
        self.ek_template
    }

    /// What made the TPM trusted.
    pub fn trust(&self) -> &EkTrust {
        &self.trust
    }

    /// The quoted values.
    pub fn pcrs(&self) -> &PcrValues {
        &self.pcrs
    }

    /// The TPM's clock and its reset and restart counters when it quoted. A change of either counter during a session
    /// means that the TPM was reset under it.
    pub fn clock(&self) -> ClockInfo {
        self.facts.clock
    }

    /// The TPM vendor's number of its firmware.
    pub fn firmware_version(&self) -> u64 {
        self.facts.firmware_version
    }

    /// The session the evidence is for.
    pub fn binding(&self) -> &[u8; 32] {
        &self.binding
    }

    /// The event log as the attester sent it. Not covered by the quote: believe it only after replaying it to
    /// [`Self::pcrs`].
    pub fn unverified_event_log(&self) -> Option<&[u8]> {
        self.event_log.as_deref()
    }

    /// Verifies what the machine's processor says of it, where the policy demands that one does: hardware of its vendor signed it, over
    /// this session and this very AK. `now` is in seconds since the Unix epoch.
    ///
    /// # Errors
    /// `snp-report-missing`, `tdx-quote-missing`; `snp-…`, `tdx-…`: what [`ProcessorCollateral`] refuses.
    #[cfg(feature = "processors")]
    pub fn with_processor(
        self,
        evidence: &TpmEvidence,
        policy: &Policy,
        collateral: &ProcessorCollateral,
        now: u64,
    ) -> Result<Self, Refusal> {
        let session = Session { binding: &self.binding, identity: self.ek_digest, ak: &self.ak };
        let processor = collateral.verify(policy, evidence.processor(), session, now)?;
        Ok(Self { processor, ..self })
    }

    /// What the processor said, where it was asked.
    #[cfg(feature = "processors")]
    pub fn processor(&self) -> Option<&VerifiedProcessor> {
        self.processor.as_ref()
    }

    /// The same, for who needs it longer: a log has up to 128 KiB.
    pub fn shared_unverified_event_log(&self) -> Option<Arc<[u8]>> {
        self.event_log.clone()
    }
}

/// An identity whose keys have the right form, and of which the policy trusts the EK or the AK. Whether they belong together is not
/// known before activation.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) ek: EndorsementKey,
    /// The digest of the key that is trusted.
    pub(crate) identity: EkDigest,
    pub(crate) trust: EkTrust,
    pub(crate) ak: Public,
}

pub(crate) fn check_identity(policy: &Policy, identity: &AttesterIdentity, now: u64) -> Result<Claimed, Refusal> {
    let ek = EndorsementKey::parse(identity.ek_public())?;
    let ak = ak::parse(policy, identity.ak_public())?;
    let (trust, identity) = ek_trust::trust(&ek, &ak, policy, identity, now)?;
    Ok(Claimed { ek, identity, trust, ak })
}

/// As long as the AES key and HMAC of the credential are strong.
const SECRET_LEN: usize = 32;

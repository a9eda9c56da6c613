//! Evidence kept in a file: what one can still prove from it later, and what one cannot.
//!
//! A recording has everything but the activated secret. Checked again offline, it proves that a key with an AK's
//! attributes signed this quote over this binding and that the measurements match. It does *not* prove what the
//! challenge and the session proved to whoever recorded it: see [`Unproven`]. So checking a recording gives an
//! [`OfflineFinding`], never an [`Admission`](crate::Admission).

use latchkey_tpm::wire::{EkTemplate, Public};
use serde::{Deserialize, Serialize};

use crate::parse::{AttesterIdentity, Bytes, Digest, PcrValues, ProcessorEvidence, TpmEvidence, from_json};
use crate::policy::{Policy, by_name};
use crate::reference::References;
use crate::refusal::{ReasonCode, Refusal};
use crate::validate::{AdmittedImage, FirmwareStanding, LockExpectation, Match, Warning, match_image};
use crate::verify::{Claimed, EkDigest, EkTrust, QuoteFacts, VerifiedEvidence, check_identity, check_quote};
#[cfg(feature = "processors")]
use crate::{
    validate::{AdmittedProcessor, admit_processor},
    verify::{ProcessorCollateral, Session},
};

/// Evidence of one session, as its verifier kept it. Closed, versioned JSON of at most 512 KiB; of version 2 where it has what a
/// processor said (`processor`), and else of version 1.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedEvidence {
    version: u64,
    recorded_at: u64,
    recorded_by: String,
    binding: Digest,
    identity: AttesterIdentity,
    quote: Bytes<1024>,
    signature: Bytes<1024>,
    pcrs: PcrValues,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event_log: Option<Bytes<{ 128 * 1024 }>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    processor: Option<ProcessorEvidence>,
}

impl RecordedEvidence {
    /// The longest recording that is read, in bytes.
    pub const MAX_JSON: usize = 512 * 1024;

    /// Keeps the evidence of a session. `verified` is the witness that it was good when it came; `recorded_by` names
    /// program and place in at most 256 bytes; `recorded_at` is in seconds since the Unix epoch.
    ///
    /// # Errors
    /// `recording-malformed` when `recorded_by` is too long, or the parts are not of one session.
    pub fn new(
        identity: &AttesterIdentity,
        evidence: &TpmEvidence,
        verified: &VerifiedEvidence,
        recorded_by: &str,
        recorded_at: u64,
    ) -> Result<Self, Refusal> {
        if verified.trust().identity_in(identity)? != verified.ek_digest() || evidence.pcrs() != verified.pcrs() {
            return Err(malformed("identity and evidence are of different sessions"));
        }
        let too_long = || malformed("the evidence is larger than a recording");
        let recording = Self {
            version: version(evidence.processor()),
            recorded_at,
            recorded_by: recorded_by.to_owned(),
            binding: Digest(*verified.binding()),
            identity: identity.clone(),
            quote: Bytes::new(evidence.quote().to_vec()).ok_or_else(too_long)?,
            signature: Bytes::new(evidence.signature().to_vec()).ok_or_else(too_long)?,
            pcrs: evidence.pcrs().clone(),
            event_log: evidence.event_log().map(|log| Bytes::new(log.to_vec()).ok_or_else(too_long)).transpose()?,
            processor: evidence.processor().cloned(),
        };
        recording.check()
    }

    /// Reads a recording.
    ///
    /// # Errors
    /// `recording-malformed`, `recording-version-unknown`.
    pub fn from_json(json: &[u8]) -> Result<Self, Refusal> {
        let VersionOnly { version } = from_json(json, Self::MAX_JSON, ReasonCode::RecordingMalformed)?;
        if !(1..=NEWEST).contains(&version) {
            let detail = format!("expected a recording of version 1 to {NEWEST}, got {version}");
            return Err(Refusal::new(ReasonCode::RecordingVersionUnknown, detail));
        }
        from_json::<Self>(json, Self::MAX_JSON, ReasonCode::RecordingMalformed)?.check()
    }

    /// The JSON form, for a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Program and place that recorded, as they said.
    pub fn recorded_by(&self) -> &str {
        &self.recorded_by
    }

    /// When, in seconds since the Unix epoch, as they said.
    pub fn recorded_at(&self) -> u64 {
        self.recorded_at
    }

    /// The claimed identity.
    pub fn identity(&self) -> &AttesterIdentity {
        &self.identity
    }

    /// The claimed PCR values.
    pub fn pcrs(&self) -> &PcrValues {
        &self.pcrs
    }

    /// The firmware's event log, not covered by the quote.
    pub fn unverified_event_log(&self) -> Option<&[u8]> {
        self.event_log.as_ref().map(Bytes::as_slice)
    }

    /// What the machine's processor said, not verified.
    pub fn unverified_processor(&self) -> Option<&ProcessorEvidence> {
        self.processor.as_ref()
    }

    /// Checks what can be checked without the attester: keys, certificates at `now`, the quote's signature, binding,
    /// PCRs, and the policy. `now` is in seconds since the Unix epoch: pass the present to ask whether this machine
    /// would be admitted today, or [`Self::recorded_at`] to ask about then.
    ///
    /// # Errors
    /// Every code of [`verify`](crate::verify) and [`validate`](crate::validate) but `activation-failed`;
    /// `snp-not-verifiable`, `tdx-not-verifiable` where the policy demands a processor's word: that takes
    /// `appraise_recorded_with_processor`.
    pub fn appraise_recorded(
        &self,
        policy: &Policy,
        references: &References,
        lock: LockExpectation,
        now: u64,
    ) -> Result<OfflineFinding, Refusal> {
        policy.check_demands_no_processor()?;
        self.appraise_tpm(policy, references, lock, now).map(|(finding, _)| finding)
    }

    /// The same, and what the processor said where the policy demands that one vouches.
    ///
    /// # Errors
    /// As [`Self::appraise_recorded`]; and what [`VerifiedEvidence::with_processor`] and [`Policy::validate`] refuse of processors.
    #[cfg(feature = "processors")]
    pub fn appraise_recorded_with_processor(
        &self,
        policy: &Policy,
        references: &References,
        lock: LockExpectation,
        now: u64,
        collateral: &ProcessorCollateral,
    ) -> Result<OfflineFinding, Refusal> {
        let (finding, ak) = self.appraise_tpm(policy, references, lock, now)?;
        let session = Session { binding: self.binding.as_bytes(), identity: finding.claimed_ek_sha256, ak: &ak };
        let verified = collateral.verify(policy, self.processor.as_ref(), session, now)?;
        let processor = admit_processor(policy, verified.as_ref(), &finding.image, references, now)?;
        Ok(OfflineFinding { processor, ..finding })
    }

    /// What the TPM said. The AK comes along: a report must be over its name.
    fn appraise_tpm(
        &self,
        policy: &Policy,
        references: &References,
        lock: LockExpectation,
        now: u64,
    ) -> Result<(OfflineFinding, Public), Refusal> {
        let Claimed { ek, identity, trust, ak } = check_identity(policy, &self.identity, now)?;
        let (quote, signature) = (self.quote.as_slice(), self.signature.as_slice());
        let binding = self.binding.as_bytes();
        let facts = check_quote(&ek.public, &ak, quote, signature, &self.pcrs, policy.selection(), binding)?;
        let Match { image, warnings, firmware, .. } = match_image(policy, &self.pcrs, references, now)?;
        let locked = lock.check(&self.pcrs)?;
        let QuoteFacts { clock, firmware_version } = facts;
        let finding = OfflineFinding {
            recorded_at: self.recorded_at,
            recorded_by: self.recorded_by.clone(),
            claimed_ek_sha256: identity,
            ek_template: ek.template,
            trust,
            image,
            locked,
            pcrs: self.pcrs.clone(),
            reset_count: clock.reset_count,
            restart_count: clock.restart_count,
            firmware_version,
            warnings,
            firmware,
            #[cfg(feature = "processors")]
            processor: None,
            unproven: Unproven::ALL,
        };
        Ok((finding, ak))
    }

    fn check(self) -> Result<Self, Refusal> {
        if self.recorded_by.len() > MAX_RECORDED_BY {
            return Err(malformed("`recorded_by` is longer than 256 bytes"));
        }
        if self.version != version(self.processor.as_ref()) {
            return Err(malformed("a recording of version 2 has `processor`, one of version 1 has not"));
        }
        Ok(self)
    }
}

/// What a recording shows. Not a witness: nothing may be released for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfflineFinding {
    /// When it was recorded, as the recorder said; seconds since the Unix epoch.
    pub recorded_at: u64,
    /// Who recorded, as they said.
    pub recorded_by: String,
    /// The EK in the recording, or the AK where that is what the policy trusts. An EK is not proven to be of the TPM that quoted.
    pub claimed_ek_sha256: EkDigest,
    /// Which of a TPM's endorsement keys it is.
    #[serde(serialize_with = "by_name")]
    pub ek_template: EkTemplate,
    /// What makes that EK trusted.
    pub trust: EkTrust,
    /// The image whose measurements were quoted.
    pub image: AdmittedImage,
    /// Whether the node was locked to the cluster asked for; `false` means not locked to any.
    pub locked: bool,
    /// The quoted values.
    pub pcrs: PcrValues,
    /// Resets of the TPM since it was cleared.
    pub reset_count: u32,
    /// Suspends and resumes since the last reset.
    pub restart_count: u32,
    /// The TPM vendor's number of its firmware.
    pub firmware_version: u64,
    /// Differences that the policy only warns about.
    pub warnings: Vec<Warning>,
    /// Whether the machine's firmware is one that a manifest lists.
    pub firmware: FirmwareStanding,
    /// The processor that vouched for the machine, where the policy demands one.
    #[cfg(feature = "processors")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<AdmittedProcessor>,
    /// What only the live session could prove.
    pub unproven: &'static [Unproven],
}

/// What no recording can prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unproven {
    /// That AK and EK are in one TPM: only the answer to a fresh credential shows it. Whoever wrote the file could have
    /// joined a genuine EK certificate with an AK made in software.
    Activation,
    /// That the quote is recent and for a session with the recorder: the binding's inputs are gone.
    Freshness,
    /// Who recorded, and when: the file is not signed.
    Provenance,
}

impl Unproven {
    /// All of them: they hold for every recording.
    pub const ALL: &'static [Self] = &[Self::Activation, Self::Freshness, Self::Provenance];

    /// One sentence for a report.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Activation => {
                "that the attestation key is in the TPM of this endorsement key (needs a live challenge)"
            }
            Self::Freshness => "that the quote is recent and was made for this verifier (needs a live session)",
            Self::Provenance => "who recorded the evidence and when (the file is not signed)",
        }
    }
}

/// Only the version is read first, so that a newer file is refused as newer and not as full of unknown fields.
#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

fn malformed(detail: &str) -> Refusal {
    Refusal::new(ReasonCode::RecordingMalformed, detail)
}

/// The version of a recording.
fn version(processor: Option<&ProcessorEvidence>) -> u64 {
    if processor.is_some() { NEWEST } else { 1 }
}

const NEWEST: u64 = 2;
const MAX_RECORDED_BY: usize = 256;

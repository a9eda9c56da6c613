//! Validate: what was verified, against what is admitted.

mod firmware;
mod launch;
mod lock;
mod measurements;
mod most_specific;
#[cfg(feature = "processors")]
mod processor;
#[cfg(feature = "processors")]
mod snp;
#[cfg(feature = "processors")]
mod tdx;

use latchkey_tpm::wire::EkTemplate;
use serde::Serialize;

use crate::parse::{Component, Digest, ImageVersion, PcrSet, PcrValues};
use crate::policy::{Policy, by_name};
use crate::reference::{ManifestName, PlatformProfile, References, Source};
use crate::refusal::Refusal;
#[cfg(not(feature = "processors"))]
use crate::verify::not_verifiable;
use crate::verify::{EkDigest, EkTrust, VerifiedEvidence};

pub use firmware::FirmwareStanding;
pub use launch::{Covered, KnownLaunch, RecognisedLaunch};
pub use lock::LockExpectation;
pub(crate) use measurements::{Match, match_image};
#[cfg(feature = "processors")]
pub use processor::AdmittedProcessor;
#[cfg(feature = "processors")]
pub(crate) use processor::admit_processor;
#[cfg(feature = "processors")]
pub use snp::AdmittedSnp;
#[cfg(feature = "processors")]
pub use tdx::AdmittedTdx;

/// The witness that evidence was verified and matches the policy. Only [`Policy::validate`] makes one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Admission {
    ek_sha256: EkDigest,
    #[serde(serialize_with = "by_name")]
    ek_template: EkTemplate,
    trust: EkTrust,
    image: AdmittedImage,
    locked: bool,
    pcrs: PcrValues,
    firmware_version: u64,
    reset_count: u32,
    restart_count: u32,
    warnings: Vec<Warning>,
    firmware: FirmwareStanding,
    enforced: PcrSet,
    #[cfg(feature = "processors")]
    #[serde(skip_serializing_if = "Option::is_none")]
    processor: Option<AdmittedProcessor>,
}

impl Admission {
    /// The TPM's stable identity.
    pub fn ek_digest(&self) -> EkDigest {
        self.ek_sha256
    }

    /// Which of the TPM's endorsement keys it is.
    pub fn ek_template(&self) -> EkTemplate {
        self.ek_template
    }

    /// What made the TPM trusted.
    pub fn trust(&self) -> &EkTrust {
        &self.trust
    }

    /// The image the node runs.
    pub fn image(&self) -> &AdmittedImage {
        &self.image
    }

    /// Whether the node is locked to the cluster that was asked for; `false` means not locked to any.
    pub fn locked(&self) -> bool {
        self.locked
    }

    /// The quoted values.
    pub fn pcrs(&self) -> &PcrValues {
        &self.pcrs
    }

    /// The TPM vendor's number of its firmware.
    pub fn firmware_version(&self) -> u64 {
        self.firmware_version
    }

    /// Resets of the TPM since it was cleared: changes with every boot.
    pub fn reset_count(&self) -> u32 {
        self.reset_count
    }

    /// Suspends and resumes since the last reset.
    pub fn restart_count(&self) -> u32 {
        self.restart_count
    }

    /// Differences that the policy only warns about.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Whether the machine's firmware is one that a manifest lists.
    pub fn firmware(&self) -> &FirmwareStanding {
        &self.firmware
    }

    /// The processor that vouched for the machine, where the policy demands one.
    #[cfg(feature = "processors")]
    pub fn processor(&self) -> Option<&AdmittedProcessor> {
        self.processor.as_ref()
    }

    /// The registers that had to have the manifest's value, on the machine type that matched: it decided on them.
    pub fn enforced(&self) -> PcrSet {
        self.enforced
    }
}

/// The image of the reference values that the evidence matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdmittedImage {
    /// The manifest it is in.
    pub manifest: ManifestName,
    /// The manifest's revision.
    pub serial: u64,
    /// Whether its values were recorded or predicted.
    pub source: Source,
    /// Name of the image.
    pub name: String,
    /// Version of the image.
    pub version: ImageVersion,
    /// The machine type whose values the evidence has.
    pub machine: String,
}

#[cfg(feature = "processors")]
impl AdmittedImage {
    /// Whether both are one image of one manifest, on whatever type of machine.
    fn is_the_image_of(&self, other: &Self) -> bool {
        let of = |image: &Self| (image.manifest.clone(), image.name.clone(), image.version);
        of(self) == of(other)
    }
}

/// How evidence stands beside one machine type of one image: for people who ask why, never for admission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The image and machine type.
    pub image: AdmittedImage,
    /// Enforced PCRs that have another value, ascending.
    pub differing: Vec<DifferingPcr>,
    /// The one of them that tells what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_specific: Option<u8>,
    /// Why this is refused whatever is measured of the image: it is too old, not valid now or revoked, or the firmware is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forbidden: Option<Refusal>,
}

impl Comparison {
    /// Whether the measurements are this image's on this machine type, and it may run.
    pub fn passes(&self) -> bool {
        self.differing.is_empty() && self.forbidden.is_none()
    }
}

/// An enforced PCR that does not have the value it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DifferingPcr {
    /// PCR index.
    pub pcr: u8,
    /// What is measured into it.
    pub component: Component,
    /// The reference value, absent where the image has none.
    pub expected: Option<Digest>,
    /// The value in the evidence, absent where it has none.
    pub got: Option<Digest>,
}

/// A PCR that differs and is only warned about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// PCR index.
    pub pcr: u8,
    /// What is measured into it.
    pub component: Component,
    /// The reference value.
    pub expected: Digest,
    /// The quoted value.
    pub got: Digest,
}

impl Policy {
    /// Compares these PCR values with every machine type of every image that the policy names, at `now` (seconds since the
    /// Unix epoch). Nothing is admitted by it: [`Self::validate`] decides.
    pub fn compare(&self, pcrs: &PcrValues, references: &References, now: u64) -> Vec<Comparison> {
        measurements::compare_all(self, pcrs, references, now)
    }

    /// The machine type that these PCR values come closest to: what a refusal compares with, and whose
    /// [events](crate::reference::PlatformProfile::events) a log can be held against.
    pub fn closest<'a>(&'a self, pcrs: &'a PcrValues, references: &'a References) -> Option<&'a PlatformProfile> {
        measurements::closest(self, pcrs, references)
    }

    /// Decides on verified evidence: one machine type of one image must have all enforced values, the image must be recent
    /// enough, valid `now` (seconds since the Unix epoch) and not revoked, the firmware known where the policy says so, and the lock
    /// must stand as `lock` says. Where the policy
    /// has a section `snp` or `tdx`, a processor must have vouched for the machine as it says; a SEV-SNP guest must have been launched
    /// with the same image.
    ///
    /// # Errors
    /// * `…-differs`: no image matches; the refusal's difference names the PCR of the closest image that tells what is wrong,
    ///   and all that differ.
    /// * `image-version-too-old`, `image-not-yet-valid`, `image-expired`, `image-revoked`.
    /// * `firmware-unknown`.
    /// * `already-locked`, `not-locked`, `locked-to-another-cluster`.
    /// * `snp-…`, `tdx-…`, `launch-unknown`, `launch-of-another-image`: what the processor says.
    pub fn validate(
        &self,
        evidence: &VerifiedEvidence,
        references: &References,
        lock: LockExpectation,
        now: u64,
    ) -> Result<Admission, Refusal> {
        let Match { image, warnings, firmware, enforced } = match_image(self, evidence.pcrs(), references, now)?;
        let locked = lock.check(evidence.pcrs())?;
        #[cfg(feature = "processors")]
        let processor = admit_processor(self, evidence.processor(), &image, references, now)?;
        #[cfg(not(feature = "processors"))]
        if let Some(kind) = self.processors().first() {
            return Err(not_verifiable(*kind, "this program verifies no processor's word"));
        }
        Ok(Admission {
            ek_sha256: evidence.ek_digest(),
            ek_template: evidence.ek_template(),
            trust: evidence.trust().clone(),
            image,
            locked,
            pcrs: evidence.pcrs().clone(),
            firmware_version: evidence.firmware_version(),
            reset_count: evidence.clock().reset_count,
            restart_count: evidence.clock().restart_count,
            warnings,
            firmware,
            enforced,
            #[cfg(feature = "processors")]
            processor,
        })
    }
}

/// PCRs that must equal the machine type's values: the stricter of policy and manifest wins.
fn enforced(policy: &Policy, machine: &PlatformProfile) -> PcrSet {
    policy.enforce.union(machine.enforced())
}

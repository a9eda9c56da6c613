//! Reference values: which measurements which image has. Closed, versioned JSON; empty refuses.
//!
//! ```json
//! {
//!   "version": 2,
//!   "name": "demo",
//!   "serial": 1795000000,
//!   "images": [{
//!     "name": "latchkey-demo", "version": "1.0.0", "not_before": 1795000000, "not_after": 1830000000,
//!     "source": "predicted",
//!     "provenance": {"_type": "https://in-toto.io/Statement/v1", …},
//!     "machines": [{
//!       "machine": "qemu-ovmf",
//!       "pcrs": {"4": {"value": "<64 hex digits>", "rule": "enforce"}, "0": {"value": "…", "rule": "warn"}},
//!       "events": [{"pcr": 4, "type": "EV_EFI_ACTION", "what": "…", "digest": "<64 hex digits>"}, …],
//!       "snp_launch": [{"digest": "<96 hex digits>", "firmware_sha256": "<64 hex digits>", "kernel_hashes": true,
//!                       "vcpus": 4, "vcpu_type": "EPYC-v4", "guest_features": 1}],
//!       "tdx": {"kernel_measures": "tpm", "rtmrs": {"2": "<96 hex digits>"}}
//!     }]
//!   }],
//!   "revoked": [{"name": "latchkey-demo", "version": "0.9.0", "why": "CVE-2026-0001 in its kernel"}]
//! }
//! ```
//!
//! The stricter of policy and image wins: a PCR is enforced when either says so. The serial only ever grows: a verifier
//! that remembers refuses an older manifest of the same name. A version of an image has one set of values for a machine
//! type: what measures otherwise is another version, or another type of machine.
//!
//! A file on its way to a verifier changes type with what is known of it: [`ManifestFile`] is bytes, [`AuthenticManifest`]
//! was signed by whom the policy names (or is trusted as a local file because the policy says so) and then parsed, and only
//! such make [`References`].

mod authentic;
mod event;
mod image;
mod launch;
mod platform_profile;
mod provenance;
mod set;
mod tdx;
mod time;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::parse::{Digest, ImageVersion, PcrSet, from_json};
use crate::policy::{Policy, resettable};
use crate::refusal::{ReasonCode, Refusal};
use crate::verify::VerifiedEvidence;

pub use crate::name::ManifestName;
pub use crate::parse::{LaunchDigest, Rtmr};
pub use crate::signature::{KeyId, PublicKeyError, Signature, SignerKey};
pub use authentic::{AuthenticManifest, Authority, ManifestFile, Revision};
pub use event::ExpectedEvent;
pub use image::{Image, Revocation, Source};
pub use launch::SnpLaunch;
pub use platform_profile::{PlatformProfile, Reference, Rule};
pub use provenance::{Artefact, BUILDER, BUILT, Digests, Origin, Provenance, RECORDED};
pub use set::References;
pub use tdx::{KernelMeasures, TdxRegisters};
pub use time::{format_rfc3339, parse_rfc3339};

/// One manifest: images that may run, with their measurements and where these come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReferenceValues {
    version: u64,
    name: ManifestName,
    serial: u64,
    images: Vec<Image>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<Revocation>,
}

impl ReferenceValues {
    /// Largest file that is read: 1 MiB.
    pub const MAX_JSON: usize = 1024 * 1024;

    /// Reads a manifest of at most [`Self::MAX_JSON`] bytes, whoever wrote it. For verifiers there is [`ManifestFile`].
    ///
    /// # Errors
    /// `reference-malformed`, `reference-version-unknown`, `reference-empty`.
    pub fn from_json(json: &[u8]) -> Result<Self, Refusal> {
        let VersionOnly { version } = from_json(json, Self::MAX_JSON, ReasonCode::ReferenceMalformed)?;
        if version != VERSION {
            let detail = format!("expected reference version {VERSION}, got {version}");
            return Err(Refusal::new(ReasonCode::ReferenceVersionUnknown, detail));
        }
        let file: ReferenceFile = from_json(json, Self::MAX_JSON, ReasonCode::ReferenceMalformed)?;
        Self::new(file.name, file.serial, file.images, file.revoked)
    }

    /// A manifest of these images: 1 to 256, and at most as many revocations. `serial` is 1 or more.
    ///
    /// # Errors
    /// `reference-empty`, `reference-malformed`.
    pub fn new(name: ManifestName, serial: u64, images: Vec<Image>, revoked: Vec<Revocation>) -> Result<Self, Refusal> {
        if images.is_empty() {
            return Err(Refusal::new(ReasonCode::ReferenceEmpty, "`images` lists no image"));
        }
        if images.len() > MAX_IMAGES || revoked.len() > MAX_IMAGES {
            let detail = format!("{} images, {} revoked; at most {MAX_IMAGES} are read", images.len(), revoked.len());
            return Err(malformed(detail));
        }
        if !(1..=MAX_SERIAL).contains(&serial) {
            return Err(malformed(format!("`serial` is {serial}, expected 1 to {MAX_SERIAL}")));
        }
        images.iter().try_for_each(Image::check)?;
        revoked.iter().try_for_each(Revocation::check)?;
        check_once(&images)?;
        if let Some(Revocation { name, version, .. }) =
            first_twice(&revoked, |a, b| (&a.name, a.version) == (&b.name, b.version))
        {
            return Err(malformed(format!("{name} {version} is revoked twice")));
        }
        Ok(Self { version: VERSION, name, serial, images, revoked })
    }

    /// A manifest with one image whose values were computed from its files, for 1 to 32 machine types.
    ///
    /// # Errors
    /// `reference-empty`, `reference-malformed`.
    pub fn predicted(about: &Description<'_>, origin: Origin, machines: Vec<PlatformProfile>) -> Result<Self, Refusal> {
        Self::of_one(about, Source::Predicted, origin, machines)
    }

    /// A manifest with one image: what this machine, whose evidence was verified, is running now. The caller states that
    /// the boot was trusted; nothing here can know it.
    ///
    /// `policy` decides which PCRs are taken and whether they are enforced. PCR 15 is the lock's and never taken. `events`
    /// are those that the machine's log tells of, if any.
    ///
    /// # Errors
    /// `reference-unfit` when the evidence lacks a PCR of the policy; `reference-malformed` for an unusable name.
    pub fn record(
        about: &Description<'_>,
        machine: &str,
        evidence: &VerifiedEvidence,
        policy: &Policy,
        events: Vec<ExpectedEvent>,
    ) -> Result<Self, Refusal> {
        let reference = |index, rule| match evidence.pcrs().value(index) {
            Some(value) => Ok((index, Reference { value, rule })),
            None => Err(Refusal::new(ReasonCode::ReferenceUnfit, format!("the evidence does not cover PCR {index}"))),
        };
        let enforced = policy.enforce.iter().map(|index| reference(index, Rule::Enforce));
        let warned = policy.warn.iter().map(|index| reference(index, Rule::Warn));
        let pcrs = enforced.chain(warned).collect::<Result<_, _>>()?;
        let ek = Digest(*evidence.ek_digest().as_bytes());
        let origin = Origin {
            products: [("values of the quoted registers".to_owned(), digest_of(evidence.pcrs()))].into(),
            sources: [("endorsement key of the recorded machine".to_owned(), ek)].into(),
            ..Origin::default()
        };
        Self::recorded(about, origin, vec![PlatformProfile::new(machine, pcrs).with_events(events)])
    }

    /// A manifest with one image whose values were read from a boot that the caller vouches for.
    ///
    /// # Errors
    /// `reference-empty`, `reference-malformed`.
    pub fn recorded(about: &Description<'_>, origin: Origin, machines: Vec<PlatformProfile>) -> Result<Self, Refusal> {
        Self::of_one(about, Source::Recorded, origin, machines)
    }

    fn of_one(
        about: &Description<'_>,
        source: Source,
        origin: Origin,
        machines: Vec<PlatformProfile>,
    ) -> Result<Self, Refusal> {
        let build_type = if source == Source::Recorded { RECORDED } else { BUILT }.to_owned();
        let origin = Origin { build_type, by: about.by.to_owned(), at: about.at, ..origin };
        let provenance = Provenance::new(about.image, about.version, origin);
        let image = Image::new(about.image, about.version, source, provenance, machines);
        Self::new(about.manifest.clone(), about.serial, vec![image], Vec::new())
    }

    /// The next revision of this manifest: what `change` makes of its images and revocations, under a higher serial.
    ///
    /// # Errors
    /// `reference-malformed` when `serial` is not higher; and as [`Self::new`].
    pub fn edited(
        &self,
        serial: u64,
        change: impl FnOnce(&mut Vec<Image>, &mut Vec<Revocation>),
    ) -> Result<Self, Refusal> {
        if serial <= self.serial {
            return Err(malformed(format!("`serial` is {serial}, and {} is taken already", self.serial)));
        }
        let (mut images, mut revoked) = (self.images.clone(), self.revoked.clone());
        change(&mut images, &mut revoked);
        Self::new(self.name.clone(), serial, images, revoked)
    }

    /// The JSON form, for a file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Name by which policies refer to it.
    pub fn name(&self) -> &ManifestName {
        &self.name
    }

    /// Which revision this is: a newer one has a higher number.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The images.
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// What must not run any more.
    pub fn revoked(&self) -> &[Revocation] {
        &self.revoked
    }

    /// What this revision revokes and `next` does not: what would run again, if anything still has its measurements.
    pub fn revocations_missing_in<'a>(&'a self, next: &'a Self) -> impl Iterator<Item = &'a Revocation> {
        self.revoked.iter().filter(|revoked| next.revocation(&revoked.name, revoked.version).is_none())
    }

    /// Why this version of an image must not run any more, if so.
    pub fn revocation(&self, image: &str, version: ImageVersion) -> Option<&Revocation> {
        self.revoked.iter().find(|revoked| revoked.name == image && revoked.version == version)
    }
}

/// What the maker of a manifest with one image says of it.
#[derive(Debug, Clone)]
pub struct Description<'a> {
    /// Name by which policies refer to the manifest.
    pub manifest: ManifestName,
    /// Its revision, 1 or more. Seconds since the Unix epoch make a good one.
    pub serial: u64,
    /// Name of the image.
    pub image: &'a str,
    /// Version of the image.
    pub version: ImageVersion,
    /// Program and place that made the manifest.
    pub by: &'a str,
    /// When, in seconds since the Unix epoch; absent where the file must not depend on it.
    pub at: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReferenceFile {
    #[expect(dead_code, reason = "checked before the rest is read")]
    version: u64,
    name: ManifestName,
    serial: u64,
    images: Vec<Image>,
    #[serde(default)]
    revoked: Vec<Revocation>,
}

/// Only the version is read first, so that a newer file is refused as newer and not as full of unknown fields.
#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

/// Two sets of values under one name could not be told apart by whoever signs, nor be revoked one by one.
fn check_once(images: &[Image]) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for image in images {
        for machine in image.machines() {
            if !seen.insert((image.name(), image.version(), machine.name())) {
                let (label, machine) = (image.label(), machine.name());
                let detail = "give the other one a version, or a name of the machine type, of its own";
                return Err(malformed(format!("image {label} is listed twice for machine {machine}: {detail}")));
            }
        }
    }
    Ok(())
}

fn first_twice<T>(list: &[T], same: impl Fn(&T, &T) -> bool) -> Option<&T> {
    let twice = |&(at, item): &(usize, &T)| list.iter().take(at).any(|earlier| same(earlier, item));
    list.iter().enumerate().find(twice).map(|(_, item)| item)
}

/// One digest for what a quote covers: index and value of each register, ascending.
fn digest_of(pcrs: &crate::parse::PcrValues) -> Digest {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for (index, value) in pcrs.iter() {
        hash.update(&[index]);
        hash.update(value.as_bytes());
    }
    let mut out = Digest::ZERO;
    out.0.copy_from_slice(hash.finish().as_ref());
    out
}

fn malformed(detail: impl Into<String>) -> Refusal {
    Refusal::new(ReasonCode::ReferenceMalformed, detail)
}

/// PCRs that a manifest may speak about: all but the lock's and those that anybody may reset.
pub(crate) fn allowed() -> PcrSet {
    let lock = PcrSet::EMPTY.with(Policy::LOCK_PCR).unwrap_or(PcrSet::EMPTY);
    PcrSet::all().without(lock).without(resettable())
}

const VERSION: u64 = 2;
const MAX_IMAGES: usize = 256;
/// JSON numbers are exact up to here in every reader (RFC 8259, section 6).
const MAX_SERIAL: u64 = (1 << 53) - 1;
